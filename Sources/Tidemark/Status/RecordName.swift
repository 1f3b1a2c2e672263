import Foundation
import GRDB
import TidemarkCore

/// A record by its table and key: `RecordName("player", 7)`.
///
/// A new record may have a temporary id. The name with that id stays good when the record gets another one.
public struct RecordName: Hashable, Sendable {
    /// The table.
    public let table: String
    /// The key.
    public let key: RecordKey

    /// Creates a name.
    public init(_ table: String, _ key: RecordKey) {
        self.table = table
        self.key = key
    }

    /// Throws `unknownTable` if the table does not sync, and `invalidKey` without a value of a key column.
    init<Record: EncodableRecord & TableRecord>(of record: Record, in schema: SyncSchema) throws {
        let table = try Self.table(Record.databaseTableName, in: schema)
        let values = try record.databaseDictionary
        let key = try table.key.map { column in
            let value = values[column] ?? values.first { $0.key.lowercased() == column.lowercased() }?.value
            guard let value, !value.isNull else {
                throw TidemarkError(
                    .invalidKey, "The record has no value in the key column \(column).",
                    fix: "Insert the record first, and name it by the id that it then has.",
                    place: .init(table: table.name, column: column))
            }
            return value
        }
        self.init(table.name, RecordKey(key))
    }

    /// Reads a name as people write it: `player/7`, `country/DE` or `city/DE,7`; throws `unknownTable`, `invalidKey`.
    ///
    /// A slash, a comma or a percent sign within a part is percent-encoded.
    package init(path: String, in schema: SyncSchema) throws(TidemarkError) {
        let parts = path.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, !parts[0].isEmpty, !parts[1].isEmpty else {
            throw TidemarkError(
                .invalidKey, "\(path) names no record.",
                fix: "Write TABLE/KEY, for instance player/7, or city/DE,7 for a key of several columns.")
        }
        let table = try Self.table(parts[0].removingPercentEncoding ?? String(parts[0]), in: schema)
        let key = try RecordPath.key(parts[1], of: table) { $0.removingPercentEncoding }
        self.init(table.name, RecordKey(json: key))
    }

    /// Returns the name with the file's spelling of the table; throws `unknownTable`, or `invalidKey` for a misfit.
    func require(in schema: SyncSchema) throws(TidemarkError) -> RecordName {
        let table = try Self.table(table, in: schema)
        let fits =
            switch table.keyKind {
            case .integer: Int64(key.json) != nil
            case .text: key.json.hasPrefix("\"") || key.json.hasPrefix("{")
            case .general: key.columnCount == table.key.count
            }
        guard fits else {
            throw TidemarkError(
                .invalidKey, "The key does not fit the table's key columns: \(table.key.joined(separator: ", ")).",
                fix: "Name the record by one value for each key column, in their order.",
                place: .init(table: table.name, key: key.json))
        }
        return RecordName(table.name, key)
    }

    private static func table(_ name: String, in schema: SyncSchema) throws(TidemarkError) -> SyncedTable {
        let found = schema.byName[name] ?? schema.tables.first { $0.name.lowercased() == name.lowercased() }
        guard let found else {
            throw TidemarkError(
                .unknownTable, "The file has no synced table of this name.",
                fix: "`tidemark schema FILE` names the tables that do not sync, and why.", place: .init(table: name))
        }
        return found
    }
}
