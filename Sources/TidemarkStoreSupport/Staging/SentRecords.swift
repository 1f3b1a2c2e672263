import GRDB
import TidemarkSQL

/// The records of a refused change set as their author sent them, for people who look at conflicts.
extension StagedRequest {
    /// Returns the records as JSON: table, key, operation, base and values, each as sent.
    ///
    /// `base` is the request's base, for records without one of their own. Nil if the text would be larger than
    /// ``sentBytesMax``.
    package func sentRecords(_ ord: Int, base: Int64) throws -> String? {
        let text = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(json_object(
                        'table', staged.tbl,
                        'key', coalesce(staged.old_key, staged.key),
                        'operation', staged.operation,
                        'base', coalesce(staged.base, ?2),
                        'values', json(coalesce(
                            (SELECT '{' || group_concat(tidemark_members(cell.col, cell.value), ',') || '}'
                            FROM temp.tidemark_staged_cell AS cell
                            WHERE cell.rec = \(StagingTables.cells(of: "staged"))),
                            '{}'))))
                    FROM temp.tidemark_staged AS staged
                    WHERE staged.ord = ?1
                    """
            ),
            arguments: [ord, base]
        )
        return text.flatMap { $0.utf8.count <= Self.sentBytesMax ? $0 : nil }
    }

    /// The most bytes of a refused change set that the server keeps for people.
    private static var sentBytesMax: Int { 256 << 10 }

    /// The most refused change sets of a zone that the server keeps for people.
    package static var refusedMax: Int { 10_000 }
}
