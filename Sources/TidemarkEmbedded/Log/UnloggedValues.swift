import TidemarkSQL

/// The values of a record that no entry of the log has, which the entry of their first change keeps.
///
/// The rows of an adopted file have no entry. So the entry of a record's first change of a column keeps the column's
/// value before it, and the entry of its deletion keeps all columns without an entry. A record that a logged change
/// set created has none of these values: its first entry is a creation, which one look at the log's primary key finds.
enum UnloggedValues {
    /// The SQL of these values of `change`, with changed `columns` and the row `before`: a JSON object, or NULL.
    ///
    /// It looks for the last entry of a column first, so that a record with many entries costs little.
    static let sql = """
        CASE WHEN change.operation <> 'create' AND coalesce((
            SELECT first_entry.operation
            FROM tidemark_log AS first_entry
            WHERE first_entry.tbl = change.tbl AND first_entry.key = change.key
            ORDER BY first_entry.revision
            LIMIT 1), '') <> 'create'
        THEN (
            SELECT tidemark_pick(change.before, json_group_array(member.place))
            FROM (SELECT key, row_number() OVER () - 1 AS place FROM json_each(change.before)) AS member
            WHERE (change.operation = 'delete' OR \(MemberSQL.name(of: "member.key")) IN (SELECT value FROM json_each(change.columns)))
                AND (
                    SELECT 1
                    FROM tidemark_log AS entry
                    WHERE entry.tbl = change.tbl AND entry.key = change.key
                        AND (entry.operation = 'create'
                            OR \(MemberSQL.name(of: "member.key")) IN (SELECT value FROM json_each(entry.columns)))
                    ORDER BY entry.revision DESC
                    LIMIT 1) IS NULL
        ) END
        """
}
