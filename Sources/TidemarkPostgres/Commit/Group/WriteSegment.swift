import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkStoreSupport

/// Writes planned change sets together: their rows in one round trip, the log with the commit.
extension PostgresTransaction: PlannableTransaction {
    var isPlannable: Bool { !served.hasTriggers }

    /// Answers a group in few round trips if its change sets allow it, else one after another.
    ///
    /// The ``GroupQuestion`` of the transaction has set the savepoint `plan`.
    func answer(_ group: [ZoneRequest], by handler: GroupHandler) throws -> [Result<ZoneAnswer, any Error>] {
        let stateBefore = state
        let notesBefore = notes
        if let answers = try answerPlanned(group, by: handler) { return answers }
        try pg.execute("ROLLBACK TO plan; RELEASE plan")
        state = stateBefore
        notes = notesBefore
        tail = []
        nextIDByTable = [:]
        return try handler.handle(group, in: self)
    }

    /// Answers a group by a plan; nil if it needs serial execution.
    private func answerPlanned(_ group: [ZoneRequest], by handler: GroupHandler) throws -> [Result<
        ZoneAnswer, any Error
    >]? {
        do { return try handler.handle(group, planning: self) } catch let failure as PostgresFailure
            where pg.isUsable && (failure.isAboutValues || failure.state == "55P03")
        {
            // Serial execution finds the change set with this value or row, and its error.
            return nil
        }
    }

    // MARK: Queries

    /// Returns facts that the transaction read when it began.
    func facts(about requests: [SyncRequest]) throws -> PlanFacts {
        var planFacts = PlanFacts()
        planFacts.recent = facts.recent
        return planFacts
    }

    func reserveIdentities(_ count: Int, of table: SyncedTable) throws -> [Int64] {
        guard let stored = self.table(table.name) else { throw GroupNeedsSerialExecution() }
        guard stored.sequence == nil else {
            let ids = try drawIDs(count, from: stored)
            spareIDsByTable[table.name, default: []] += ids
            return ids
        }
        let (ids, next) = try idsInOrder(count, of: stored, from: nextIDByTable[table.name] ?? nextIdentity(stored))
        nextIDByTable[table.name] = next
        return ids
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
        // The checks below read the log, so earlier segments must be in it.
        if !tail.isEmpty { _ = try pg.run(tail) }
        tail = []
        let steps = try writingSteps(segment)
        let results = try pg.run(steps.map(\.statement))
        for (step, result) in zip(steps, results) {
            switch step.expectation {
            case .anything: continue
            case .changes(let count): guard result.changes == count else { throw GroupNeedsSerialExecution() }
            case .isFalse: guard !result[0].isTrue(0) else { throw GroupNeedsSerialExecution() }
            }
        }
        try load(results[results.count - 1][0][0])
    }

    /// A statement, and the result that confirms the plan.
    private struct Step {
        enum Expectation {
            case anything
            case changes(Int)
            case isFalse
        }

        let statement: PostgresStatement
        var expectation = Expectation.anything
    }

    private func writingSteps(_ segment: StagedSets) throws -> [Step] {
        let work = try tableWork(segment)
        for item in work { try refuseSwaps(item, segment) }
        var steps = [Step(statement: .init("SET CONSTRAINTS ALL DEFERRED"))]
        for item in work { steps += try self.steps(item, operation: .create, segment: segment) }
        for item in work { steps += try self.steps(item, operation: .update, segment: segment) }
        for item in work.reversed() { steps += try self.steps(item, operation: .delete, segment: segment) }
        steps.append(Step(statement: .init("SET CONSTRAINTS ALL IMMEDIATE")))
        if let map = try identityMap(of: segment) {
            steps.append(
                Step(
                    statement: .init(
                        """
                        INSERT INTO tidemark.idmap
                        SELECT $1, pair ->> 0, pair ->> 1, (pair ->> 2)::bigint, (pair ->> 3)::bigint
                        FROM jsonb_array_elements($2::jsonb) AS pair
                        """,
                        [zoneName, map]
                    )
                )
            )
        }
        // Another program may have committed changes of the same records meanwhile.
        steps.append(
            Step(
                statement: .init(
                    """
                    SELECT EXISTS (SELECT 1 FROM tidemark.capture WHERE zone = $1 AND xid < pg_current_xact_id())
                        OR EXISTS (SELECT 1 FROM tidemark.capture WHERE zone = $1 AND xid > pg_current_xact_id())
                    """,
                    [zoneName]
                ),
                expectation: .isFalse
            )
        )
        return steps + [Step(statement: .init(Self.reducedNowSQL, [zoneName]))]
    }

