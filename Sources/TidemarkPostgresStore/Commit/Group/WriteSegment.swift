import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Change sets that are written together: their rows in one round trip, and the log in the one that
/// commits.
extension PostgresTransaction: PlannableTransaction {
    var isPlannable: Bool { !served.hasTriggers }

    /// Answers a group with few round trips if its change sets allow it, else one after another.
    ///
    /// The transaction was begun with a ``GroupQuestion``, hence with a savepoint.
    func answer(_ group: [ZoneRequest], by handler: GroupHandler) throws -> [Result<ZoneAnswer, any Error>] {
        let before = (state, notes)
        if let answers = try planned(group, by: handler) { return answers }
        try pg.execute("ROLLBACK TO plan; RELEASE plan")
        (state, notes) = before
        tail = []
        given = [:]
        return try handler.handle(group, in: self)
    }

    private func planned(_ group: [ZoneRequest], by handler: GroupHandler) throws -> [Result<ZoneAnswer, any Error>]? {
        do { return try handler.handle(group, planning: self) } catch let failure as PostgresFailure
            where pg.isUsable && (failure.isAboutValues || failure.state == "55P03")
        {
            // Whose value or row it is, and what that means, is told when it is that change set's
            // turn.
            return nil
        }
    }

    // MARK: What is asked

    /// Most of it was asked when the transaction began.
    func facts(about requests: [SyncRequest]) throws -> PlanFacts {
        var known = PlanFacts()
        known.recent = facts.recent
        return known
    }

    func identities(_ count: Int, of table: SyncedTable) throws -> [Int64] {
        guard let stored = self.table(table.name) else { throw NotPlain() }
        guard stored.sequence == nil else {
            let ids = try draw(count, from: stored)
            drawn[table.name, default: []] += ids
            return ids
        }
        let first = try given[table.name] ?? nextIdentity(stored)
        given[table.name] = first + Int64(count)
        return Array(first..<(first + Int64(count)))
    }

    func chain(at revision: Int64) throws -> String {
        if let chain = facts.chain, chain.revision == revision { return chain.hash }
        return try pg.text(
            "SELECT chain FROM tidemark.revision WHERE zone = $1 AND revision = $2::bigint",
            [zoneName, "\(revision)"]
        ) ?? ""
    }

    // MARK: Rows

    func write(_ segment: StagedSets) throws {
        // What was written before has to be in the log.
        if !tail.isEmpty { _ = try pg.run(tail) }
        tail = []
        let steps = try writingSteps(segment)
        let results = try pg.run(steps.map(\.statement))
        for (step, result) in zip(steps, results) {
            switch step.expects {
            case .anything: continue
            case .changes(let count): guard result.changes == count else { throw NotPlain() }
            case .no: guard !result[0].isTrue(0) else { throw NotPlain() }
            }
        }
        try load(results[results.count - 1][0][0])
    }

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

    private func writingSteps(_ segment: StagedSets) throws -> [Step] {
        let work = try touched(segment)
        for item in work { try refuseSwaps(item, segment) }
        var steps = [Step(statement: .init("SET CONSTRAINTS ALL DEFERRED"))]
        for item in work { steps += try self.steps(item, .create, segment) }
        for item in work { steps += try self.steps(item, .update, segment) }
        for item in work.reversed() { steps += try self.steps(item, .delete, segment) }
        steps.append(Step(statement: .init("SET CONSTRAINTS ALL IMMEDIATE")))
        if let map = try identityMap(of: segment) {
            steps.append(
                Step(
                    statement: .init(
                        """
                        INSERT INTO tidemark.idmap
                        SELECT $1, w ->> 0, w ->> 1, (w ->> 2)::bigint, (w ->> 3)::bigint
                        FROM jsonb_array_elements($2::jsonb) AS w
                        """,
                        [zoneName, map]
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
        return steps + [Step(statement: .init(Self.reducedNowSQL, [zoneName]))]
    }

    /// A unique value that changes hands has to be parked in between, which is not done here.
    private func refuseSwaps(_ item: Work, _ segment: StagedSets) throws {
        let uniques = Set(item.stored.uniques.values.flatMap { $0 })
        guard !uniques.isEmpty else { return }
        var moving = 0
        if item.columns[.update]?.isDisjoint(with: uniques) == false {
            let names = uniques.sorted().map { SQLText.literal($0) }.joined(separator: ", ")
            moving =
                try Int.fetchOne(
                    db.cachedStatement(
                        sql: """
                            SELECT count(DISTINCT s.rec) FROM temp.tidemark_staged AS s
                            JOIN temp.tidemark_staged_cell AS c USING (rec)
                            WHERE \(segment.contains("s.ord")) AND s.tbl = ?2 AND s.operation = 'update'
                                AND c.col IN (\(names))
                            """
                    ),
                    arguments: [segment.number, item.stored.table.name]
                ) ?? 0
        }
        let creates = item.counts[.create] ?? 0
        let deletes = item.counts[.delete] ?? 0
        guard creates + moving == 0 || deletes + moving == 0 || creates + deletes + moving == 1 else {
            throw NotPlain()
        }
    }

    private func steps(_ item: Work, _ operation: TidemarkCore.Operation, _ segment: StagedSets) throws -> [Step] {
        guard let count = item.counts[operation] else { return [] }
        let table = item.stored
        let columns = item.columns[operation, default: []]
        let records = try PostgresText.records(table.table, segment, operation, in: db)
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
        guard operation != .create else { return [write] }
        let isUnseen = Step(statement: .init(Self.isUnseenSQL(table), [zoneName, records]), expects: .no)
        return [isUnseen, write]
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

    /// The ids that were given to devices, a JSON array of device, table, temporary and permanent
    /// one; nil when there are none.
    private func identityMap(of segment: StagedSets) throws -> String? {
        let map = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(json_array(p.device, s.tbl, s.old_key, s.key))
                    FROM temp.tidemark_planned AS p JOIN temp.tidemark_staged AS s USING (ord)
                        JOIN temp.tidemark_table AS t ON t.tbl = s.tbl AND t.kind = 'integer'
                    WHERE p.segment = ? AND p.device IS NOT NULL AND s.operation = 'create'
                    """
            ),
            arguments: [segment.number]
        )
        return map == "[]" ? nil : map
    }
}
