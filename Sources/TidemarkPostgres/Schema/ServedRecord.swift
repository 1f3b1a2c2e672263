import Foundation
import TidemarkCore
import TidemarkSQL

/// The row of `tidemark.served`, which describes the served tables.
struct ServedRecord {
    /// The PostgreSQL schema of the tables.
    let namespace: String
    /// The zone column, first in every key; nil if all rows belong to one zone.
    let zoneColumn: String?
    /// The tables as devices declare them, with their history.
    var schema: SyncSchema
    /// The tables in the catalogue at the last follow.
    var catalogue: [String: CatalogueTable]
    /// Unsynced tables: the operator excluded them, or they existed before.
    var excluded: Set<String>
    /// A number that grows with each follow.
    var version: Int64 = 1
    /// The types in which devices declare columns of adopted tables.
    var deviceTypes = DeviceTypes.Profile.standard

    /// Reads the record; nil if no store has served the database yet.
    static func load(_ pg: PostgresConnection) throws -> ServedRecord? {
        guard let layout = try pg.integer("SELECT layout FROM tidemark.served") else { return nil }
        guard layout == Int64(Bookkeeping.layout) else {
            throw TidemarkError(
                .unusableFile, "The database has the bookkeeping of another version of Tidemark (layout \(layout)).",
                fix: "Serve it with that version, or adopt the app's own tables in a database without that bookkeeping."
            )
        }
        let row = try pg.query(
            """
            SELECT namespace, zone_column, tables, catalogue, excluded, version, device_types
            FROM tidemark.served
            """)[0]
        let decoder = JSONDecoder()
        return ServedRecord(
            namespace: row.text(0), zoneColumn: row[1], schema: try SchemaText.decode(row.text(2)),
            catalogue: try decoder.decode([String: CatalogueTable].self, from: Data(row.text(3).utf8)),
            excluded: try decoder.decode(Set<String>.self, from: Data(row.text(4).utf8)), version: row.integer(5) ?? 0,
            deviceTypes: DeviceTypes.Profile(rawValue: row.text(6)) ?? .standard)
    }

    func save(_ pg: PostgresConnection) throws {
        try pg.query(
            """
            INSERT INTO tidemark.served (id, layout, namespace, zone_column, tables, version, catalogue, excluded,
                device_types)
            VALUES (1, \(Bookkeeping.layout), $1, $2, $3, $4::bigint, $5, $6, $7)
            ON CONFLICT (id) DO UPDATE SET tables = excluded.tables, version = excluded.version,
                catalogue = excluded.catalogue, excluded = excluded.excluded
            """,
            [
                namespace, zoneColumn, try SchemaText.encode(schema), "\(version)", try Self.json(catalogue),
                try Self.json(excluded.sorted()), deviceTypes.rawValue,
            ])
    }

    private static func json(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }
}

/// A table in PostgreSQL's catalogue; its column numbers distinguish altered columns from new ones.
struct CatalogueTable: Hashable, Codable {
    struct Column: Hashable, Codable {
        /// The number, which a rename keeps and no other column gets.
        let number: Int64
        /// The type, as PostgreSQL spells it.
        let type: String
        /// The labels of its enums, by numbers that a rename keeps; nil without enums.
        let labels: [String: String]?
    }

    /// The table's number; a table that was dropped and created again has another one.
    let number: Int64
    /// The columns without the zone.
    let columns: [String: Column]
    /// Whether all capture triggers exist, fire, and call the table's own function.
    var isCaptured: Bool

    /// The labels of all enums in the type of `attribute`: also of domains, arrays, ranges and composites.
    private static let labels = """
        WITH RECURSIVE part (oid) AS (
            SELECT attribute.atttypid
            UNION
            SELECT inner_type.oid
            FROM part JOIN pg_type AS outer_type ON outer_type.oid = part.oid, LATERAL (
                SELECT outer_type.typelem
                UNION ALL
                SELECT outer_type.typbasetype
                UNION ALL
                SELECT span.rngsubtype
                FROM pg_range AS span
                WHERE outer_type.oid IN (span.rngtypid, span.rngmultitypid)
                UNION ALL
                SELECT member.atttypid
                FROM pg_attribute AS member
                WHERE member.attrelid = outer_type.typrelid AND member.attnum > 0) AS inner_type (oid)
            WHERE inner_type.oid <> 0
        )
        SELECT json_object_agg(label.oid::text, label.enumlabel ORDER BY label.oid)
        FROM part
        JOIN pg_enum AS label ON label.enumtypid = part.oid
        """

