import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// The zone's fingerprint at each revision: computed from the rows once, when it is first asked
/// for, and carried forward by every commit.
extension PostgresTransaction {
    func fingerprint(at revision: Int64) throws -> Fingerprint? {
        if let kept = try keptFingerprint(at: revision) { return kept }
        guard state.revision == revision else { return nil }
        let computed = try computeFingerprint()
        try keepFingerprint(computed, at: revision)
        return computed
    }

    func recomputeFingerprint() throws {
        try keepFingerprint(try computeFingerprint(), at: state.revision)
    }

    /// Notes the fingerprint of a new revision, by what the commit changed.
    func carryFingerprint(
        to revision: Int64,
        adding change: @autoclosure () throws -> Fingerprint
    ) throws {
        guard let previous = try keptFingerprint(at: revision - 1) else { return }
        try keepFingerprint(previous + change(), at: revision)
    }

    /// The fingerprint of all rows.
    ///
    /// - Throws: ``Overtaken`` when rows are there that no revision has yet.
    func computeFingerprint() throws -> Fingerprint {
        try pg.scanning { try sumOfRows() }
    }

    private func sumOfRows() throws -> Fingerprint {
        var sum = Fingerprint.none
        for table in schema.tables.compactMap({ table($0.name) }) {
            let rows = try pg.query(
                """
                SELECT \(FingerprintSQL.sum), EXISTS (SELECT 1 FROM tidemark.outside WHERE zone = $1)
                FROM \(table.name) AS t \(FingerprintSQL.hash(table, "t")) WHERE \(table.inZone("t")) AND $1::text IS NOT NULL
                """,
                [zoneName]
            )
            if rows[0].isTrue(1) { throw Overtaken() }
            sum = sum + (rows[0][0].flatMap(Fingerprint.init(hex:)) ?? .none)
        }
        return sum
    }

    func keepFingerprint(_ fingerprint: Fingerprint, at revision: Int64) throws {
        facts.fingerprints[revision] = nil
        try pg.query(
            """
            INSERT INTO tidemark.fingerprint VALUES ($1, $2::bigint, $3, $4)
            ON CONFLICT (zone, revision) DO UPDATE SET fingerprint = excluded.fingerprint,
                shape = excluded.shape
            """,
            [zoneName, "\(revision)", fingerprint.hex, shape]
        )
    }

    func keptFingerprint(at revision: Int64) throws -> Fingerprint? {
        if let known = facts.fingerprints[revision] { return known }
        return try pg.text(
            """
            SELECT fingerprint FROM tidemark.fingerprint
            WHERE zone = $1 AND revision = $2::bigint AND shape = $3
            """,
            [zoneName, "\(revision)", shape]
        ).flatMap(Fingerprint.init(hex:))
    }

    var shape: String { served.shape }

    // MARK: Ranges

    func compare(_ ranges: [KeyRange], limits: Limits) throws -> Comparison {
        try staged.compare(ranges, limits: limits, measured: measured, changeSet: changeSet)
    }

    private func measured(_ ranges: [KeyRange]) throws -> [KeyRange] {
        var measured = ranges
        for index in measured.indices {
            measured[index].rows = 0
            measured[index].fingerprint = .none
        }
        for (table, list) in lists(ranges) {
            let rows = try pg.query(
                """
                SELECT r.ord, count(*), \(FingerprintSQL.sum)
                FROM \(KeyRangeSQL.join(table)) \(FingerprintSQL.hash(table, "t")) WHERE $1::text IS NOT NULL GROUP BY r.ord
                """,
                [zoneName, list]
            )
            for row in rows.map({ $0 }) {
                let index = Int(row.integer(0) ?? 0)
                measured[index].rows = Int(row.integer(1) ?? 0)
                measured[index].fingerprint = row[2].flatMap(Fingerprint.init(hex:)) ?? .none
            }
        }
        return measured
    }

    /// The rows in the ranges, whole, each with the revision that last changed it.
    private func changeSet(of ranges: [KeyRange]) throws -> String {
        try CommitTables.clear("truth", in: db)
        for (table, list) in lists(ranges) {
            let keys = try pg.text(
                """
                SELECT json_agg(\(table.keyJSON("t"))) FROM \(KeyRangeSQL.join(table))
                WHERE $1::text IS NOT NULL
                """,
                [zoneName, list]
            )
            try db.cachedStatement(
                sql: """
                    INSERT OR IGNORE INTO temp.tidemark_truth (tbl, key, follows)
                    SELECT ?, value, 0 FROM json_each(?)
                    """
            ).execute(arguments: [table.table.name, keys ?? "[]"])
        }
        try noteTruth()
        return try staged.renderTruth(nil)
    }

