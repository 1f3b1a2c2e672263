import Foundation
import TidemarkCore
import TidemarkSQLite

/// What the database says that is served: the row of `tidemark.served`.
struct ServedRecord {
    /// PostgreSQL's schema in which the tables are.
    let namespace: String
    /// The column that holds the zone, first in every key; nil when all rows are one zone's.
    let zoneColumn: String?
    /// The tables as devices know them, with all that became of them.
    var schema: SyncSchema
    /// The tables as the catalogue had them when they were followed last.
    var catalogue: [String: CatalogueTable]
    /// Tables that are not synced, because somebody said so or because they were there before.
    var excluded: Set<String>
    /// A number that grows whenever the tables are followed.
    var version: Int64 = 1

    /// Reads it; nil when nothing is served yet.
    static func load(_ pg: PostgresConnection) throws -> ServedRecord? {
        guard let layout = try pg.integer("SELECT layout FROM tidemark.served") else { return nil }
        guard layout == Int64(Bookkeeping.layout) else {
            throw TidemarkError(
                .unusableFile,
                "The database was served by another version of Tidemark, whose bookkeeping has another layout.",
                fix: "Serve it with that version."
            )
        }
        let row = try pg.query(
            "SELECT namespace, zone_column, tables, catalogue, excluded, version FROM tidemark.served"
        )[0]
        let decoder = JSONDecoder()
        return ServedRecord(
            namespace: row.text(0),
            zoneColumn: row[1],
            schema: try SchemaText.decode(row.text(2)),
            catalogue: try decoder.decode([String: CatalogueTable].self, from: Data(row.text(3).utf8)),
            excluded: try decoder.decode(Set<String>.self, from: Data(row.text(4).utf8)),
            version: row.integer(5) ?? 0
        )
    }

    /// Writes it.
    func save(_ pg: PostgresConnection) throws {
        try pg.query(
            """
            INSERT INTO tidemark.served VALUES (1, \(Bookkeeping.layout), $1, $2, $3, $4::bigint, $5, $6)
            ON CONFLICT (id) DO UPDATE SET tables = excluded.tables, version = excluded.version,
                catalogue = excluded.catalogue, excluded = excluded.excluded
            """,
            [
                namespace, zoneColumn, try SchemaText.encode(schema), "\(version)", try Self.json(catalogue),
                try Self.json(excluded.sorted()),
            ]
        )
    }

    private static func json(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }
}

/// A table as PostgreSQL's catalogue has it: by what an altered column is told from a new one.
struct CatalogueTable: Hashable, Codable {
    /// A column.
    struct Column: Hashable, Codable {
        /// Its number, which a rename leaves and no other column gets.
        let number: Int64
        /// Its type, as PostgreSQL spells it.
        let type: String
        /// The labels of its enums, by their numbers, which a renamed one keeps; nil: it has none,
        /// or an earlier version has read it.
        let labels: [String: String]?
    }

    /// The number of the table; a table that is made anew has another one.
    let number: Int64
    /// The columns that can travel.
    let columns: [String: Column]
    /// Whether all triggers are there, fire, and are the table's own.
    var isCaptured: Bool

    /// The labels of the enums that the type of `a` is, or is made of: a domain, an array, a range
    /// or a composite type.
    private static let labels = """
        WITH RECURSIVE part (oid) AS (
            SELECT a.atttypid
            UNION
            SELECT v.oid FROM part JOIN pg_type AS t ON t.oid = part.oid, LATERAL (
                SELECT t.typelem UNION ALL SELECT t.typbasetype
                UNION ALL SELECT r.rngsubtype FROM pg_range AS r
                WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
                UNION ALL SELECT m.atttypid FROM pg_attribute AS m
                WHERE m.attrelid = t.typrelid AND m.attnum > 0) AS v (oid)
            WHERE v.oid <> 0
        )
        SELECT json_object_agg(e.oid::text, e.enumlabel ORDER BY e.oid)
        FROM part JOIN pg_enum AS e ON e.enumtypid = part.oid
        """

