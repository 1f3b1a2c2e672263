import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkStore

/// Answers a group with few statements if its change sets allow it.
extension PostgresTransaction {
    /// Answers a group by `answer`, which is run again where a ``GroupPlan`` does not do.
    ///
    /// The transaction was begun with a ``GroupQuestion``, hence with a savepoint.
    func together(
        _ answer: () throws -> [Result<ZoneAnswer, any Error>]
    ) throws -> [Result<ZoneAnswer, any Error>] {
        guard !served.hasTriggers else { return try answer() }
        let before = (state, notes)
        do {
            try absorbOutsideChanges()
            let plan = GroupPlan(first: state.revision)
            plan.chain = facts.chain
            plan.fingerprints[plan.first] = try keptFingerprint(at: plan.first)
            self.plan = plan
            let drafts = try answer()
            try writePlan()
            let answers = try filled(drafts)
            try keepLaps()
            self.plan = nil
            return answers
        } catch  where isUnplanned(error) {
            try pg.execute("ROLLBACK TO plan; RELEASE plan")
            (plan, tail) = (nil, [])
            (state, notes) = before
            return try answer()
        }
    }

    /// Whether an error says no more than that the change sets cannot be written together.
    private func isUnplanned(_ error: any Error) -> Bool {
        guard let failure = error as? PostgresFailure else { return error is NotPlain }
        return pg.isUsable && ["22", "23"].contains(String(failure.state.prefix(2)))
    }

    /// The answers with all that was not known when they were made.
    private func filled(
        _ drafts: [Result<ZoneAnswer, any Error>]
    ) throws -> [Result<ZoneAnswer, any Error>] {
        guard let plan else { return drafts }
        for bound in plan.bounds {
            let bytes = bound.drafted.map { plan.bodies[$0].all.utf8.count }.reduce(0, +)
            guard bound.knownBytes + bytes <= bound.bytesMax else { throw NotPlain() }
        }
        var (answers, bytes) = ([Result<ZoneAnswer, any Error>](), 0)
        for (number, draft) in drafts.enumerated() {
            // A group ends when its answers have become large.
            guard bytes < groupBytesMax else { throw NotPlain() }
            guard case .success(var answer) = draft else {
                answers.append(draft)
                continue
            }
            if let revision = plan.draftedFingerprints[number] {
                guard let fingerprint = plan.fingerprints[revision] else { throw NotPlain() }
                answer = ZoneAnswer(
                    body: try Draft.filled(answer.body, fingerprint: fingerprint),
                    tally: answer.tally
                )
            }
            let body = try Draft.filled(answer.body, plan.bodies, in: db)
            answers.append(.success(ZoneAnswer(body: body, tally: answer.tally)))
            bytes += body.count
        }
        return answers
    }

    // MARK: A request

    /// Runs one request; a refused one has nothing in the plan.
    func plannedRequest<Success>(
        in plan: GroupPlan,
        _ body: () throws -> Success
    ) throws -> Result<Success, any Error> {
        plan.requests += 1
        let (count, revision) = (plan.planned.count, state.revision)
        do {
            return .success(try body())
        } catch let error as TidemarkError
            where plan.planned.count == count && state.revision == revision
        {
            return .failure(error)
        } catch  where !(error is PostgresFailure || error is Overtaken) {
            throw NotPlain()
        }
    }

    /// Takes a request into the plan.
    func plan(_ request: SyncRequest) throws {
        guard let plan else { return }
        // Of what is being written neither the fingerprint nor the verdicts are known yet.
        guard request.maxRevision <= plan.first || plan.planned.isEmpty,
            request.question == nil || plan.planned.isEmpty
        else { throw NotPlain() }
        if let device = request.device {
            guard plan.devices.insert(device).inserted else { throw NotPlain() }
        }
    }

    /// The ancestors of a change set, some of which may be in the plan.
    func plannedAncestry(of ids: [String], in plan: GroupPlan) throws -> Ancestry {
        var (revisions, others) = ([Int64](), [String]())
        for id in ids {
            guard let place = plan.places[id] else {
                others.append(id)
                continue
            }
            let ancestor = plan.planned[place]
            // Within a request, those before it are known as accepted.
            guard ancestor.request == plan.requests else { throw NotPlain() }
            revisions += ancestor.older + [ancestor.revision]
        }
        let rest = try askedAncestry(of: others)
        plan.ancestors = (revisions + rest.revisions).filter { $0 <= plan.first }
        return Ancestry(revisions: revisions + rest.revisions, isRefused: rest.isRefused)
    }

    // MARK: A change set

