import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// A device's tables, compared with its zone's.
struct FileSchema: Sendable {
    /// The tables that sync, as they are in the file, with their differences from the zone's.
    let common: SyncSchema
    /// The reasons why the tables cannot sync; empty if they can.
    private(set) var problems: [TidemarkError]
    /// The hash of the zone's schema that the file has stored; nil before the first snapshot.
    let servedHash: String?
    /// Whether the tables have exactly the zone's columns, under the same names.
    let isZones: Bool
    /// The tables that sync, as they are in the file, as JSON for storage.
    let localText: String
    /// The number of tables whose changes triggers capture.
    private var capturedTables = 0
    /// Whether a table has lost its triggers: another program dropped it and made it again.
    var lacksTriggers: Bool { capturedTables < common.tables.count }

    /// Reads the file's tables, limited to the zone's tables after the first snapshot.
    init(served: String?, renames: String?, in db: Database) throws {
        let row = try Row.fetchOne(
            db,
            cached: """
                SELECT group_concat(sql, char(10)) FILTER (
                        WHERE type IN ('table', 'index') AND name NOT LIKE 'tidemark~_%' ESCAPE '~'),
                    count(*) FILTER (WHERE type = 'trigger' AND name = 'tidemark_after_update_' || tbl_name),
                    count(*) FILTER (WHERE sql LIKE 'CREATE VIRTUAL %')
                FROM main.sqlite_master
                """)
        let local: String? = try row?.value(0)
        self = try SchemaMemo.schema(for: [served, renames, local]) {
            let introspection = try SchemaIntrospection(db)
            guard let served else {
                return try FileSchema(common: introspection.makeSchema(), problems: [], servedHash: nil, isZones: false)
            }
            return try FileSchema(local: introspection.tables, served: served, renames: Renames.decode(renames))
        }
        capturedTables = try row?.value(1) ?? 0
        guard try row?.value(2) ?? 0 > 0 else { return }
        problems += try ShadowTriggers.problems(in: db).map { TidemarkError($0) }
    }

    init(local: [SyncedTable], served: String, renames: [ColumnRename]) throws {
        let zone = try SchemaText.decode(served)
        let comparison = SchemaComparison(local: local, served: zone, renames: renames)
        try SchemaIntrospection.validate(comparison.common)
        try self.init(
            common: comparison.common, problems: comparison.problems, servedHash: ContentHash.of(served),
            isZones: comparison.common.shape == zone.shape)
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

    /// Refuses to write rows while a trigger would end the process: ``TidemarkSQL/ShadowTriggers``.
    func requireSafeTriggers() throws {
        guard let problem = problems.first(where: { $0.code == .unsyncableSchema }) else { return }
        throw problem
    }

    static func tables(_ text: String) throws -> [SyncedTable] {
        try JSONDecoder().decode([SyncedTable].self, from: Data(text.utf8))
    }
}

/// Encodes the renames that an app declares, for storage in its file.
enum Renames {
    /// Returns JSON such as `[["notes","body","text"]]`.
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

extension TidemarkError {
    fileprivate init(_ problem: SchemaProblem) {
        self.init(
            .unsyncableSchema, "\(problem.table) \(problem.reason).",
            fix: "\(problem.cure) Then sync again: edits are kept meanwhile.", place: Place(table: problem.table))
    }
}
