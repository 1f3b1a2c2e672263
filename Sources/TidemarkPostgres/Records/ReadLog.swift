import Foundation
import TidemarkCore
import TidemarkEngine

/// The log, for clients without rows.
extension PostgresReader {
    func entries(after position: LogPosition, limit: Int) throws -> [LogRecord] {
        // The first comparison is a range of the index over the revisions.
        try log(
            """
            AND revision >= $2::bigint AND (revision, tbl, key) > ($2::bigint, $3::text, $4::text)
            ORDER BY revision, tbl, key
            LIMIT $5::bigint
            """,
            ["\(position.revision)", position.table, position.key, "\(limit)"]
        )
    }

    func history(of key: String, in table: SyncedTable, before revision: Int64, limit: Int) throws -> [LogRecord] {
        try log(
            "AND tbl = $2 AND key = $3 AND revision < $4::bigint ORDER BY revision DESC LIMIT $5::bigint",
            [table.name, key, "\(revision)", "\(limit)"]
        )
    }

    private func log(_ rest: String, _ parameters: [String]) throws -> [LogRecord] {
        try pg.query(
            "SELECT revision, tbl, key, operation, columns, unlogged FROM tidemark.log WHERE zone = $1 \(rest)",
            [zone] + parameters
        ).map { $0 }
            .compactMap { row in
                guard let operation = LogRecord.Operation(rawValue: row.text(3)) else { return nil }
                return LogRecord(
                    revision: row.integer(0) ?? 0,
                    table: row.text(1),
                    key: row.text(2),
                    operation: operation,
                    columns: try row[4].map { try JSONDecoder().decode([String].self, from: Data($0.utf8)) } ?? [],
                    before: row[5]
                )
            }
    }

    func revisions(before revision: Int64, table: String?, author: String?, limit: Int) throws -> [RevisionRecord] {
        try records(
            """
            AND revision < $2::bigint
                AND ($3::text IS NULL OR EXISTS (
                    SELECT 1
                    FROM tidemark.log AS log_entry
                    WHERE log_entry.zone = $1 AND log_entry.revision = entry.revision AND log_entry.tbl = $3))
                AND ($4::text IS NULL OR device = $4 OR user_id = $4)
            ORDER BY revision DESC
            LIMIT $5::bigint
            """,
            ["\(revision)", table, author, "\(limit)"]
        )
    }

    func chains(of revisions: Set<Int64>) throws -> [Int64: String] {
        guard chain.isEmpty || revisions != [state.revision] else { return [state.revision: chain] }
        guard !revisions.isEmpty else { return [:] }
        let rows = try pg.query(
            "SELECT revision, chain FROM tidemark.revision WHERE zone = $1 AND revision = ANY ($2::bigint[])",
            [zone, "{\(revisions.sorted().map(String.init).joined(separator: ","))}"]
        ).map { ($0.integer(0) ?? 0, $0.text(1)) }
        return Dictionary(uniqueKeysWithValues: rows)
    }

    func revisions(_ numbers: [Int64]) throws -> [RevisionRecord] {
        try records("AND revision = ANY ($2::bigint[])", [PostgresArray.quoted(numbers.map { "\($0)" })])
    }

    /// Reads the revisions that a condition selects, with the numbers of changed records, newest first.
    private func records(_ condition: String, _ parameters: [String?]) throws -> [RevisionRecord] {
        let rows = try pg.query(
            """
            SELECT entry.revision, entry.device, entry.user_id, counted.tbl, counted.operation, counted.number,
                entry.committed, entry.id
            FROM (
                SELECT revision, id, device, user_id, committed
                FROM tidemark.revision AS entry
                WHERE zone = $1 \(condition)
            ) AS entry
            LEFT JOIN LATERAL (
                SELECT tbl, operation, count(*) AS number
                FROM tidemark.log AS log_entry
                WHERE log_entry.zone = $1 AND log_entry.revision = entry.revision
                GROUP BY tbl, operation
            ) AS counted ON true
            ORDER BY entry.revision DESC
            """,
            [zone] + parameters
        )
        var records: [RevisionRecord] = []
        var start = 0
        while start < rows.count {
            let number = rows[start].integer(0) ?? 0
            let group = (start..<rows.count).prefix { rows[$0].integer(0) == number }.map { rows[$0] }
            records.append(
                RevisionRecord(
                    revision: number,
                    hasID: rows[start][7] != nil,
                    device: rows[start][1],
                    user: rows[start][2],
                    committed: rows[start].integer(6),
                    tables: Self.counts(group)
                )
            )
            start += group.count
        }
        return records
    }

