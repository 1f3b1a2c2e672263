import GRDB
package import TidemarkCore
package import TidemarkServer
package import TidemarkSQLite
package import TidemarkStore

/// Change sets that are written together: the statements of one, for all of them.
extension ZoneTransaction: PlannableTransaction {
    package var isPlannable: Bool {
        get throws {
            try Bool.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT NOT EXISTS (SELECT 1 FROM main.sqlite_master
                            WHERE type = 'trigger' AND name NOT LIKE 'tidemark\\_%' ESCAPE '\\')
                        """
                )
            ) ?? false
        }
    }

    /// Answers a group whose change sets can be written together; nil when they cannot.
    package func answer(_ group: [ZoneRequest], planningBy handler: GroupHandler) throws -> [Result<
        ZoneAnswer, any Error
    >]? {
        do { return try handler.handle(group, planning: self) } catch let error as DatabaseError
            where !Self.endsTransaction(error)
        {
            // Whose rows cannot be read, and what that means, is told when it is their turn.
            return nil
        }
    }

    // MARK: What is asked

    package func facts(about requests: [SyncRequest]) throws -> PlanFacts {
        var facts = PlanFacts()
        let ids = requests.flatMap { $0.changeSets.compactMap(\.id) }
        facts.unanswered = Set(ids).subtracting(try known(ids))
        let devices = Set(requests.compactMap(\.device))
        facts.exchanges = Dictionary(uniqueKeysWithValues: devices.map { ($0, nil) })
        let list = "[\(devices.map(ChangeSetJSON.quote).joined(separator: ","))]"
        let exchanges = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT device, lap, revision FROM tidemark_lap
                    WHERE device IN (SELECT value FROM json_each(?))
                    """
            ),
            arguments: [list]
        )
        for row in exchanges {
            facts.exchanges[try row.value(0)] = try Exchange(lap: row.value(1), revision: row.value(2))
        }
        let noted = try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT device FROM tidemark_overruled
                    WHERE device IN (SELECT value FROM json_each(?))
                    """
            ),
            arguments: [list]
        )
        facts.unnoted = devices.subtracting(noted)
        try readRecent(after: requests.map(\.maxRevision).min() ?? 0, into: &facts)
        return facts
    }

    /// The most revisions of which the bodies are read in advance, and the most bytes.
    private static let (recentMax, recentBytesMax): (Int64, Int) = (64, 1 << 20)

    private func readRecent(after revision: Int64, into facts: inout PlanFacts) throws {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT \(LogEntry.columns)
                    FROM tidemark_revision AS r \(LogEntry.previousEntry) WHERE r.revision > max(?,
                        (SELECT revision FROM tidemark_zone) - \(Self.recentMax)) ORDER BY r.revision DESC
                    """
            ),
            arguments: [revision]
        )
        var bytes = 0
        // What is not whole in its row is too much to be read in advance.
        while bytes < Self.recentBytesMax, let row = try rows.next(), try row.value("rest") as Int? == nil {
            let entry = try LogEntry(row, in: db)
            bytes += entry.body.utf8.count
            // What is damaged is met by the one who is behind it, and dealt with there.
            guard entry.isAuthentic else { continue }
            facts.recent[entry.revision] = .init(device: entry.device, body: entry.body)
        }
    }

    package func identities(_ count: Int, of table: SyncedTable) throws -> [Int64] {
        let first = try nextIdentity(of: table)
        guard first <= TemporaryID.permanentMax - Int64(count) + 1 else {
            throw TidemarkError(
                .unavailable,
                "The table has no ids left for what is created: they end at 2^52 - 1.",
                fix:
                    "Give its highest rows lower ids in the file, and serve a copy made with .dump of the app's tables.",
                place: .init(table: table.name)
            )
        }
        try keepNextIdentity(first + Int64(count), of: table)
        return Array(first..<(first + Int64(count)))
    }

    package func chain(at revision: Int64) throws -> String {
        try String.fetchOne(
            db.cachedStatement(sql: "SELECT chain FROM tidemark_revision WHERE revision = ?"),
            arguments: [revision]
        ) ?? ""
    }

    // MARK: Rows

    package func write(_ segment: StagedSets) throws {
        try ConnectionFlag.deferForeignKeys.set(true, in: db)
        for table in try staged.touchedTables(segment) {
            let isContended = try Bool.fetchOne(
                db.cachedStatement(sql: isContendedSQL(table)),
                arguments: [segment.number]
            )
            guard isContended == false else { throw NotPlain() }
        }
        do { try RecordWriter(db, schema: schema, existing: .refuse).write(segment) } catch let error as DatabaseError
            where error.resultCode == .SQLITE_CONSTRAINT
        { throw NotPlain() }
        guard !ForeignKeyCheck(db, schema: schema).hasUnresolved else { throw NotPlain() }
        try keepIdentities(of: segment)
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_reduced").execute()
        guard let range = try ReduceCapture.settled(schema, in: db) else { return }
        try ReduceCapture.reduce(range, schema: schema, in: db)
        try ReduceCapture.forget(range, schema: schema, in: db)
    }

    /// Whether somebody has changed a record that a segment updates or deletes, unseen by its
    /// author.
    private func isContendedSQL(_ table: SyncedTable) -> String {
        let cells = table.key.indices.map {
            "JOIN temp.tidemark_staged_cell AS c\($0) ON c\($0).rec = s.rec AND c\($0).col = \(SQLText.literal(table.key[$0]))"
        }
        let match = table.key.indices.map { "t.\(SQLText.name(table.key[$0])) = c\($0).value" }
        let name = SQLText.literal(table.name)
        return """
            SELECT EXISTS (
                SELECT 1 FROM temp.tidemark_planned AS p
                    CROSS JOIN temp.tidemark_staged AS s ON s.ord = p.ord AND s.tbl = \(name)
                    \(cells.joined(separator: " "))
                    LEFT JOIN main.\(SQLText.name(table.name)) AS t ON \(match.joined(separator: " AND "))
                WHERE p.segment = ? AND s.operation <> 'create'
                    AND (t.\(SQLText.name(table.key[0])) IS NULL OR EXISTS (
                        SELECT 1 FROM tidemark_log AS l WHERE l.tbl = s.tbl AND l.key = s.key
                            AND l.revision > min(coalesce(s.base, p.base), p.base)
                            AND (l.merged OR l.revision NOT IN (SELECT value FROM json_each(p.seen))))))
            """
    }

    private func keepIdentities(of segment: StagedSets) throws {
        do {
            try db.cachedStatement(
                sql: """
                    INSERT INTO tidemark_idmap
                    SELECT p.device, s.tbl, CAST(s.old_key AS INTEGER), CAST(s.key AS INTEGER)
                    FROM temp.tidemark_planned AS p JOIN temp.tidemark_staged AS s USING (ord)
                        JOIN temp.tidemark_table AS t ON t.tbl = s.tbl AND t.kind = 'integer'
                    WHERE p.segment = ? AND p.device IS NOT NULL AND s.operation = 'create'
                    """
            ).execute(arguments: [segment.number])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT { throw NotPlain() }
    }

    // MARK: The log

    package func fingerprints(of segment: StagedSets) throws -> [Int: Fingerprint] {
        try RowFingerprints(db, schema: schema).reduced(in: segment)
    }

    package func keep(_ sets: [PlannedRevision], of segment: StagedSets) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_log (tbl, key, revision, operation, columns)
                SELECT r.tbl, r.key, p.revision, r.operation, CASE r.operation WHEN 'update'
                    THEN (SELECT json_group_array(j.key) FROM json_each(r.attributes) AS j) END
                FROM temp.tidemark_planned AS p JOIN temp.tidemark_staged AS s USING (ord)
                    JOIN temp.tidemark_reduced AS r ON r.tbl = s.tbl AND r.key = s.key
                WHERE p.segment = ?
                """
        ).execute(arguments: [segment.number])
        try retireIds()
        for set in sets { try keep(set) }
    }

    private func keep(_ set: PlannedRevision) throws {
        let envelope = set.planned.envelope
        let stamp = set.planned.stamp
        let revision = set.planned.revision
        try insertRevision(revision, envelope.id, stamp, set.body.all, chain: set.chain)
        if let fingerprint = set.fingerprint { try keepFingerprint(fingerprint, at: revision) }
        try keep(
            envelope,
            device: stamp.device,
            revision: revision,
            LoggedChangeSet(ids: set.body.ids, isAsSent: set.body.isAsSent)
        )
    }

    package func keep(_ laps: [String: Exchange], zone: ZoneState) throws {
        for (device, exchange) in laps.sorted(by: { $0.key < $1.key }) { try keep(exchange, with: device) }
        try db.cachedStatement(sql: "UPDATE tidemark_zone SET revision = ?, time = ?").execute(arguments: [
            zone.revision, zone.time,
        ])
    }
}