    /// The ranges by table, as JSON each.
    private func lists(_ ranges: [KeyRange]) -> [(PostgresTable, String)] {
        schema.tables.compactMap { table in
            let own = ranges.enumerated().filter { $0.element.table == table.name }
            guard !own.isEmpty, let stored = self.table(table.name) else { return nil }
            let list = own.map { index, range in
                let low = KeyRangeSQL.json(range.from)
                let high = KeyRangeSQL.json(range.to)
                return #"{"ord":\#(index),"low":\#(low),"high":\#(high)}"#
            }
            return (stored, "[\(list.joined(separator: ","))]")
        }
    }
}

/// Ranges of keys in PostgreSQL.
enum KeyRangeSQL {
    /// The rows `t` of a table in the ranges `r` of a JSON parameter.
    static func join(_ table: PostgresTable) -> String {
        if table.table.keyKind == .integer {
            let id = table.column(table.table.key[0], "t")
            return """
                jsonb_to_recordset($2::jsonb) AS r (ord int, low bigint, high bigint)
                JOIN \(table.name) AS t ON \(table.inZone("t"))
                    AND \(id) >= coalesce(r.low, \(Int64.min + 1)) AND (r.high IS NULL OR \(id) < r.high)
                """
        }
        let key = "(\(table.keyJSON("t"))) COLLATE \"C\""
        return """
            jsonb_to_recordset($2::jsonb) AS r (ord int, low text, high text)
            JOIN \(table.name) AS t ON \(table.inZone("t"))
                AND \(key) >= coalesce(r.low, '') AND (r.high IS NULL OR \(key) < r.high)
            """
    }

    /// A bound as JSON.
    static func json(_ bound: KeyRange.Bound?) -> String {
        switch bound {
        case .integer(let key): String(key)
        case .json(let key): ChangeSetJSON.quote(key)
        case nil: "null"
        }
    }
}

/// The sum of the rows' hashes, modulo 2^128.
///
/// SHA-256 of table, TAB, key, TAB, row; its first 16 bytes are two halves, each summed as a number
/// of any length.
enum FingerprintSQL {
    /// A derived table `h` beside the rows `t`, with the hash of each.
    static func hash(_ table: PostgresTable, _ alias: String) -> String {
        let name = SQLText.literal(ChangeSetJSON.quote(table.table.name) + "\t")
        let text = "\(name) || \(table.keyJSON(alias)) || E'\\t' || \(table.imageJSON(alias))"
        // OFFSET keeps PostgreSQL from computing the hash once for each use of it.
        return """
            CROSS JOIN LATERAL (
                SELECT 'x' || encode(sha256(convert_to(\(text), 'UTF8')), 'hex') AS x OFFSET 0) AS s
            CROSS JOIN LATERAL (SELECT left(s.x, 17)::bit(64)::bigint AS high,
                ('x' || substr(s.x, 18, 16))::bit(64)::bigint AS low OFFSET 0) AS h
            """
    }

    /// The sum of the hashes `h`: 32 hexadecimal digits, NULL for no rows.
    static let sum = """
        tidemark.fingerprint(sum(h.high), count(*) FILTER (WHERE h.high < 0),
            sum(h.low), count(*) FILTER (WHERE h.low < 0))
        """

    /// PostgreSQL's integers have signs: a half below zero stands for one that is 2^64 more.
    static let functions = """
        CREATE OR REPLACE FUNCTION tidemark.hex64(value numeric) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT lpad(to_hex(CASE WHEN value >= 9223372036854775808
                THEN (value - 18446744073709551616)::bigint ELSE value::bigint END), 16, '0')
        $$;
        CREATE OR REPLACE FUNCTION tidemark.fingerprint(
            high numeric, high_below bigint, low numeric, low_below bigint
        ) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT tidemark.hex64(div(total, 18446744073709551616))
                || tidemark.hex64(mod(total, 18446744073709551616))
            FROM (SELECT mod((high + high_below * 18446744073709551616) * 18446744073709551616
                + low + low_below * 18446744073709551616, 340282366920938463463374607431768211456) AS total) AS t
        $$;
        """
}
