import GRDB
import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// The log: each commit's changes as JSON ready to send.
extension ZoneTransaction {
    package func hasRevision(by device: String, after revision: Int64, through last: Int64) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT EXISTS (
                        SELECT 1
                        FROM tidemark_revision
                        WHERE revision > ? AND revision <= ? AND device = ?)
                    """
            ),
            arguments: [revision, last, device]
        ) ?? false
    }

    package func catchUp(_ request: MissedRevisions) throws -> CatchUp {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT \(LogEntry.columns), verdict.body AS whole, verdict.ids
                    FROM tidemark_revision AS log_entry
                    \(LogEntry.previousEntry)
                    LEFT JOIN tidemark_verdict AS verdict
                        ON verdict.id = log_entry.id AND verdict.device = ?
                    WHERE log_entry.revision > ? AND log_entry.revision <= ?
                    ORDER BY log_entry.revision
                    """
            ),
            arguments: [request.device, request.after, request.through]
        )
        var bodies = [String]()
        var bytes = 0
        var lastRevision = request.after
        while let row = try rows.next() {
            let beginning = try row.value("body") as String?
            let rest = try row.value("rest") as Int?
            if !request.bringsFirst, (beginning?.utf8.count ?? 0) + (rest ?? 0) > request.bytesMax {
                return CatchUp(bodies: bodies, revision: lastRevision, hasMore: true)
            }
            let entry = try LogEntry(row, in: db)
            guard entry.revision == lastRevision + 1, entry.isAuthentic else {
                throw DamagedLog(revision: lastRevision + 1)
            }
            let copy = AuthorsCopy(whole: try row.value("whole"), ids: try row.value("ids"), logged: entry.body)
            let body = try copy.render()
            bytes += body.utf8.count
            if planted(PlantedBug.countsRevisionThatDidNotFit) { lastRevision = try row.value("revision") }
            guard bodies.isEmpty || bodies.count < request.limit && bytes <= request.bytesMax else {
                return CatchUp(bodies: bodies, revision: lastRevision, hasMore: true)
            }
            bodies.append(body)
            lastRevision = try row.value("revision")
        }
        guard lastRevision >= request.through else { throw DamagedLog(revision: lastRevision + 1) }
        return CatchUp(bodies: bodies, revision: lastRevision, hasMore: false)
    }
}