    /// Reads tables from the catalogue.
    static func read(_ names: [String], namespace: String, zoneColumn: String?, _ pg: PostgresConnection) throws
        -> [String: CatalogueTable]
    {
        let rows = try pg.query(
            """
            SELECT c.relname, c.oid, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod),
                (SELECT count(*) FROM pg_trigger AS t
                    WHERE t.tgrelid = c.oid AND t.tgenabled = 'A' AND t.tgname = ANY ($3::text[])
                        AND t.tgfoid = to_regproc(f.name)),
                (\(labels))
            FROM unnest($2::text[], $5::text[]) AS f (relname, name)
                JOIN pg_class AS c ON c.relname = f.relname
                JOIN pg_attribute AS a ON a.attrelid = c.oid
            WHERE c.relnamespace = to_regnamespace($1)
                AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
                AND a.attname <> coalesce($4, '')
            """,
            [
                SQLText.name(namespace), PostgresArray.quoted(names), PostgresArray.quoted(CaptureTriggers.names),
                zoneColumn, PostgresArray.quoted(names.map(CaptureTriggers.functionName)),
            ]
        )
        let byTable = Dictionary(grouping: rows.map { $0 }) { $0.text(0) }
        let decoder = JSONDecoder()
        return try byTable.mapValues { rows in
            let columns = try rows.map { row in
                let labels = try row[6].map { try decoder.decode([String: String].self, from: Data($0.utf8)) }
                return (row.text(2), Column(number: row.integer(3) ?? 0, type: row.text(4), labels: labels))
            }
            return CatalogueTable(
                number: rows[0].integer(1) ?? 0,
                columns: Dictionary(uniqueKeysWithValues: columns),
                isCaptured: rows[0].integer(5) == Int64(CaptureTriggers.names.count)
            )
        }
    }
}

/// By what it is told, at the beginning of every transaction, that nobody has altered the tables.
struct CataloguePosition: Hashable, Sendable {
    /// The number of the tables that are served.
    let version: Int64
    /// A sum over the entries of PostgreSQL's catalogue that say what the tables are.
    ///
    /// An entry that is written anew has another `xmin`. What `VACUUM`, `ANALYZE` and `TRUNCATE`
    /// write into the catalogue is not in it.
    let fingerprint: String

    init(version: Int64, fingerprint: String) { (self.version, self.fingerprint) = (version, fingerprint) }

    /// The result of ``statement(of:zone:)``.
    init(_ rows: PostgresRows) { self.init(version: rows[0].integer(0) ?? 0, fingerprint: rows[0].text(1)) }

    /// Reads it; no transaction waits for it.
    static func now(of namespace: String, zone: String, _ pg: PostgresConnection) throws -> CataloguePosition {
        let statement = statement(of: namespace, zone: zone)
        return CataloguePosition(try pg.query(statement.sql, statement.parameters))
    }

    /// The statement that reads it.
    static func statement(of namespace: String, zone: String) -> PostgresStatement {
        PostgresStatement(sql, [zone, SQLText.name(namespace)])
    }

    /// `$1` is the zone of whoever asks, `$2` PostgreSQL's schema.
    private static let sql = """
        WITH c AS MATERIALIZED (
            SELECT oid::bigint, relname, relowner::bigint FROM pg_class
            WHERE relnamespace = to_regnamespace($2) AND relkind IN ('r', 'p') AND NOT relispartition
        ), entry (hash) AS (
            SELECT hashtextextended(relname, oid) # relowner FROM c
            UNION ALL
            SELECT hashint8extended(a.xmin::text::bigint, c.oid * 2000 + a.attnum)
            FROM c JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE a.attnum > 0
            UNION ALL
            SELECT hashint8extended(k.xmin::text::bigint, k.oid::bigint)
            FROM c JOIN pg_constraint AS k ON k.conrelid = c.oid
            UNION ALL
            SELECT hashint8extended(i.xmin::text::bigint, i.indexrelid::bigint)
            FROM c JOIN pg_index AS i ON i.indrelid = c.oid WHERE i.indisunique
            UNION ALL
            SELECT hashint8extended(t.oid::bigint, ascii(t.tgenabled::text))
            FROM c JOIN pg_trigger AS t ON t.tgrelid = c.oid WHERE NOT t.tgisinternal
            UNION ALL
            SELECT hashint8extended(e.xmin::text::bigint, e.oid::bigint) FROM pg_enum AS e
        )
        SELECT (SELECT version FROM tidemark.served), count(*) || ' ' || coalesce(sum(hash), 0) FROM entry
        WHERE $1::text IS NOT NULL
        """
}