    /// The numbers of changed records in the rows of one revision.
    private static func counts(_ rows: [PostgresRows.Row]) -> [String: RevisionRecord.Counts] {
        var tables: [String: RevisionRecord.Counts] = [:]
        for row in rows {
            let count = Int(row.integer(5) ?? 0)
            switch LogRecord.Operation(rawValue: row.text(4)) {
            case .create: tables[row.text(3), default: .init()].created = count
            case .update: tables[row.text(3), default: .init()].updated = count
            case .delete: tables[row.text(3), default: .init()].deleted = count
            case nil: continue
            }
        }
        return tables
    }

    func changeSets(of revisions: [Int64], bytesMax: Int) throws -> [Int64: String] {
        let rows = try pg.query(
            """
            SELECT revision, body
            FROM (
                SELECT entry.revision, entry.body, wanted.place,
                    sum(octet_length(entry.body)) OVER (ORDER BY wanted.place) AS bytes
                FROM unnest($2::bigint[]) WITH ORDINALITY AS wanted (revision, place)
                JOIN tidemark.revision AS entry ON entry.zone = $1 AND entry.revision = wanted.revision
                WHERE entry.body <> ''
            ) AS measured
            WHERE bytes <= $3::bigint OR place = 1
            """,
            [zone, PostgresArray.quoted(revisions.map { "\($0)" }), "\(bytesMax)"]
        )
        return Dictionary(rows.map { ($0.integer(0) ?? 0, $0.text(1)) }) { first, _ in first }
    }

    func lastRevision(before milliseconds: Int64) throws -> Int64 {
        try CommitTimes.lastRevision(committedBefore: milliseconds, zone: zone, pg)
    }

    func devices() throws -> [DeviceRecord] { try devices(named: nil) }

    func device(_ device: String) throws -> DeviceRecord? { try devices(named: device).first }

    /// Returns the device of a name; nil for all.
    private func devices(named name: String?) throws -> [DeviceRecord] {
        let condition = "zone = $1 AND ($3::text IS NULL OR device = $3)"
        return try pg.query(
            """
            SELECT device, contact.name, coalesce(lap.user_id, contact.user_id),
                greatest(coalesce(lap.revision, 0), coalesce(contact.revision, 0)), contact.first, contact.last,
                lap.lap IS NOT DISTINCT FROM $2
            FROM (SELECT * FROM tidemark.lap WHERE \(condition)) AS lap
            FULL JOIN (SELECT * FROM tidemark.contact WHERE \(condition)) AS contact USING (device)
            """,
            [zone, Exchange.forgottenLap, name]
        ).map { row in
            DeviceRecord(
                device: row.text(0),
                name: row[1],
                user: row[2],
                revision: row.integer(3) ?? 0,
                firstContact: row.integer(4),
                lastContact: row.integer(5),
                isForgotten: row.isTrue(6)
            )
        }
    }

    func refusals(before number: Int64, limit: Int) throws -> [RefusalRecord] {
        try pg.query(
            """
            SELECT refused.number, refused.id, verdict.device, refused.decided, refused.base, verdict.body, refused.sent
            FROM tidemark.refused AS refused
            JOIN tidemark.verdict AS verdict ON verdict.zone = $1 AND verdict.id = refused.id
            WHERE refused.zone = $1 AND refused.number < $2::bigint
            ORDER BY refused.number DESC
            LIMIT $3::bigint
            """,
            [zone, "\(number)", "\(limit)"]
        ).map { row in
            RefusalRecord(
                number: row.integer(0) ?? 0,
                id: row.text(1),
                device: row[2],
                decided: row.integer(3) ?? 0,
                base: row.integer(4) ?? 0,
                body: row[5] ?? "{}",
                sent: row[6]
            )
        }
    }
}
