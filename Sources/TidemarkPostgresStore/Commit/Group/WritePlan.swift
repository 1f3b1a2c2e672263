import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Writes what is planned: the rows in one round trip, and the log in the one that commits.
extension PostgresTransaction {
    /// Writes the rows of the change sets that are not written yet, and renders what became of
    /// them.
    ///
    /// - Throws: ``NotPlain``, or PostgreSQL's refusal, when they cannot be written together.
    func writePlan() throws {
        guard let plan, plan.isPending else { return }
        let steps = try writingSteps(plan)
        let results = try pg.run(steps.map(\.statement))
        for (step, result) in zip(steps, results) {
            switch step.expects {
            case .anything: continue
            case .changes(let count): guard result.changes == count else { throw NotPlain() }
            case .no: guard !result[0].isTrue(0) else { throw NotPlain() }
            }
        }
        let changes = try divide(results[results.count - 1], plan)
        let end = plan.planned.count
        var rendered: [Rendered] = []
        for index in plan.written..<end {
            rendered.append(try render(plan, index, changes[index]))
        }
        try tail += logStatements(plan, rendered)
        plan.forgetRecords(written: end)
    }

    /// Sends what is to be written with the commit otherwise.
    func flush() throws {
        guard !tail.isEmpty else { return }
        _ = try pg.run(tail)
        tail = []
    }

    /// Notes the laps of all requests.
    func keepLaps() throws {
        guard let plan, !plan.laps.isEmpty else { return }
        let laps = plan.laps.sorted { $0.key < $1.key }
        tail.append(
            PostgresStatement(
                """
                INSERT INTO tidemark.lap SELECT $1, l.* FROM unnest($2::text[], $3::text[], $4::bigint[]) AS l
                ON CONFLICT (zone, device) DO UPDATE SET lap = excluded.lap, revision = excluded.revision
                """,
                [
                    zoneName, PostgresArray.quoted(laps.map(\.key)),
                    PostgresArray.quoted(laps.map(\.value.lap)),
                    Self.array(laps.map(\.value.revision)),
                ]
            )
        )
    }

    // MARK: Rows

    /// A statement, and what it has to say for the plan to be right.
    private struct Step {
        enum Expectation {
            case anything
            case changes(Int)
            case no
        }

        let statement: PostgresStatement
        var expects = Expectation.anything
    }

    private func writingSteps(_ plan: GroupPlan) throws -> [Step] {
        var steps = [Step(statement: .init("SET CONSTRAINTS ALL DEFERRED"))]
        let tables = schema.tables.compactMap { self.table($0.name) }
        for table in tables { steps += step(table, .create, plan) }
        for table in tables { steps += step(table, .update, plan) }
        for table in tables.reversed() { steps += step(table, .delete, plan) }
        steps.append(Step(statement: .init("SET CONSTRAINTS ALL IMMEDIATE")))
        if !plan.identityMap.isEmpty {
            steps.append(
                Step(
                    statement: .init(
                        """
                        INSERT INTO tidemark.idmap
                        SELECT $1, w ->> 0, w ->> 1, (w -> 2 ->> 0)::bigint, (w -> 2 ->> 1)::bigint
                        FROM jsonb_array_elements($2::jsonb) AS w
                        """,
                        [zoneName, "[\(plan.identityMap.joined(separator: ","))]"]
                    )
                )
            )
        }
        // What another program has committed meanwhile may be about the same records.
        steps.append(
            Step(
                statement: .init(
                    """
                    SELECT EXISTS (SELECT 1 FROM tidemark.capture WHERE zone = $1 AND xid < pg_current_xact_id())
                        OR EXISTS (SELECT 1 FROM tidemark.capture WHERE zone = $1 AND xid > pg_current_xact_id())
                    """,
                    [zoneName]
                ),
                expects: .no
            )
        )
        return steps + [Step(statement: .init(Self.reducedRowsSQL, [zoneName]))]
    }

