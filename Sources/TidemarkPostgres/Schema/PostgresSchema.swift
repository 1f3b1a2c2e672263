import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// The served tables, both as devices declare them and as PostgreSQL has them.
struct PostgresSchema: Sendable {
    let schema: SyncSchema
    let tables: [String: PostgresTable]
    /// The schema in wire format, JSON.
    let text: String
    let hash: String
    /// The catalogue's position, which shows a transaction whether the tables are unaltered.
    var position = CataloguePosition(version: 0, fingerprint: "")
    /// The PostgreSQL schema of the tables.
    var namespace = ""
    /// Whether tables have triggers of the app, which may write any rows.
    var hasTriggers = false
    private let tableWays: [TableWays]

    init(_ schema: SyncSchema, _ tables: [PostgresTable]) throws {
        self.schema = schema
        self.tables = Dictionary(uniqueKeysWithValues: tables.map { ($0.table.name, $0) })
        text = try SchemaText.encode(schema)
        hash = ContentHash.of(text)
        let served = self.tables
        tableWays = schema.tables.map { served[$0.name]?.ways ?? TableWays { _ in true } }
    }

    /// What a commit must know of the tables.
    var ways: ZoneWays { ZoneWays(schema: schema, isLocal: false, hasFarEffects: hasTriggers, tables: tableWays) }

    /// Reads served tables from the catalogue at a `position` that the caller read first, to notice later alterations.
    init(_ record: ServedRecord, at position: CataloguePosition, _ pg: PostgresConnection) throws {
        let tables = try record.schema.tables.map {
            try PostgresCatalog.table($0, namespace: record.namespace, zoneColumn: record.zoneColumn, pg)
        }
        try self.init(record.schema, tables)
        namespace = record.namespace
        hasTriggers = try PostgresCatalog.hasTriggers(record.schema.tables.map(\.name), namespace: namespace, pg: pg)
        self.position = position
    }
}

/// Reads synced tables from PostgreSQL's catalogue.
enum PostgresCatalog {
    static func table(_ table: SyncedTable, namespace: String, zoneColumn: String?, _ pg: PostgresConnection) throws
        -> PostgresTable
    {
        let columns = try pg.query(
            """
            SELECT attribute.attname, format_type(attribute.atttypid, attribute.atttypmod),
                CASE WHEN attribute.attgenerated = '' THEN pg_get_expr(preset.adbin, preset.adrelid) END,
                attribute.attgenerated <> ''
            FROM pg_attribute AS attribute
            LEFT JOIN pg_attrdef AS preset
                ON preset.adrelid = attribute.attrelid AND preset.adnum = attribute.attnum
            WHERE attribute.attrelid = to_regclass($1) AND attribute.attnum > 0 AND NOT attribute.attisdropped
            """,
            ["\(SQLText.name(namespace)).\(SQLText.name(table.name))"])
        guard !columns.isEmpty else {
            throw TidemarkError(
                .unusableFile, "The served table \(namespace).\(table.name) is not in the database.",
                fix: "Restore it, or serve a new database.", place: .init(table: table.name))
        }
        let names = columns.map { ($0.text(0), $0.text(1), $0[2]) }
        let generated = columns.map { $0 }.filter { $0.isTrue(3) }.map { $0.text(0) }
        return PostgresTable(
            table: table, namespace: namespace, zoneColumn: zoneColumn,
            types: Dictionary(uniqueKeysWithValues: names.map { ($0.0, $0.1) }), generated: Set(generated),
            defaults: names.reduce(into: [:]) { $0[$1.0] = $1.2 },
            sequence: try pg.text(
                "SELECT pg_get_serial_sequence($1, $2)",
                ["\(SQLText.name(namespace)).\(SQLText.name(table.name))", table.key[0]]),
            uniques: try uniques(table, namespace: namespace, zoneColumn: zoneColumn, pg: pg))
    }

    /// Checks whether a table has a trigger or rule of the app.
    static func hasTriggers(_ tables: [String], namespace: String, pg: PostgresConnection) throws -> Bool {
        try pg.query(
            """
            SELECT EXISTS (
                SELECT 1
                FROM pg_class AS class
                LEFT JOIN pg_trigger AS fired ON fired.tgrelid = class.oid
                WHERE class.relnamespace = to_regnamespace($1) AND class.relname = ANY ($2::text[])
                    AND (class.relhasrules OR NOT fired.tgisinternal AND fired.tgname <> ALL ($3::text[])))
            """,
            [SQLText.name(namespace), PostgresArray.quoted(tables), PostgresArray.quoted(CaptureTriggers.names)]
        )[0].isTrue(0)
    }

    /// Returns the columns of each unique index except the key's, by its name.
    private static func uniques(_ table: SyncedTable, namespace: String, zoneColumn: String?, pg: PostgresConnection)
        throws -> [String: [String]]
    {
        let rows = try pg.query(
            """
            SELECT class.relname, attribute.attname
            FROM pg_index AS index
            JOIN pg_class AS class ON class.oid = index.indexrelid
            LEFT JOIN LATERAL unnest(index.indkey) WITH ORDINALITY AS part (attnum, place) ON true
            LEFT JOIN pg_attribute AS attribute
                ON attribute.attrelid = index.indrelid AND attribute.attnum = part.attnum AND part.attnum > 0
            WHERE index.indrelid = to_regclass($1) AND index.indisunique AND NOT index.indisprimary
            ORDER BY class.relname, part.place
            """,
            ["\(SQLText.name(namespace)).\(SQLText.name(table.name))"])
        var uniques: [String: [String]] = [:]
        for row in rows.map({ ($0.text(0), $0[1]) }) {
            let columns = [row.1].compactMap { $0 }.filter { $0 != zoneColumn }
            uniques[row.0, default: []] += columns
        }
        return uniques
    }
}
