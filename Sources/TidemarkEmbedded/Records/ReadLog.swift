import Foundation
import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// The log, for clients without rows.
extension FileReader {
    func entries(after position: LogPosition, limit: Int) throws -> [LogRecord] {
        // Without the index, SQLite 3.40 reads the whole log and sorts it.
        try log(
            """
            FROM main.tidemark_log INDEXED BY tidemark_log_revision
            WHERE (revision, tbl, key) > (?, ?, ?)
            ORDER BY revision, tbl, key
            LIMIT ?
            """,
            [position.revision, position.table, position.key, limit]
        )
    }

    func history(of key: String, in table: SyncedTable, before revision: Int64, limit: Int) throws -> [LogRecord] {
        try log(
            "FROM main.tidemark_log WHERE tbl = ? AND key = ? AND revision < ? ORDER BY revision DESC LIMIT ?",
            [table.name, key, revision, limit]
        )
    }

    private func log(_ rest: String, _ arguments: StatementArguments) throws -> [LogRecord] {
        let rows = try Row.fetchCursor(
            db.cachedStatement(sql: "SELECT revision, tbl, key, operation, columns, unlogged \(rest)"),
            arguments: arguments
        )
        var records: [LogRecord] = []
        while let row = try rows.next() {
            guard let operation = LogRecord.Operation(rawValue: try row.value("operation")) else { continue }
            records.append(
                LogRecord(
                    revision: try row.value("revision"),
                    table: try row.value("tbl"),
                    key: try row.value("key"),
                    operation: operation,
                    columns: try Self.names(row.value("columns")),
                    before: try row.value("unlogged")
                )
            )
        }
        return records
    }

    private static func names(_ json: String?) throws -> [String] {
        guard let json else { return [] }
        return try JSONDecoder().decode([String].self, from: Data(json.utf8))
    }

    func revisions(before revision: Int64, table: String?, author: String?, limit: Int) throws -> [RevisionRecord] {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT revision, id IS NOT NULL AS has_id, device, user_id, committed
                    FROM main.tidemark_revision AS entry
                    WHERE revision < ?1
                        AND (?2 IS NULL OR EXISTS (
                            SELECT 1 FROM main.tidemark_log AS log_entry INDEXED BY tidemark_log_revision
                            WHERE log_entry.revision = entry.revision AND log_entry.tbl = ?2))
                        AND (?3 IS NULL OR device = ?3 OR user_id = ?3)
                    ORDER BY revision DESC
                    LIMIT ?4
                    """
            ),
            arguments: [revision, table, author, limit]
        )
        return try rows.map { try record($0) }
    }

    private func record(_ row: Row) throws -> RevisionRecord {
        let number = try row.value("revision") as Int64
        return RevisionRecord(
            revision: number,
            hasID: try row.value("has_id"),
            device: try row.value("device"),
            user: try row.value("user_id"),
            committed: try row.value("committed"),
            tables: try counts(of: number)
        )
    }

    private func counts(of revision: Int64) throws -> [String: RevisionRecord.Counts] {
        var tables: [String: RevisionRecord.Counts] = [:]
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT tbl, operation, count(*) AS number
                    FROM main.tidemark_log INDEXED BY tidemark_log_revision
                    WHERE revision = ?
                    GROUP BY tbl, operation
                    """
            ),
            arguments: [revision]
        )
        while let row = try rows.next() {
            let count = try row.value("number") as Int
            switch LogRecord.Operation(rawValue: try row.value("operation")) {
            case .create: tables[try row.value("tbl"), default: .init()].created = count
            case .update: tables[try row.value("tbl"), default: .init()].updated = count
            case .delete: tables[try row.value("tbl"), default: .init()].deleted = count
            case nil: continue
            }
        }
        return tables
    }

    func revisions(_ numbers: [Int64]) throws -> [RevisionRecord] {
        try numbers.compactMap { number in
            try Row.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT revision, id IS NOT NULL AS has_id, device, user_id, committed
                        FROM main.tidemark_revision
                        WHERE revision = ?
                        """
                ),
                arguments: [number]
            ).map { try record($0) }
        }
    }

    func chains(of revisions: Set<Int64>) throws -> [Int64: String] {
        let statement = try db.cachedStatement(sql: "SELECT chain FROM main.tidemark_revision WHERE revision = ?")
        return try revisions.reduce(into: [:]) { $0[$1] = try String.fetchOne(statement, arguments: [$1]) }
    }

    func changeSets(of revisions: [Int64], bytesMax: Int) throws -> [Int64: String] {
        var found: [Int64: String] = [:]
        var bytes = 0
        for revision in revisions {
            guard let body = try changeSet(of: revision) else { continue }
            bytes += body.utf8.count
            guard found.isEmpty || bytes <= bytesMax else { break }
            found[revision] = body
        }
        return found
    }

    private func changeSet(of revision: Int64) throws -> String? {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT \(LogEntry.columns)
                    FROM main.tidemark_revision AS log_entry
                    \(LogEntry.previousEntry)
                    WHERE log_entry.revision = ?
                    """
            ),
            arguments: [revision]
        )
        guard let row else { return nil }
        let body = try LogEntry(row, in: db).body
        return body.isEmpty ? nil : body
    }

    func lastRevision(before milliseconds: Int64) throws -> Int64 {
        try CommitTimes.lastRevision(committedBefore: milliseconds, in: db)
    }

    func devices() throws -> [DeviceRecord] { try devices(named: nil) }

    func device(_ device: String) throws -> DeviceRecord? { try devices(named: device).first }

    /// Returns the device of a name; nil for all.
    private func devices(named name: String?) throws -> [DeviceRecord] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT known.device, contact.name, coalesce(lap.user_id, contact.user_id) AS user_id,
                        max(coalesce(lap.revision, 0), coalesce(contact.revision, 0)) AS revision,
                        contact.first, contact.last, lap.lap IS ?1 AS forgotten
                    FROM (
                        SELECT device FROM main.tidemark_lap WHERE \(name == nil ? "?2 IS NULL" : "device = ?2")
                        UNION
                        SELECT device FROM main.tidemark_contact WHERE \(name == nil ? "?2 IS NULL" : "device = ?2")
                    ) AS known
                    LEFT JOIN main.tidemark_lap AS lap USING (device)
                    LEFT JOIN main.tidemark_contact AS contact USING (device)
                    """
            ),
            arguments: [Exchange.forgottenLap, name]
        ).map { row in
            DeviceRecord(
                device: try row.value("device"),
                name: try row.value("name"),
                user: try row.value("user_id"),
                revision: try row.value("revision"),
                firstContact: try row.value("first"),
                lastContact: try row.value("last"),
                isForgotten: try row.value("forgotten")
            )
        }
    }

    func refusals(before number: Int64, limit: Int) throws -> [RefusalRecord] {
        try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT refused.number, refused.id, verdict.device, refused.decided, refused.base, verdict.body,
                        refused.sent
                    FROM main.tidemark_refused AS refused
                    JOIN main.tidemark_verdict AS verdict ON verdict.id = refused.id
                    WHERE refused.number < ?
                    ORDER BY refused.number DESC
                    LIMIT ?
                    """
            ),
            arguments: [number, limit]
        ).map { row in
            RefusalRecord(
                number: try row.value("number"),
                id: try row.value("id"),
                device: try row.value("device"),
                decided: try row.value("decided"),
                base: try row.value("base"),
                body: try row.value("body") ?? "{}",
                sent: try row.value("sent")
            )
        }
    }
}
