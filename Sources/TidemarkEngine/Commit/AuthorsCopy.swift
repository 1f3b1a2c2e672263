import TidemarkCore

/// An accepted change set as its author receives it: the logged body with the temporary ids.
///
/// The log has the body, so a verdict stores only the ids. Only the author gets overruled values: such a copy is whole.
package struct AuthorsCopy: Sendable {
    /// The whole copy, if log and ids are not enough.
    private let whole: String?
    private let ids: String?
    /// The logged body; empty when it was compacted or is not needed.
    private let logged: String?

    package init(whole: String?, ids: String?, logged: String?) {
        self.whole = whole
        self.ids = ids
        self.logged = logged
    }

    /// Renders JSON; only the ids without a logged body: one that is compacted or was committed as sent needs no more.
    package func render() throws -> String {
        if let whole { return whole }
        guard let logged, !logged.isEmpty else { return try Self.require(ids) }
        return try ids.map { try Self.require(Self.insertIds($0, into: logged)) } ?? logged
    }

    private static func require(_ text: String?) throws -> String {
        guard let text else {
            throw TidemarkError(
                .internalFailure, "The stored answer to a change set cannot be read.", fix: "Please report this.")
        }
        return text
    }

    /// Inserts the members of each record in `ids` before the record's members in `logged`, in one scan and copy.
    ///
    /// Returns nil when a text is no change set. The server wrote both, so a record's name has the same bytes in both.
    private static func insertIds(_ ids: String, into logged: String) -> String? {
        var members: [String: [String: Substring]] = [:]
        var text = [UInt8]()
        var copyStart = 0
        var ids = ids
        var logged = logged
        do throws(TidemarkError) {
            try ids.attributes { reader, table, name, range in
                members[table, default: [:]][name] = reader.text(in: range).dropFirst().dropLast()
            }
            text.reserveCapacity(logged.utf8.count + logged.utf8.count / 8)
            try logged.attributes { reader, table, name, range in
                guard let members = members[table]?[name] else { return }
                text += reader.bytes[copyStart...range.lowerBound]
                text += members.utf8
                text.append(UInt8(ascii: ","))
                copyStart = range.lowerBound + 1
            }
        } catch { return nil }
        text += logged.utf8.dropFirst(copyStart)
        return String(decoding: text, as: UTF8.self)
    }
}

extension String {
    /// Visits the attributes of all records of a change set, with the names of the table and the record as they stand.
    fileprivate mutating func attributes(
        _ visit: (_ reader: JSONReader, _ table: String, _ name: String, _ range: Range<Int>) -> Void
    ) throws(TidemarkError) {
        let reading = withUTF8 { bytes in
            Result { () throws(TidemarkError) in
                var reader = try JSONReader(bytes)
                try reader.attributes(visit)
                try reader.finish()
            }
        }
        try reading.get()
    }
}

extension JSONReader {
    fileprivate mutating func attributes(
        _ visit: (_ reader: JSONReader, _ table: String, _ name: String, _ range: Range<Int>) -> Void
    ) throws(TidemarkError) {
        try object(unchecked: true) { (reader, table) throws(TidemarkError) in
            guard try reader.kind() == .object else {
                try reader.skip(unchecked: true)
                return
            }
            let table = reader.text(in: table.range)
            try reader.object(unchecked: true) { (reader, member) throws(TidemarkError) in
                guard reader.equals(member, "attributes") else {
                    try reader.skip(unchecked: true)
                    return
                }
                try reader.object(unchecked: true) { (reader, name) throws(TidemarkError) in
                    let name = reader.text(in: name.range)
                    visit(reader, table, name, try reader.skip(unchecked: true))
                }
            }
        }
    }
}
