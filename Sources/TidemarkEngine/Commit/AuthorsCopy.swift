import TidemarkCore

/// An accepted change set as its author receives it: the logged body with the temporary ids.
///
/// The log has the body, so a verdict stores only the ids that ``StagedRequest/renderIds(_:ord:)``
/// wrote. Only the author receives overruled values, so the store keeps such a copy whole.
package struct AuthorsCopy: Sendable {
    /// The whole copy, if log and ids are not enough.
    private let whole: String?
    private let ids: String?
    /// The logged body; empty when it was compacted or is not needed.
    private let logged: String?

    /// Makes a copy of stored parts.
    package init(whole: String?, ids: String?, logged: String?) {
        self.whole = whole
        self.ids = ids
        self.logged = logged
    }

    /// Renders the copy as JSON.
    ///
    /// Without a logged body, it renders only the ids. A retry of a compacted change set needs no
    /// more, nor does the author of one that was committed as sent.
    package func render() throws -> String {
        if let whole { return whole }
        guard let logged, !logged.isEmpty else { return try Self.require(ids) }
        return try ids.map { try Self.require(Self.insertIds($0, into: logged)) } ?? logged
    }

    private static func require(_ text: String?) throws -> String {
        guard let text else {
            throw TidemarkError(
                .internalFailure,
                "The stored answer to a change set cannot be read.",
                fix: "Please report this."
            )
        }
        return text
    }

    // MARK: Ids

    /// Inserts the members of each record in `ids` before the record's members in `logged`.
    ///
    /// Returns nil when one of the texts is not a change set. The server wrote both texts, so a
    /// record's name has the same bytes in both. The function scans and copies a long text once.
    private static func insertIds(_ ids: String, into logged: String) -> String? {
        var logged = logged
        var ids = ids
        let membersByTable = ids.withUTF8 { ids -> [String: [String: String]]? in
            let walk = JSONWalk(ids)
            var members: [String: [String: String]] = [:]
            let whole = walk.attributes { table, name, value in
                let member = walk.value(at: value)
                members[table, default: [:]][name] = member.map { walk.text($0) }
                return member
            }
            return whole.map { _ in members }
        }
        guard let membersByTable else { return nil }
        return logged.withUTF8 { logged -> String? in
            let walk = JSONWalk(logged)
            var text = [UInt8]()
            var copyStart = 0
            text.reserveCapacity(logged.count + logged.count / 8)
            let whole = walk.attributes { table, name, value in
                if let members = membersByTable[table]?[name] {
                    text += logged[copyStart...value]
                    text += members.utf8
                    text.append(UInt8(ascii: ","))
                    copyStart = value + 1
                }
                return walk.value(at: value)
            }
            guard whole != nil else { return nil }
            text += logged[copyStart...]
            return String(decoding: text, as: UTF8.self)
        }
    }
}

extension JSONWalk {
    /// Visits the attributes of all records of a change set.
    ///
    /// `visit` gets the quoted names of the table and the record, and the start of the attributes
    /// object. It returns the range of that object.
    fileprivate func attributes(_ visit: (_ table: String, _ name: String, _ value: Int) -> Range<Int>?) -> Range<Int>?
    {
        members(of: 0) { table, part in
            guard isObject(part) else { return value(at: part) }
            let table = text(table)
            return members(of: part) { member, content in
                guard text(member) == "attributes" else { return value(at: content) }
                return members(of: content) { visit(table, text($0), $1) }
            }
        }
    }
}
