import GRDB
import TidemarkCore
import TidemarkSQL

/// A record of a conflict in three versions, as parts of an app's record type.
///
/// ``Partial/record()`` makes a record of a whole version.
public struct RecordVersions<Record>: Hashable, Sendable {
    /// The whole record as the server had confirmed it before the edit; nil if it did not exist.
    public let base: Partial<Record>?
    /// The key, and the columns that the change set sets; nil for a deletion.
    public let mine: Partial<Record>?
    /// The server's whole record; nil if the server has none.
    public let theirs: Partial<Record>?
    /// The numbers that the change set adds to columns; ``mine`` does not have these.
    public let added: [String: Int64]
}

extension Conflict.Record {
    /// The name of the record.
    public var name: RecordName { RecordName(table, RecordKey(json: key)) }

    /// Returns the record's versions as parts of an app's record type.
    ///
    /// - Parameter type: The type.
    /// - Returns: The versions.
    /// - Throws: ``TidemarkCore/ErrorCode/unusableFile`` if the file has damaged values.
    public func versions<Record>(as type: Record.Type) throws -> RecordVersions<Record> {
        do {
            let changes = try mine.map { try CanonicalJSON.members(of: $0) }
            return RecordVersions(
                base: try part(of: base.map { try CanonicalJSON.members(of: $0) }),
                mine: try part(of: changes?.filter { Self.addend($0.value) == nil }),
                theirs: try part(of: theirs.map { try CanonicalJSON.members(of: $0) }),
                added: changes.map(Self.addends) ?? [:]
            )
        } catch is InvalidValue { throw TidemarkError.unreadable("The conflict's record \(table) \(key)") }
    }

    private func part<Record>(of members: [String: String]?) throws -> Partial<Record>? {
        guard let members else { return nil }
        var values = keyNames.isEmpty ? [:] : try CanonicalJSON.columns(keyNames, of: key)
        for (name, json) in members { values[WireName.name(of: name)] = try CanonicalJSON.value(of: json) }
        return Partial(values: values)
    }

    private static func addends(_ members: [String: String]) -> [String: Int64] {
        members.reduce(into: [:]) { $0[WireName.name(of: $1.key)] = addend($1.value) }
    }

    /// Returns the number that a change set adds to a column; nil if it sets the column.
    private static func addend(_ json: String) -> Int64? {
        guard json.hasPrefix(#"{"$add":"#) else { return nil }
        return Int64(json.dropFirst(8).dropLast())
    }
}

extension Conflict {
    /// Reads the parked conflicts, oldest first, as values for an app: with the names of their records' key columns.
    static func all(_ db: Database, schema: SyncSchema) throws -> [Conflict] {
        try all(db).map { $0.withKeyNames(of: schema) }
    }

    private func withKeyNames(of schema: SyncSchema) -> Conflict {
        var conflict = self
        for index in records.indices {
            conflict.records[index].keyNames = schema.byName[records[index].table]?.key ?? []
        }
        return conflict
    }
}
