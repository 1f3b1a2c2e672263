import TidemarkCore
import TidemarkSQL

/// The values of a record that no entry of the log has, which the entry of their first change keeps.
///
/// Adopted rows have no entry. So the entry of a record's first change of a column keeps the column's value before
/// it, and the entry of its deletion keeps all columns without an entry. A record that a logged change set created has
/// none of these values: its first entry is a creation, which one look at the log's primary key finds.
enum UnloggedValues {
    /// The most bytes of these values of one record: 1 MiB.
    private static let bytesMax = 1 << 20

    /// The SQL of these values of `change`, an entry in zone `$1` with changed `columns`: a JSON object, or NULL.
    ///
    /// Its `image` is the row before, or NULL if the record's first entry is its creation. It looks for the last entry
    /// of a column first, so that a record with many entries costs little.
    static let sql = """
        CASE WHEN change.image IS NOT NULL THEN (
            SELECT CASE WHEN sum(octet_length(member.value::text)) <= \(bytesMax) THEN
                '{' || string_agg(
                    tidemark.quote(member.key) || ':' || member.value::text, ',' ORDER BY member.ordinality) || '}' END
            FROM json_each(change.image::json) WITH ORDINALITY AS member
            WHERE (change.operation = 'delete' OR change.columns::jsonb ? \(name(of: "member.key")))
                AND (
                    SELECT 1
                    FROM tidemark.log AS entry
                    WHERE entry.zone = $1 AND entry.tbl = change.tbl AND entry.key = change.key
                        AND (entry.operation = 'create' OR entry.columns::jsonb ? \(name(of: "member.key")))
                    ORDER BY entry.revision DESC
                    LIMIT 1) IS NULL
        ) END
        """

    /// The SQL of the column that a member stands for.
    private static func name(of member: String) -> String {
        "CASE left(\(member), 1) WHEN '\(WireName.escape)' THEN substr(\(member), 2) ELSE \(member) END"
    }
}