    /// Gives ids to one table's new records.
    func planIdentities(
        _ table: PostgresTable,
        _ ord: Int,
        _ device: String?,
        in plan: GroupPlan
    ) throws {
        let name = table.table.name
        let first: Int64
        if table.sequence != nil {
            first = try assignFromSequence(table, ord)
        } else {
            first = try plan.identities[name] ?? nextIdentity(table)
            plan.identities[name] = first + Int64(try staged.assign(table.table, ord, from: first))
        }
        guard let device else { return }
        let names = "\(ChangeSetJSON.quote(device)),\(ChangeSetJSON.quote(name))"
        for given in try assigned(table.table, from: first) {
            plan.identityMap.append("[\(names),\(given)]")
        }
    }

    /// Notes what a change set does to which records; `seen` are the revisions that its author
    /// knows.
    ///
    /// - Throws: ``NotPlain`` when it has to do with another one of the group.
    func planRecords(_ ord: Int, base: Int64, seen: [Int64], in plan: GroupPlan) throws {
        try planOwners(ord, in: plan)
        try planReferences(ord, in: plan)
        // The log has no others yet.
        let logged = seen.filter { $0 <= plan.first + Int64(plan.written) }
        for item in try touched(ord) {
            try refuseFarReaching(item)
            for (operation, count) in item.counts {
                let records = try PostgresText.records(
                    item.stored.table,
                    ord,
                    operation,
                    base: base,
                    seen: logged,
                    in: db
                )
                var work = plan.work.removeValue(forKey: item.stored.table.name) ?? .init()
                work.add(String(records.dropFirst().dropLast()), count, operation, item)
                guard work.taking == 0 || work.leaving == 0 || work.total == 1 else {
                    throw NotPlain()
                }
                plan.work[item.stored.table.name] = work
            }
        }
    }