    private func step(
        _ table: PostgresTable,
        _ operation: TidemarkCore.Operation,
        _ plan: GroupPlan
    ) -> [Step] {
        guard let work = plan.work[table.table.name], let count = work.counts[operation] else {
            return []
        }
        let columns = work.columns[operation, default: []]
        let records = "[\(work.records[operation, default: []].joined(separator: ","))]"
        let isUnseen = Step(
            statement: .init(Self.isUnseenSQL(table), [zoneName, records]),
            expects: .no
        )
        let sql: String? =
            switch operation {
            case .create: createSQL(table, columns)
            case .update: updateSQL(table, columns)
            case .delete: deleteSQL(table)
            }
        // An update of no column is one of a record that has to be there all the same.
        let write =
            sql.map { Step(statement: .init($0, [zoneName, records]), expects: .changes(count)) }
            ?? Step(statement: .init(Self.isMissingSQL(table), [zoneName, records]), expects: .no)
        return operation == .create ? [write] : [isUnseen, write]
    }

    /// Whether somebody else has changed one of the records since its author looked.
    private static func isUnseenSQL(_ table: PostgresTable) -> String {
        """
        SELECT EXISTS (
            SELECT 1 FROM \(StagedSet.records(2)) JOIN tidemark.log AS l
                ON l.zone = $1 AND l.tbl = \(table.literal) AND l.key = s.key AND l.revision > s.base
            WHERE l.merged OR NOT s.seen @> to_jsonb(l.revision))
        """
    }

    private static func isMissingSQL(_ table: PostgresTable) -> String {
        """
        SELECT EXISTS (
            SELECT 1 FROM \(StagedSet.records(2)) LEFT JOIN \(table.name) AS t ON \(table.matches("t"))
            WHERE $1::text IS NOT NULL AND t.tableoid IS NULL)
        """
    }

    // MARK: What became of them

    /// The reduced changes of each change set, as a JSON array.
    ///
    /// - Throws: ``NotPlain`` when a record changed that no change set names, or otherwise.
    private func divide(_ rows: PostgresRows, _ plan: GroupPlan) throws -> [Int: [String]] {
        var changes: [Int: [String]] = [:]
        for row in rows.map({ $0 }) {
            let record = StagedRequest.RecordName(table: row.text(0), key: row.text(1))
            guard let owner = plan.owners[record], owner.operation.rawValue == row.text(2) else {
                throw NotPlain()
            }
            changes[owner.index, default: []].append(row.text(3))
        }
        return changes
    }

    /// What a change set has become.
    private struct Rendered {
        let planned: GroupPlan.Planned
        let all: String
        let ids: String
        let chain: String
        let fingerprint: Fingerprint?
        let entries: String
    }

    private func render(_ plan: GroupPlan, _ index: Int, _ changes: [String]?) throws -> Rendered {
        let planned = plan.planned[index]
        let revision = planned.revision
        try load(changes.map { "[\($0.joined(separator: ","))]" })
        let envelope = answerEnvelope(planned.envelope.id, revision, planned.stamp)
        let all = try staged.renderReduced(envelope, revision: revision)
        let (ids, isAsSent) = try asAuthor(planned.sent ?? planned.renamed) { ord in
            (
                try staged.renderIds(envelope, ord: ord),
                try planned.sent != nil && staged.isAsSent(ord, isNamed: true)
            )
        }
        if let previous = plan.fingerprints[revision - 1] {
            let change = try RowFingerprints(db, schema: schema).reducedImages()
            plan.fingerprints[revision] = previous + change
        }
        let chain = RecentChangeSet.chain(
            after: try chain(before: revision, plan),
            revision: revision,
            device: planned.device,
            body: all
        )
        plan.chain = (revision, chain)
        plan.bodies.append(.init(all: all, ids: ids, isAsSent: isAsSent))
        return Rendered(
            planned: planned,
            all: all,
            ids: ids,
            chain: chain,
            fingerprint: plan.fingerprints[revision],
            entries: try logEntries(at: revision)
        )
    }

    /// The hash of the history before a revision.
    private func chain(before revision: Int64, _ plan: GroupPlan) throws -> String {
        if let chain = plan.chain, chain.revision == revision - 1 { return chain.hash }
        return try pg.text(
            "SELECT chain FROM tidemark.revision WHERE zone = $1 AND revision = $2::bigint",
            [zoneName, "\(revision - 1)"]
        ) ?? ""
    }

