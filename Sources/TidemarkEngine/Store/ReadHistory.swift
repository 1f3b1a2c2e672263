package import TidemarkCore

/// What the log tells clients without rows: its entries, revisions and refusals.
extension LogReader {
    /// Reads at most `limit` log entries after a position, without their values, in the order of revision, table, key.
    ///
    /// There are fewer only at the end of the log.
    package func entries(after position: LogPosition, limit: Int) throws -> [LogRecord] {
        try zone.rows(
            HistorySQL.entriesAfter,
            [.integer(position.revision), .text(position.table), .text(position.key), .integer(Int64(limit))]
        ).compactMap(LogRecord.init)
    }

    /// Reads the latest entries of one record before a revision, newest first.
    package func history(of key: String, in table: SyncedTable, before revision: Int64, limit: Int) throws
        -> [LogRecord]
    {
        try zone.rows(
            HistorySQL.entriesBefore, [.text(table.name), .text(key), .integer(revision), .integer(Int64(limit))]
        )
        .compactMap(LogRecord.init)
    }

    /// Reads the first entries of one record after a revision, oldest first.
    package func history(of key: String, in table: SyncedTable, after revision: Int64, limit: Int) throws
        -> [LogRecord]
    {
        try zone.rows(
            HistorySQL.entriesSince, [.text(table.name), .text(key), .integer(revision), .integer(Int64(limit))]
        )
        .compactMap(LogRecord.init)
    }

    /// Reads revisions before one, newest first: of a table only those that changed it, and of an author only those of
    /// this device or user.
    package func revisions(before revision: Int64, table: String?, author: String?, limit: Int) throws
        -> [RevisionRecord]
    {
        let filters = [table, author].map { $0.map(Value.text) ?? .null }
        return try records(
            zone.rows(HistorySQL.revisionsBefore, [.integer(revision)] + filters + [.integer(Int64(limit))]))
    }

    /// Reads certain revisions, in any order.
    package func revisions(_ numbers: [Int64]) throws -> [RevisionRecord] {
        try records(zone.rows(BookQuestion(HistorySQL.revisions, about: numbers.map { [.integer($0)] })))
    }

    private func records(_ found: [BookRow]) throws -> [RevisionRecord] {
        let numbers = try found.map { try $0.number(0) }
        var counts: [Int64: [String: RevisionRecord.Counts]] = [:]
        for row in try zone.rows(BookQuestion(HistorySQL.counts, about: numbers.map { [.integer($0)] })) {
            let count = Int(try row.number(3))
            let revision = try row.number(0)
            let table = try row.text(1)
            switch TidemarkCore.Operation(rawValue: try row.text(2)) {
            case .create: counts[revision, default: [:]][table, default: .init()].created = count
            case .update: counts[revision, default: [:]][table, default: .init()].updated = count
            case .delete: counts[revision, default: [:]][table, default: .init()].deleted = count
            case nil: continue
            }
        }
        return zip(found, numbers).map { row, number in
            RevisionRecord(
                revision: number, hasID: row[1] != nil, device: row[2], user: row[3], committed: row.integer(4),
                tables: counts[number] ?? [:])
        }
    }

    /// Returns the last revision that was committed before a time in milliseconds since 1970; 0 if there is none.
    ///
    /// The rows that existed before the zone have no time and count as earlier. It is a binary search by the primary
    /// key: the times of commits never fall.
    package func lastRevision(before milliseconds: Int64) throws -> Int64 {
        try zone.rows(HistorySQL.lastRevisionBefore, [.integer(milliseconds)]).first?.integer(0) ?? 0
    }

    /// Reads refused change sets before one with a number, newest first.
    package func refusals(before number: Int64, limit: Int) throws -> [RefusalRecord] {
        try zone.rows(HistorySQL.refusals, [.integer(number), .integer(Int64(limit))]).map { row in
            RefusalRecord(
                number: try row.number(0), id: try row.text(1), device: row[2], decided: try row.number(3),
                base: try row.number(4), body: row[5] ?? "{}", sent: row[6])
        }
    }
}

extension BookDatabase {
    /// Returns the hashes of the history up to revisions; empty or absent where the log has none.
    package func chains(of revisions: Set<Int64>) throws -> [Int64: String] {
        try rows(BookQuestion(HistorySQL.revisions, about: revisions.map { [.integer($0)] })).reduce(into: [:]) {
            $0[try $1.number(0)] = try $1.text(5)
        }
    }

    /// Reads the devices that the zone knows.
    package func devices() throws -> [DeviceRecord] {
        try rows(HistorySQL.devices, [.text(Exchange.forgottenLap)]).map(DeviceRecord.init)
    }

    /// Returns the stored record of a device, also of a forgotten one; nil if there is none.
    package func device(_ device: String) throws -> DeviceRecord? {
        try rows(HistorySQL.device, [.text(Exchange.forgottenLap), .text(device)]).first.map(DeviceRecord.init)
    }
}

