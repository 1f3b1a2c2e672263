import TidemarkCore
import TidemarkSQLite

/// A change set as its author receives it when it was accepted before: what everybody receives,
/// with the ids under which its new records were sent.
///
/// The log has the one already, so a verdict keeps no more than the other: the ids that
/// ``StagedRequest/renderIds(_:ord:)`` wrote. A value that was overruled is the author's alone;
/// such a copy is kept whole.
package struct AuthorsCopy: Sendable {
    /// The whole copy, where the log and the ids do not say all of it.
    private let whole: String?
    private let ids: String?
    /// As everybody receives it; empty when it was compacted, or is not needed.
    private let logged: String?

    /// Takes what a store has kept.
    package init(whole: String?, ids: String?, logged: String?) {
        self.whole = whole
        self.ids = ids
        self.logged = logged
    }

    /// The copy as JSON: of a change set that was compacted, the ids alone are left, which is all
    /// that a retry from there can need; and no more comes of one that is as it was sent, if its
    /// author does without.
    package func render() throws -> String {
        if let whole { return whole }
        guard let logged, !logged.isEmpty else { return try Self.found(ids) }
        return try ids.map { try Self.found(Self.named(logged, ids: $0)) } ?? logged
    }

    private static func found(_ text: String?) throws -> String {
        guard let text else {
            throw TidemarkError(
                .internalFailure,
                "What was answered to a change set before cannot be read.",
                fix: "Please report this."
            )
        }
        return text
    }

    // MARK: Names

    /// A change set with the members that `ids` has of the same records in front of their own; nil
    /// when one of the two is no change set.
    ///
    /// Both texts are ours, so a record has the same name in both, to the byte. A long one is gone
    /// through once, and is in memory once more.
    private static func named(_ logged: String, ids: String) -> String? {
        var logged = logged
        var ids = ids
        let given = ids.withUTF8 { ids -> [String: [String: String]]? in
            let walk = JSONWalk(ids)
            var given: [String: [String: String]] = [:]
            let whole = walk.attributes { table, name, value in
                let member = walk.value(at: value)
                given[table, default: [:]][name] = member.map { walk.text($0) }
                return member
            }
            return whole.map { _ in given }
        }
        guard let given else { return nil }
        return logged.withUTF8 { logged -> String? in
            let walk = JSONWalk(logged)
            var text = [UInt8]()
            var copied = 0
            text.reserveCapacity(logged.count + logged.count / 8)
            let whole = walk.attributes { table, name, value in
                if let members = given[table]?[name] {
                    text += logged[copied...value]
                    text += members.utf8
                    text.append(UInt8(ascii: ","))
                    copied = value + 1
                }
                return walk.value(at: value)
            }
            guard whole != nil else { return nil }
            text += logged[copied...]
            return String(decoding: text, as: UTF8.self)
        }
    }
}

extension JSONWalk {
    /// Goes through the attributes of a change set's records: `visit` gets the table's name and the
    /// record's, as they are written, and where its object begins, and finds that object's place.
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
