import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

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
