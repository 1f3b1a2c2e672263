import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// SQL for ranges of keys in PostgreSQL.
enum KeyRangeSQL {
    /// The rows `app_row` of a table in the ranges `key_range` of a JSON parameter.
    static func join(_ table: PostgresTable) -> String {
        if table.table.keyKind == .integer {
            let id = table.column(table.table.key[0], "app_row")
            return """
                jsonb_to_recordset($2::jsonb) AS key_range (ord int, low bigint, high bigint)
                JOIN \(table.name) AS app_row ON \(table.inZone("app_row"))
                    AND \(id) >= coalesce(key_range.low, \(Int64.min + 1))
                    AND (key_range.high IS NULL OR \(id) < key_range.high)
                """
        }
        let key = "(\(table.keyJSON("app_row"))) COLLATE \"C\""
        return """
            jsonb_to_recordset($2::jsonb) AS key_range (ord int, low text, high text)
            JOIN \(table.name) AS app_row ON \(table.inZone("app_row"))
                AND \(key) >= coalesce(key_range.low, '')
                AND (key_range.high IS NULL OR \(key) < key_range.high)
            """
    }
}

/// SQL for the sum of the rows' hashes, modulo 2^128.
///
/// A row's hash is the SHA-256 of table, TAB, key, TAB, row. The halves of its first 16 bytes are
/// summed separately, as numerics without overflow.
enum FingerprintSQL {
    /// A lateral table `row_hash` with the hash of each row.
    static func hash(_ table: PostgresTable, _ alias: String) -> String {
        let name = SQLText.literal(JSONText.quote(table.table.name) + "\t")
        let text = "\(name) || \(table.keyJSON(alias)) || E'\\t' || \(table.imageJSON(alias))"
        // OFFSET 0 keeps PostgreSQL from computing the hash again for each use.
        return """
            CROSS JOIN LATERAL (
                SELECT 'x' || encode(sha256(convert_to(\(text), 'UTF8')), 'hex') AS hex OFFSET 0) AS digest
            CROSS JOIN LATERAL (SELECT left(digest.hex, 17)::bit(64)::bigint AS high,
                ('x' || substr(digest.hex, 18, 16))::bit(64)::bigint AS low OFFSET 0) AS row_hash
            """
    }

    /// The sum of `row_hash`: 32 hexadecimal digits, NULL for no rows.
    static let sum = """
        tidemark.fingerprint(sum(row_hash.high), count(*) FILTER (WHERE row_hash.high < 0),
            sum(row_hash.low), count(*) FILTER (WHERE row_hash.low < 0))
        """

    /// The functions that add the halves: a negative one, as integers are signed, is a number that is 2^64 higher.
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