private enum HistorySQL {
    // Without the index, SQLite 3.40 reads the whole log and sorts it; the first comparison is a range of
    // PostgreSQL's index over the revisions.
    static let entriesAfter = BookStatement(
        """
        SELECT revision, tbl, key, operation, columns, NULL, merged FROM {log} {INDEXED BY tidemark_log_revision|}
        WHERE {here} AND revision >= CAST($2 AS bigint) AND (revision, tbl, key) > (CAST($2 AS bigint), $3, $4)
        ORDER BY revision, tbl, key
        LIMIT $5
        """)
    static let entriesBefore = entriesOfRecord("revision < $4", order: "revision DESC")
    static let entriesSince = entriesOfRecord("revision > $4", order: "revision")

    private static func entriesOfRecord(_ condition: String, order: String) -> BookStatement {
        BookStatement(
            """
            SELECT revision, tbl, key, operation, columns, replaced, merged FROM {log}
            WHERE {here} AND tbl = $2 AND key = $3 AND \(condition)
            ORDER BY \(order)
            LIMIT $5
            """)
    }

    static let revisionsBefore = BookStatement(
        """
        SELECT revision, id, device, user_id, committed
        FROM {revision} AS entry
        WHERE {here} AND revision < $2
            AND (CAST($3 AS text) IS NULL OR EXISTS (
                SELECT 1
                FROM {log} AS log_entry {INDEXED BY tidemark_log_revision|}
                WHERE {here log_entry} AND log_entry.revision = entry.revision AND log_entry.tbl = $3))
            AND (CAST($4 AS text) IS NULL OR device = $4 OR user_id = $4)
        ORDER BY revision DESC
        LIMIT $5
        """)
    static let revisions = BookStatement(
        """
        SELECT entry.revision, entry.id, entry.device, entry.user_id, entry.committed, entry.chain
        FROM {each revision AS entry: entry.revision = asked.revision}
        """,
        about: ["revision": "bigint"])
    static let counts = BookStatement(
        """
        SELECT entry.revision, entry.tbl, entry.operation, count(*)
        FROM {each log AS entry INDEXED BY tidemark_log_revision: entry.revision = asked.revision}
        GROUP BY entry.revision, entry.tbl, entry.operation
        """,
        about: ["revision": "bigint"])
    static let lastRevisionBefore = BookStatement(
        """
        WITH RECURSIVE search (low, high) AS (
            SELECT CAST(0 AS bigint), revision FROM {zone} WHERE {here}
            UNION ALL
            SELECT CASE WHEN coalesce(middle.committed, 0) < $2 THEN (low + high + 1) / 2 ELSE low END,
                CASE WHEN coalesce(middle.committed, 0) < $2 THEN high ELSE (low + high + 1) / 2 - 1 END
            FROM search
            LEFT JOIN {revision} AS middle ON {here middle} AND middle.revision = (low + high + 1) / 2
            WHERE low < high
        )
        SELECT low FROM search WHERE low = high
        """)

    static let devices = devices(where: "{here}")
    static let device = devices(where: "{here} AND device = $3")

    private static func devices(where condition: String) -> BookStatement {
        BookStatement(
            """
            SELECT known.device, contact.name, coalesce(lap.user_id, contact.user_id),
                coalesce(lap.revision, 0), coalesce(contact.revision, 0), contact.first, contact.last,
                coalesce(lap.lap = $2, false)
            FROM (
                SELECT device FROM {lap} WHERE \(condition)
                UNION
                SELECT device FROM {contact} WHERE \(condition)
            ) AS known
            LEFT JOIN {lap} AS lap ON {here lap} AND lap.device = known.device
            LEFT JOIN {contact} AS contact ON {here contact} AND contact.device = known.device
            """)
    }

    static let refusals = BookStatement(
        """
        SELECT refused.number, refused.id, verdict.device, refused.decided, refused.base, verdict.body, refused.sent
        FROM {refused} AS refused
        JOIN {verdict} AS verdict ON {here verdict} AND verdict.id = refused.id
        WHERE {here refused} AND refused.number < $2
        ORDER BY refused.number DESC
        LIMIT $3
        """)
}

extension LogRecord {
    /// Reads an entry; nil for an operation of a later version.
    init?(_ row: BookRow) throws {
        guard let operation = TidemarkCore.Operation(rawValue: try row.text(3)) else { return nil }
        self.init(
            revision: try row.number(0), table: try row.text(1), key: try row.text(2), operation: operation,
            columns: row[4].map { Value.parts(ofKey: $0).compactMap(\.text) } ?? [], replaced: row[5],
            isMerged: row.isTrue(6))
    }
}

extension DeviceRecord {
    fileprivate init(_ row: BookRow) throws {
        self.init(
            device: try row.text(0), name: row[1], user: row[2], revision: max(try row.number(3), try row.number(4)),
            firstContact: row.integer(5), lastContact: row.integer(6), isForgotten: row.isTrue(7))
    }
}
