import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// The tables that are served, both as devices know them and as PostgreSQL has them.
struct PostgresSchema: Hashable, Sendable {
    let schema: SyncSchema
    let tables: [String: PostgresTable]
    /// The schema as it is sent, JSON.
    let text: String
    /// Its hash.
    let hash: String
    /// The hash of what rows are hashed as.
    let shape: String
    /// By what a transaction tells that it is still the same.
    var position = CataloguePosition(version: 0, fingerprint: "")
    /// PostgreSQL's schema in which the tables are.
    var namespace = ""
    /// Whether tables have triggers of the app's own, which may write anything.
    var hasTriggers = false

    init(_ schema: SyncSchema, _ tables: [PostgresTable]) throws {
        self.schema = schema
        self.tables = Dictionary(uniqueKeysWithValues: tables.map { ($0.table.name, $0) })
        text = try SchemaText.encode(schema)
        hash = ContentHash.of(text)
        shape = ContentHash.of(schema.shape)
    }

    /// Reads how the tables that are served look in PostgreSQL's catalogue.
    ///
    /// `position` was read before it was found that they are these: what is altered from then on
    /// is noticed by whoever compares.
    init(_ record: ServedRecord, at position: CataloguePosition, _ pg: PostgresConnection) throws {
        let tables = try record.schema.tables.map {
            try PostgresCatalog.table($0, namespace: record.namespace, zoneColumn: record.zoneColumn, pg)
        }
        try self.init(record.schema, tables)
        namespace = record.namespace
        hasTriggers = try PostgresCatalog.hasTriggers(record.schema.tables.map(\.name), namespace, pg)
        self.position = position
    }
}

/// What PostgreSQL's catalogue says of a synced table.
enum PostgresCatalog {
    static func table(_ table: SyncedTable, namespace: String, zoneColumn: String?, _ pg: PostgresConnection) throws
        -> PostgresTable
    {
        let columns = try pg.query(
            """
            SELECT a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid)
            FROM pg_attribute AS a LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
            WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
            """,
            ["\(SQLText.name(namespace)).\(SQLText.name(table.name))"]
        )
        guard !columns.isEmpty else {
            throw TidemarkError(
                .unusableFile,
                "The table \(namespace).\(table.name), which is served, is not in the database.",
                fix: "Restore it, or serve the database anew.",
                place: .init(table: table.name)
            )
        }
        let names = columns.map { ($0.text(0), $0.text(1), $0[2]) }
        return PostgresTable(
            table: table,
            namespace: namespace,
            zoneColumn: zoneColumn,
            types: Dictionary(uniqueKeysWithValues: names.map { ($0.0, $0.1) }),
            defaults: names.reduce(into: [:]) { $0[$1.0] = $1.2 },
            sequence: try pg.text(
                "SELECT pg_get_serial_sequence($1, $2)",
                ["\(SQLText.name(namespace)).\(SQLText.name(table.name))", table.key[0]]
            ),
            uniques: try uniques(table, namespace, zoneColumn, pg)
        )
    }

    /// Whether a table has a trigger or a rule that is not the engine's.
    static func hasTriggers(_ tables: [String], _ namespace: String, _ pg: PostgresConnection) throws -> Bool {
        try pg.query(
            """
            SELECT EXISTS (
                SELECT 1 FROM pg_class AS c LEFT JOIN pg_trigger AS t ON t.tgrelid = c.oid
                WHERE c.relnamespace = to_regnamespace($1) AND c.relname = ANY ($2::text[])
                    AND (c.relhasrules OR NOT t.tgisinternal AND t.tgname <> ALL ($3::text[])))
            """,
            [SQLText.name(namespace), PostgresArray.quoted(tables), PostgresArray.quoted(CaptureTriggers.names)]
        )[0].isTrue(0)
    }

    /// The columns of each unique index apart from the key's, by its name.
    private static func uniques(
        _ table: SyncedTable,
        _ namespace: String,
        _ zoneColumn: String?,
        _ pg: PostgresConnection
    ) throws -> [String: [String]] {
        let rows = try pg.query(
            """
            SELECT c.relname, a.attname
            FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
            LEFT JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, place) ON true
            LEFT JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0
            WHERE i.indrelid = to_regclass($1) AND i.indisunique AND NOT i.indisprimary
            ORDER BY c.relname, k.place
            """,
            ["\(SQLText.name(namespace)).\(SQLText.name(table.name))"]
        )
        var uniques: [String: [String]] = [:]
        for row in rows.map({ ($0.text(0), $0[1]) }) {
            let columns = [row.1].compactMap { $0 }.filter { $0 != zoneColumn }
            uniques[row.0, default: []] += columns
        }
        return uniques
    }
}
