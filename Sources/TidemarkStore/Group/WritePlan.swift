import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// Writes what is planned, a segment at a time.
extension PlannedTransaction {
    /// Writes the change sets that are planned and staged, and notes what became of them.
    ///
    /// - Throws: ``NotPlain`` when they cannot be written together, or the database's refusal.
    func write() throws {
        let pending = plan.pending
        guard !pending.isEmpty else { return }
        if plan.fingerprints[plan.first] == nil, plan.written == 0 {
            plan.fingerprints[plan.first] = try base.keptFingerprint(at: plan.first)
        }
        do {
            try list(pending)
            var rest = pending
            while let first = rest.first {
                let segment = rest.prefix { $0.segment == first.segment }
                rest = rest.dropFirst(segment.count)
                try write(Array(segment), .segment(first.segment))
            }
        } catch is Violation, is TidemarkError { throw NotPlain() }
    }

    /// Puts change sets into `temp.tidemark_planned`.
    private func list(_ planned: ArraySlice<GroupPlan.Planned>) throws {
        let rows = planned.map { change in
            let seen = change.seen.map(String.init).joined(separator: ",")
            let device = change.stamp.device.map(ChangeSetJSON.quote) ?? "null"
            return
                #"[\#(change.envelope.ord),\#(change.segment),\#(change.revision),\#(change.base),"[\#(seen)]",\#(device)]"#
        }
        let db = base.staged.db
        try CommitTables.clear("planned", in: db)
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_planned (ord, segment, revision, base, seen, device)
                SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
                FROM json_each(?)
                """
        ).execute(arguments: ["[\(rows.joined(separator: ","))]"])
    }

    private func write(_ planned: [GroupPlan.Planned], _ segment: StagedSets) throws {
        try nameRecords(of: planned, segment)
        try base.write(segment)
        guard try base.staged.isAsNamed(segment) else { throw NotPlain() }
        let bodies = try base.staged.bodies(of: planned, segment)
        let changes = try base.fingerprints(of: segment)
        var chain = try plan.chain ?? base.chain(at: planned[0].revision - 1)
        var kept: [PlannedRevision] = []
        for (change, body) in zip(planned, bodies) {
            chain = RecentChangeSet.chain(
                after: chain,
                revision: change.revision,
                device: change.stamp.device,
                body: body.all
            )
            let fingerprint = plan.fingerprints[change.revision - 1].map {
                $0 + (changes[change.envelope.ord] ?? .none)
            }
            plan.fingerprints[change.revision] = fingerprint
            kept.append(PlannedRevision(planned: change, body: body, chain: chain, fingerprint: fingerprint))
        }
        try base.keep(kept, of: segment)
        plan.write(bodies, chain: chain)
    }

    /// Gives the records of a segment their permanent ids.
    private func nameRecords(of planned: [GroupPlan.Planned], _ segment: StagedSets) throws {
        let staged = base.staged
        for table in staged.schema.tables where table.keyKind == .integer {
            let count = planned.map { change in records.changes[change.envelope.ord]?.creations(in: table.name) ?? 0 }
                .reduce(0, +)
            guard count > 0 else { continue }
            let ids = try base.identities(count, of: table)
            // Whoever names an id that is given only now means another record, or none.
            let isForeseen = planned.contains {
                records.highest[$0.envelope.ord]?[table.name].map { $0 >= ids.min() ?? 0 } ?? false
            }
            guard !isForeseen else { throw NotPlain() }
            try staged.give(ids, to: table, in: segment)
        }
        try staged.nameIdentities(segment)
        if planned.count > 1, try staged.namesTwice(segment) { throw NotPlain() }
    }
}

extension PlanRecords.Changes {
    /// How many records are made in a table.
    fileprivate func creations(in table: String) -> Int {
        records.count { $0.operation == .create && $0.name.table == table }
    }
}
