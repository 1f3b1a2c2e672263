import GRDB
package import TidemarkCore
package import TidemarkEngine
package import TidemarkSQL
package import TidemarkStoreSupport

/// Writes the change sets of a group together, with one set of statements for all.
extension ZoneTransaction: PlannableTransaction {
    package var isPlannable: Bool {
        get throws {
            guard !schema.hasZeroReferences else { return false }
            return try Bool.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT NOT EXISTS (
                            SELECT 1
                            FROM main.sqlite_master
                            WHERE type = 'trigger' AND name NOT LIKE 'tidemark\\_%' ESCAPE '\\')
                        """
                )
            ) ?? false
        }
    }

    /// Answers a group whose change sets can be written together; returns nil for other groups.
    package func answer(_ group: [ZoneRequest], planningBy handler: GroupHandler) throws -> [Result<
        ZoneAnswer, any Error
    >]? {
        do { return try handler.handle(group, planning: self) } catch let error as DatabaseError
            where !Self.endsTransaction(error)
        {
            // The serial execution then finds the request with the unreadable rows.
            return nil
        }
    }

    // MARK: Facts for the plan

    package func facts(about requests: [SyncRequest]) throws -> PlanFacts {
        var facts = PlanFacts()
        let ids = requests.flatMap { $0.changeSets.compactMap(\.id) }
        facts.idsWithoutVerdict = Set(ids).subtracting(try idsWithVerdict(ids))
        let devices = Set(requests.compactMap(\.device))
        facts.exchanges = Dictionary(uniqueKeysWithValues: devices.map { ($0, nil) })
        let list = "[\(devices.map(ChangeSetJSON.quote).joined(separator: ","))]"
        let exchanges = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT device, lap, revision, user_id FROM tidemark_lap
                    WHERE device IN (SELECT value FROM json_each(?))
                    """
            ),
            arguments: [list]
        )
        for row in exchanges {
            facts.exchanges[try row.value(0)] = try Exchange(
                lap: row.value(1),
                revision: row.value(2),
                user: row.value(3)
            )
        }
        let devicesWithNotes = try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT device
                    FROM tidemark_overruled
                    WHERE device IN (SELECT value FROM json_each(?))
                    """
            ),
            arguments: [list]
        )
        facts.devicesWithoutNotes = devices.subtracting(devicesWithNotes)
        try readRecent(after: requests.map(\.maxRevision).min() ?? 0, into: &facts)
        return facts
    }

    /// The most revisions whose bodies are read in advance.
    private static let recentMax: Int64 = 64
    /// The most bytes of bodies that are read in advance.
    private static let recentBytesMax = 1 << 20

    private func readRecent(after revision: Int64, into facts: inout PlanFacts) throws {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT \(LogEntry.columns)
                    FROM tidemark_revision AS log_entry
                    \(LogEntry.previousEntry)
                    WHERE log_entry.revision > max(?, (SELECT revision FROM tidemark_zone) - \(Self.recentMax))
                    ORDER BY log_entry.revision DESC
                    """
            ),
            arguments: [revision]
        )
        var bytes = 0
        // A change set in several pieces is too large to read in advance.
        while bytes < Self.recentBytesMax, let row = try rows.next(), try row.value("rest") as Int? == nil {
            let entry = try LogEntry(row, in: db)
            bytes += entry.body.utf8.count
            // The answer to a device behind a damaged entry reports the damage.
            guard entry.isAuthentic else { continue }
            facts.recent[entry.revision] = .init(device: entry.device, body: entry.body)
        }
    }

    package func reserveIdentities(_ count: Int, of table: SyncedTable) throws -> [Int64] {
        var ids: [Int64] = []
        ids.reserveCapacity(count)
        var chosenIDs: Set<Int64>?
        while ids.count < count {
            guard let place = try nextIdentities(of: table, from: (ids.last ?? 0) + 1) else {
                throw TidemarkError(
                    .unavailable,
                    "The table has no ids left for new records: they end at 2^51 - 1.",
                    fix:
                        """
                        Give its highest rows lower ids in the file, and serve a copy made with .dump of the app's \
                        tables.
                        """,
                    place: .init(table: table.name)
                )
            }
            let taken = try chosenIDs ?? staged.chosenIDs(of: table, from: place.lowerBound)
            chosenIDs = taken
            ids += place.lazy.filter { !taken.contains($0) }.prefix(count - ids.count)
        }
        try keepNextIdentity((ids.last ?? 0) + 1, of: table)
        return ids
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
            guard isContended == false else { throw GroupNeedsSerialExecution() }
        }
        do { try RecordWriter(db, schema: schema, existing: .refuse).write(segment) } catch let error as DatabaseError
            where error.resultCode == .SQLITE_CONSTRAINT
        { throw GroupNeedsSerialExecution() }
        guard !ForeignKeyCheck(db, schema: schema).hasUnresolvedReferences else { throw GroupNeedsSerialExecution() }
        try keepIdentities(of: segment)
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_reduced").execute()
        guard let range = try ReduceCapture.collectPending(schema, in: db) else { return }
        try ReduceCapture.reduce(range, schema: schema, in: db)
        try ReduceCapture.deleteCaptures(range, schema: schema, in: db)
    }

    /// Selects whether a segment updates or deletes a record with changes that its author has not seen.
    private func isContendedSQL(_ table: SyncedTable) -> String {
        let cells = table.key.indices.map {
            """
            JOIN temp.tidemark_staged_cell AS cell\($0)
                ON cell\($0).rec = staged.rec AND cell\($0).col = \(SQLText.literal(table.key[$0]))
            """
        }
        let match = table.key.indices.map { "current_row.\(SQLText.name(table.key[$0])) = cell\($0).value" }
        let name = SQLText.literal(table.name)
        return """
            SELECT EXISTS (
                SELECT 1
                FROM temp.tidemark_planned AS planned
                CROSS JOIN temp.tidemark_staged AS staged
                    ON staged.ord = planned.ord AND staged.tbl = \(name)
                \(cells.joined(separator: " "))
                LEFT JOIN main.\(SQLText.name(table.name)) AS current_row
                    ON \(match.joined(separator: " AND "))
                WHERE planned.segment = ?
                    AND staged.operation <> 'create'
                    AND (current_row.\(SQLText.name(table.key[0])) IS NULL
                        OR EXISTS (
                            SELECT 1
                            FROM tidemark_log AS log_entry
                            WHERE log_entry.tbl = staged.tbl
                                AND log_entry.key = staged.key
                                AND log_entry.revision > min(coalesce(staged.base, planned.base), planned.base)
                                AND (log_entry.merged
                                    OR log_entry.revision NOT IN (SELECT value FROM json_each(planned.seen))))))
            """
    }

    private func keepIdentities(of segment: StagedSets) throws {
        do {
            try db.cachedStatement(
                sql: """
                    INSERT INTO tidemark_idmap
                    SELECT
                        planned.device,
                        staged.tbl,
                        CAST(staged.old_key AS INTEGER),
                        CAST(staged.key AS INTEGER)
                    FROM temp.tidemark_planned AS planned
                    JOIN temp.tidemark_staged AS staged USING (ord)
                    JOIN temp.tidemark_table AS synced_table
                        ON synced_table.tbl = staged.tbl AND synced_table.kind = 'integer'
                    WHERE planned.segment = ?
                        AND planned.device IS NOT NULL
                        AND staged.operation = 'create'
                        AND staged.old_key IS NOT NULL
                    """
            ).execute(arguments: [segment.number])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw GroupNeedsSerialExecution()
        }
    }

    // MARK: The log

    package func fingerprints(of segment: StagedSets) throws -> [Int: Fingerprint] {
        try RowFingerprints(db, schema: schema).reducedDifferences(in: segment)
    }

    package func keep(_ sets: [PlannedRevision], of segment: StagedSets) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO tidemark_log (tbl, key, revision, operation, columns, unlogged)
                SELECT
                    change.tbl,
                    change.key,
                    planned.revision,
                    change.operation,
                    CASE change.operation WHEN 'update' THEN (
                        SELECT json_group_array(\(MemberSQL.name(of: "attribute.key")))
                        FROM json_each(change.attributes) AS attribute) END,
                    \(UnloggedValues.sql)
                FROM temp.tidemark_planned AS planned
                JOIN temp.tidemark_staged AS staged USING (ord)
                JOIN temp.tidemark_reduced AS change
                    ON change.tbl = staged.tbl AND change.key = staged.key
                WHERE planned.segment = ?
                """
        ).execute(arguments: [segment.number])
        try retireIds()
        for set in sets { try keep(set) }
    }

    private func keep(_ set: PlannedRevision) throws {
        let envelope = set.changeSet.envelope
        let stamp = set.changeSet.stamp
        let revision = set.changeSet.revision
        try insertRevision(revision, id: envelope.id, stamp: stamp, body: set.body.all, chain: set.chain)
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