    /// Notes whose the records are; two change sets of one record are written one after another.
    private func planOwners(_ ord: Int, in plan: GroupPlan) throws {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: "SELECT tbl, key, operation FROM temp.tidemark_staged WHERE ord = ?"
            ),
            arguments: [ord]
        )
        let records = rows.map { row in
            (
                StagedRequest.RecordName(table: row["tbl"], key: row["key"]),
                TidemarkCore.Operation(rawValue: row["operation"]) ?? .update
            )
        }
        if records.contains(where: { plan.owners[$0.0] != nil }) {
            try writePlan()
            try flush()
        }
        let index = plan.planned.count
        for (record, operation) in records {
            guard
                operation != .create
                    || !plan.referred.contains(record)
                        && !plan.referredTables.contains(record.table)
            else { throw NotPlain() }
            plan.owners[record] = .init(index: index, operation: operation)
        }
    }

    /// Notes to what its records refer: what does not exist yet must not be made by a later one.
    private func planReferences(_ ord: Int, in plan: GroupPlan) throws {
        let names = try staged.touchedTables(ord).filter { !$0.references.isEmpty }
        guard !names.isEmpty else { return }
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT r.parent, CAST(c.value AS TEXT) AS key
                    FROM temp.tidemark_staged AS s JOIN temp.tidemark_staged_cell AS c USING (rec)
                        JOIN temp.tidemark_reference AS r ON r.tbl = s.tbl AND r.col = c.col
                    WHERE s.ord = ? AND c.value IS NOT NULL
                    """
            ),
            arguments: [ord]
        )
        for row in rows { plan.referred.insert(.init(table: row["parent"], key: row["key"])) }
        for table in names {
            for reference in table.references where !isToIntegerKey(reference) {
                plan.referredTables.insert(reference.parent)
            }
        }
    }

    private func isToIntegerKey(_ reference: SyncedTable.Reference) -> Bool {
        guard let parent = schema.byName[reference.parent] else { return false }
        return parent.keyKind == .integer && reference.parentColumns == parent.key
    }

    /// Refuses to plan what may change records that the change set does not name.
    private func refuseFarReaching(_ item: Work) throws {
        let table = item.stored.table
        let references = schema.tables.flatMap(\.references).filter { $0.parent == table.name }
        if item.counts[.delete] != nil, !references.isEmpty { throw NotPlain() }
        let columns = Set(references.flatMap(\.parentColumns)).subtracting(table.key)
        if item.columns[.update]?.isDisjoint(with: columns) == false { throw NotPlain() }
    }

    /// Notes a change set as accepted.
    ///
    /// - Returns: What stands for its new ids until it is written.
    func planLog(
        _ envelope: SyncRequest.Envelope,
        revision: Int64,
        stamp: Stamp,
        in plan: GroupPlan
    ) throws -> LoggedChangeSet {
        let renamed = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(json_array(tbl, operation, key, old_key))
                    FROM temp.tidemark_staged WHERE ord = ? AND old_key IS NOT NULL
                    """
            ),
            arguments: [envelope.ord]
        )
        let index = plan.planned.count
        plan.planned.append(
            .init(
                envelope: envelope,
                request: plan.requests,
                device: stamp.device,
                revision: revision,
                stamp: stamp,
                older: envelope.after.isEmpty ? [] : plan.ancestors,
                renamed: renamed == "[]" ? nil : renamed
            )
        )
        if let id = envelope.id { plan.places[id] = index }
        change(time: max(state.time, stamp.time))
        return LoggedChangeSet(ids: Draft.ids(index))
    }

    /// Notes what the change set in hand has sent, so that its author need not get it back.
    func planSent(_ ord: Int, in plan: GroupPlan) throws {
        plan.planned[plan.planned.count - 1].sent = try staged.sentRecords(ord)
    }

    // MARK: Answers

    /// The verdict of a change set of the plan.
    func plannedVerdict(of id: String) -> Verdict? {
        plan.flatMap { plan in
            plan.places[id].map { index in
                let planned = plan.planned[index]
                return Verdict(
                    device: planned.device,
                    hash: planned.envelope.hash,
                    revision: planned.revision,
                    body: Draft.own(index)
                )
            }
        }
    }

    /// A fingerprint that is not known before the plan is written: the answer gets it then.
    func plannedFingerprint(at revision: Int64) throws -> Fingerprint? {
        guard let plan, revision > plan.first, revision <= state.revision else { return nil }
        if plan.fingerprints[plan.first] == nil {
            guard plan.written == 0 else { throw NotPlain() }
            var base = try keptFingerprint(at: plan.first)
            if base == nil {
                // The rows are still those of that revision.
                let computed = try computeFingerprint()
                try keepFingerprint(computed, at: plan.first)
                base = computed
            }
            plan.fingerprints[plan.first] = base
        }
        plan.draftedFingerprints[plan.requests - 1] = revision
        return Fingerprint.none
    }

    /// The committed change sets that a device missed, from what was asked when the transaction
    /// began; nil when that does not reach.
    func knownCatchUp(_ missed: MissedRevisions) -> CatchUp? {
        var (bodies, bytes) = ([String](), 0)
        for next in (missed.after + 1)...missed.through {
            guard let recent = facts.recent[next], !recent.body.isEmpty,
                missed.device == nil || recent.device != missed.device
            else { return nil }
            bytes += recent.body.utf8.count
            guard bodies.isEmpty || bodies.count < missed.limit && bytes <= missed.bytesMax
            else {
                return CatchUp(bodies: bodies, revision: next - 1, hasMore: true)
            }
            bodies.append(recent.body)
        }
        return CatchUp(bodies: bodies, revision: missed.through, hasMore: false)
    }

    /// A catch-up with the change sets of the plan behind the committed ones.
    func withPlanned(_ committed: CatchUp, of missed: MissedRevisions) throws -> CatchUp {
        let (last, limit) = (missed.through, missed.limit)
        guard let plan, !committed.hasMore, committed.revision < last else { return committed }
        let room = committed.bodies.isEmpty ? max(1, limit) : limit - committed.bodies.count
        let start = Int(committed.revision - plan.first)
        guard start >= 0 else { throw NotPlain() }
        let drafted = Array((start..<Int(last - plan.first)).prefix(max(0, room)))
        if committed.bodies.count + drafted.count > 1 {
            let bytes = committed.bodies.reduce(0) { $0 + $1.utf8.count }
            plan.bounds.append(
                .init(knownBytes: bytes, drafted: drafted, bytesMax: missed.bytesMax)
            )
        }
        let reached = committed.revision + Int64(drafted.count)
        return CatchUp(
            bodies: committed.bodies + drafted.map(Draft.all),
            revision: reached,
            hasMore: reached < last
        )
    }
}

extension GroupPlan.Work {
    var total: Int { counts.values.reduce(0, +) }

    mutating func add(
        _ records: String,
        _ count: Int,
        _ operation: TidemarkCore.Operation,
        _ item: PostgresTransaction.Work
    ) {
        self.records[operation, default: []].append(records)
        counts[operation, default: 0] += count
        let columns = item.columns[operation, default: []]
        self.columns[operation, default: []].formUnion(columns)
        let uniques = Set(item.stored.uniques.values.flatMap { $0 })
        guard !uniques.isEmpty else { return }
        let isUnique = !uniques.isDisjoint(with: columns)
        if operation == .create || operation == .update && isUnique { taking += count }
        if operation == .delete || operation == .update && isUnique { leaving += count }
    }
}
