import GRDB
import TidemarkSQL

/// The notes of overruled values that wait for their devices.
extension ZoneTransaction {
    package func overruledNotes(device: String, after cursor: Int64, through revision: Int64, limit: Int) throws
        -> [String]
    {
        if cursor > 0 {
            try db.cachedStatement(sql: "DELETE FROM tidemark_overruled WHERE device = ? AND number <= ?").execute(
                arguments: [device, cursor])
        }
        return try String.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT '{"number":' || number || ',"revision":' || revision
                        || ',"records":' || records || '}'
                    FROM tidemark_overruled
                    WHERE device = ? AND revision <= ?
                    ORDER BY number
                    LIMIT ?
                    """
            ),
            arguments: [device, revision, limit]
        )
    }
}
