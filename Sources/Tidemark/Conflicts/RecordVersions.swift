import GRDB
import TidemarkCore
import TidemarkSQL

/// A conflict's record in three versions, parts of an app's record type; ``Partial/record()`` makes a whole one.
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
    /// - Throws: ``TidemarkCore/ErrorCode/fileDamaged`` if the file's values cannot be read.
    public func versions<Record>(as type: Record.Type) throws -> RecordVersions<Record> {
        let changes = try RecordChanges(json: mine)
        return RecordVersions(
            base: try base.map { try part(RecordChanges(json: $0).values) },
            mine: try mine.map { _ in try part(changes.values) },
            theirs: try theirs.map { try part(RecordChanges(json: $0).values) }, added: changes.deltas)
    }

    private func part<Record>(_ values: [String: DatabaseValue]) throws(TidemarkError) -> Partial<Record> {
        do throws(InvalidValue) {
            let key = keyNames.isEmpty ? [:] : try CanonicalJSON.columns(keyNames, of: key)
            return Partial(values: values.merging(key) { $1 })
        } catch { throw TidemarkError.unreadable("The key of the conflict's record \(table) \(self.key)") }
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
            conflict.records[index].columnNames = schema.byName[records[index].table]?.columns.map(\.name) ?? []
        }
        return conflict
    }
}