    /// A number that no change set of a request has.
    private static let authorOrd = Int(Int32.max)

    /// Runs `body` with the author's records in `temp.tidemark_staged`.
    private func asAuthor<Result>(
        _ records: String?,
        _ body: (_ ord: Int) throws -> Result
    ) throws -> Result {
        guard let records else { return try body(Self.authorOrd) }
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_staged (ord, tbl, operation, key, old_key, attributes)
                SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?2)
                """
        ).execute(arguments: [Self.authorOrd, records])
        let result = try body(Self.authorOrd)
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_staged WHERE ord = ?").execute(
            arguments: [Self.authorOrd]
        )
        return result
    }

    // MARK: The log

    private func logStatements(_ plan: GroupPlan, _ sets: [Rendered]) throws -> [PostgresStatement]
    {
        let revisions = Self.array(sets.map(\.planned.revision))
        let ids = PostgresArray.nullable(sets.map(\.planned.envelope.id))
        let devices = PostgresArray.nullable(sets.map(\.planned.device))
        let entries = sets.map { $0.entries.dropFirst().dropLast() }.filter { !$0.isEmpty }
        var statements = [
            PostgresStatement(
                """
                WITH revision AS (
                    INSERT INTO tidemark.revision (zone, revision, id, device, time, body, chain)
                    SELECT $1, r.* FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[],
                        $6::text[], $7::text[]) AS r
                ), entry AS (
                    SELECT * FROM jsonb_to_recordset($8::jsonb)
                        AS e (tbl text, key text, revision bigint, operation text, columns text)
                ), logged AS (
                    INSERT INTO tidemark.log (zone, tbl, key, revision, operation, columns)
                    SELECT $1, tbl, key, revision, operation, columns FROM entry
                )
                INSERT INTO tidemark.identity AS i (zone, tbl, next)
                SELECT $1, tbl, max(key::bigint) + 1 FROM entry WHERE tbl = ANY ($9::text[]) GROUP BY tbl
                ON CONFLICT (zone, tbl) DO UPDATE SET next = greatest(i.next, excluded.next)
                """,
                [
                    zoneName, revisions, ids, devices, Self.array(sets.map(\.planned.stamp.time)),
                    PostgresArray.quoted(sets.map(\.all)), PostgresArray.quoted(sets.map(\.chain)),
                    "[\(entries.joined(separator: ","))]", integerTables,
                ]
            ),
            PostgresStatement(
                """
                INSERT INTO tidemark.verdict (zone, id, device, hash, revision, after, ids)
                SELECT $1, v.id, v.device, v.hash, v.revision, v.after::text[], v.ids
                FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[])
                    AS v (id, device, hash, revision, after, ids) WHERE v.id IS NOT NULL
                """,
                [
                    zoneName, ids, devices, PostgresArray.quoted(sets.map(\.planned.envelope.hash)),
                    revisions,
                    PostgresArray.quoted(sets.map { Self.array($0.planned.envelope.after) }),
                    PostgresArray.quoted(sets.map(\.ids)),
                ]
            ),
        ]
        let known = sets.filter { $0.fingerprint != nil }
        if !known.isEmpty {
            statements.append(
                PostgresStatement(
                    """
                    INSERT INTO tidemark.fingerprint
                    SELECT $1, f.revision, f.fingerprint, $4 FROM unnest($2::bigint[], $3::text[]) AS f (revision, fingerprint)
                    ON CONFLICT (zone, revision) DO UPDATE SET fingerprint = excluded.fingerprint,
                        shape = excluded.shape
                    """,
                    [
                        zoneName, Self.array(known.map(\.planned.revision)),
                        Self.array(known.compactMap { $0.fingerprint?.hex }), shape,
                    ]
                )
            )
        }
        return statements
    }
}

extension GroupPlan {
    /// Forgets the records of what is written.
    func forgetRecords(written end: Int) {
        written = end
        work = [:]
        owners = [:]
        (referred, referredTables) = ([], [])
        identityMap = []
    }
}