    /// Refuses segments that may swap unique values, because only serial execution parks them.
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
                            SELECT count(DISTINCT staged.rec)
                            FROM temp.tidemark_staged AS staged
                            JOIN temp.tidemark_staged_cell AS cell USING (rec)
                            WHERE \(segment.contains("staged.ord"))
                                AND staged.tbl = ?2 AND staged.operation = 'update' AND cell.col IN (\(names))
                            """
                    ),
                    arguments: [segment.number, item.stored.table.name]
                ) ?? 0
        }
        let creates = item.counts[.create] ?? 0
        let deletes = item.counts[.delete] ?? 0
        guard creates + moving == 0 || deletes + moving == 0 || creates + deletes + moving == 1 else {
            throw GroupNeedsSerialExecution()
        }
    }

    private func steps(_ item: Work, operation: TidemarkCore.Operation, segment: StagedSets) throws -> [Step] {
        guard let count = item.counts[operation] else { return [] }
        let table = item.stored
        let columns = item.columns[operation, default: []]
        let records = try PostgresText.records(table.table, segment: segment, operation: operation, in: db)
        let sql: String? =
            switch operation {
            case .create: createSQL(table, columns)
            case .update: updateSQL(table, columns, adding: item.adding)
            case .delete: deleteSQL(table)
            }
        // An update without columns still needs an existing record.
        let write =
            sql.map { Step(statement: .init($0, [zoneName, records]), expectation: .changes(count)) }
            ?? Step(statement: .init(Self.hasMissingSQL(table), [zoneName, records]), expectation: .isFalse)
        guard operation != .create else { return [write] }
        let unseenCheck = Step(statement: .init(Self.hasUnseenSQL(table), [zoneName, records]), expectation: .isFalse)
        return [unseenCheck, write]
    }

    /// The query whether another author changed a record after its base.
    private static func hasUnseenSQL(_ table: PostgresTable) -> String {
        """
        SELECT EXISTS (
            SELECT 1
            FROM \(StagedSet.records(2))
            JOIN tidemark.log AS log_entry
                ON log_entry.zone = $1 AND log_entry.tbl = \(table.literal)
                AND log_entry.key = staged.key AND log_entry.revision > staged.base
            WHERE log_entry.merged OR NOT staged.seen @> to_jsonb(log_entry.revision))
        """
    }

    /// The query whether a record is missing.
    private static func hasMissingSQL(_ table: PostgresTable) -> String {
        """
        SELECT EXISTS (
            SELECT 1
            FROM \(StagedSet.records(2))
            LEFT JOIN \(table.name) AS app_row ON \(table.matches("app_row"))
            WHERE $1::text IS NOT NULL AND app_row.tableoid IS NULL)
        """
    }

    /// Returns the new ids, a JSON array of device, table, temporary and permanent id; nil without any.
    private func identityMap(of segment: StagedSets) throws -> String? {
        let map = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(json_array(planned.device, staged.tbl, staged.old_key, staged.key))
                    FROM temp.tidemark_planned AS planned
                    JOIN temp.tidemark_staged AS staged USING (ord)
                    JOIN temp.tidemark_table AS synced ON synced.tbl = staged.tbl AND synced.kind = 'integer'
                    WHERE planned.segment = ? AND planned.device IS NOT NULL AND staged.operation = 'create'
                        AND staged.old_key IS NOT NULL
                    """
            ),
            arguments: [segment.number]
        )
        return map == "[]" ? nil : map
    }
}
