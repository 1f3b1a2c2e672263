import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// A device's tables, held against those that its zone serves.
struct FileSchema: Sendable {
    /// The tables that sync, as they are in the file, with what both sides do not have in common.
    let common: SyncSchema
    /// Why they cannot sync; empty when they can.
    let problems: [TidemarkError]
    /// The hash of the zone's schema as the file knows it; nil before the first snapshot.
    let servedHash: String?
    /// Whether all of the zone's tables and columns are here, under the same names, and no others
    /// in those tables.
    let isZones: Bool
    /// The tables that sync, as they are in the file, in a form that can be kept.
    let localText: String

    /// Reads the file's own tables, limited to those that the server syncs once that is known.
    init(served: String?, renames: String?, in db: Database) throws {
        let local = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT group_concat(sql, char(10)) FROM main.sqlite_master
                    WHERE type IN ('table', 'index') AND name NOT LIKE 'tidemark~_%' ESCAPE '~'
                    """
            )
        )
        self = try SchemaMemo.schema(for: [served, renames, local]) {
            let introspection = try SchemaIntrospection(db)
            guard let served else {
                return try FileSchema(common: introspection.validated(), problems: [], servedHash: nil, isZones: false)
            }
            return try FileSchema(local: introspection.tables, served: served, renames: Renames.decode(renames))
        }
    }

    /// Compares tables with a zone's.
    init(local: [SyncedTable], served: String, renames: [ColumnRename]) throws {
        let zone = try SchemaText.decode(served)
        let comparison = SchemaComparison(local: local, served: zone, renames: renames)
        try SchemaIntrospection.validate(comparison.common)
        try self.init(
            common: comparison.common,
            problems: comparison.problems,
            servedHash: ContentHash.of(served),
            isZones: comparison.common.shape == zone.shape
        )
    }

    private init(common: SyncSchema, problems: [TidemarkError], servedHash: String?, isZones: Bool) throws {
        self.common = common
        self.problems = problems
        self.servedHash = servedHash
        self.isZones = isZones
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        localText = String(decoding: try encoder.encode(common.tables.sorted { $0.name < $1.name }), as: UTF8.self)
    }

    /// Reads what ``localText`` was kept as.
    static func tables(_ text: String) throws -> [SyncedTable] {
        try JSONDecoder().decode([SyncedTable].self, from: Data(text.utf8))
    }
}

/// The renames that an app declares, as they are kept in its file.
enum Renames {
    /// As JSON: `[["notes","body","text"]]`.
    static func encode(_ renames: [ColumnRename]) throws -> String {
        let parts = renames.map { [$0.table, $0.old, $0.new] }
        return String(decoding: try JSONEncoder().encode(parts), as: UTF8.self)
    }

    static func decode(_ text: String?) throws -> [ColumnRename] {
        guard let text else { return [] }
        return try JSONDecoder().decode([[String]].self, from: Data(text.utf8)).map {
            ColumnRename(table: $0[0], old: $0[1], new: $0[2])
        }
    }
}