    static func read(_ names: [String], namespace: String, zoneColumn: String?, _ pg: PostgresConnection) throws
        -> [String: CatalogueTable]
    {
        let rows = try pg.query(
            """
            SELECT class.relname, class.oid, attribute.attname, attribute.attnum,
                format_type(attribute.atttypid, attribute.atttypmod),
                (SELECT count(*)
                    FROM pg_trigger AS capture
                    WHERE capture.tgrelid = class.oid AND capture.tgenabled = 'A'
                        AND capture.tgname = ANY ($3::text[])
                        AND capture.tgfoid = to_regproc(wanted.function)),
                (\(labels))
            FROM unnest($2::text[], $5::text[]) AS wanted (relname, function)
            JOIN pg_class AS class ON class.relname = wanted.relname
            JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid
            WHERE class.relnamespace = to_regnamespace($1)
                AND attribute.attnum > 0 AND NOT attribute.attisdropped AND attribute.attgenerated IN ('', 's')
                AND attribute.attname <> coalesce($4, '')
            """,
            [
                SQLText.name(namespace), PostgresArray.quoted(names), PostgresArray.quoted(CaptureTriggers.names),
                zoneColumn, PostgresArray.quoted(names.map(CaptureTriggers.functionName)),
            ])
        let byTable = Dictionary(grouping: rows.map { $0 }) { $0.text(0) }
        let decoder = JSONDecoder()
        return try byTable.mapValues { rows in
            let columns = try rows.map { row in
                let labels = try row[6].map { try decoder.decode([String: String].self, from: Data($0.utf8)) }
                return (row.text(2), Column(number: row.integer(3) ?? 0, type: row.text(4), labels: labels))
            }
            return CatalogueTable(
                number: rows[0].integer(1) ?? 0, columns: Dictionary(uniqueKeysWithValues: columns),
                isCaptured: rows[0].integer(5) == Int64(CaptureTriggers.names.count))
        }
    }
}

/// A value that changes with every alteration of the tables; every transaction compares it first.
struct CataloguePosition: Hashable, Sendable {
    let version: Int64
    /// A sum of the tables' catalogue entries by `xmin`, but those that `VACUUM`, `ANALYZE` or `TRUNCATE` rewrite.
    let fingerprint: String

    init(version: Int64, fingerprint: String) {
        self.version = version
        self.fingerprint = fingerprint
    }

    /// Reads the result of ``statement(of:zone:)``.
    init(_ rows: PostgresRows) { self.init(version: rows[0].integer(0) ?? 0, fingerprint: rows[0].text(1)) }

    /// Reads the current position, without a lock.
    static func now(of namespace: String, zone: String, _ pg: PostgresConnection) throws -> CataloguePosition {
        let statement = statement(of: namespace, zone: zone)
        return CataloguePosition(try pg.query(statement.sql, statement.parameters))
    }

    static func statement(of namespace: String, zone: String) -> PostgresStatement {
        PostgresStatement(sql, [zone, SQLText.name(namespace)])
    }

    /// `$1` is the caller's zone, `$2` the PostgreSQL schema.
    private static let sql = """
        WITH class AS MATERIALIZED (
            SELECT oid::bigint, relname, relowner::bigint
            FROM pg_class
            WHERE relnamespace = to_regnamespace($2) AND relkind IN ('r', 'p') AND NOT relispartition
        ), entry (hash) AS (
            SELECT hashtextextended(relname, oid) # relowner
            FROM class
            UNION ALL
            SELECT hashint8extended(attribute.xmin::text::bigint, class.oid * 2000 + attribute.attnum)
            FROM class
            JOIN pg_attribute AS attribute ON attribute.attrelid = class.oid
            WHERE attribute.attnum > 0
            UNION ALL
            SELECT hashint8extended(constrained.xmin::text::bigint, constrained.oid::bigint)
            FROM class
            JOIN pg_constraint AS constrained ON constrained.conrelid = class.oid
            UNION ALL
            SELECT hashint8extended(index.xmin::text::bigint, index.indexrelid::bigint)
            FROM class
            JOIN pg_index AS index ON index.indrelid = class.oid
            WHERE index.indisunique
            UNION ALL
            SELECT hashint8extended(fired.oid::bigint, ascii(fired.tgenabled::text))
            FROM class
            JOIN pg_trigger AS fired ON fired.tgrelid = class.oid
            WHERE NOT fired.tgisinternal
            UNION ALL
            SELECT hashint8extended(label.xmin::text::bigint, label.oid::bigint)
            FROM pg_enum AS label
        )
        SELECT (SELECT version FROM tidemark.served), count(*) || ' ' || coalesce(sum(hash), 0)
        FROM entry
        WHERE $1::text IS NOT NULL
        """
}
