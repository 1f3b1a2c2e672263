import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Writes a plan, one segment at a time.
extension PlannedTransaction {
    /// Writes the planned change sets that are staged, and records their contents.
    ///
    /// - Throws: ``GroupNeedsSerialExecution`` when they cannot be written together, or the database's refusal.
    func write() throws {
        let pending = plan.pending
        guard !pending.isEmpty else { return }
        if plan.fingerprints[plan.first] == nil, plan.writtenCount == 0 {
            plan.fingerprints[plan.first] = try base.storedFingerprint(at: plan.first)
        }
        do {
            try list(pending)
            var rest = pending
            while let first = rest.first {
                let segment = rest.prefix { $0.segment == first.segment }
                rest = rest.dropFirst(segment.count)
                try write(Array(segment), .segment(first.segment))
            }
        } catch is Violation, is TidemarkError { throw GroupNeedsSerialExecution() }
    }

    /// Puts change sets into `temp.tidemark_planned`.
    private func list(_ changeSets: ArraySlice<GroupPlan.PlannedChangeSet>) throws {
        let rows = changeSets.map { changeSet in
            let numbers = "\(changeSet.envelope.ord),\(changeSet.segment),\(changeSet.revision),\(changeSet.base)"
            let seenRevisions = changeSet.seenRevisions.map(String.init).joined(separator: ",")
            let device = changeSet.stamp.device.map(ChangeSetJSON.quote) ?? "null"
            return #"[\#(numbers),"[\#(seenRevisions)]",\#(device)]"#
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

    private func write(_ changeSets: [GroupPlan.PlannedChangeSet], _ segment: StagedSets) throws {
        try nameRecords(of: changeSets, segment)
        try base.write(segment)
        guard try base.staged.isAsNamed(segment) else { throw GroupNeedsSerialExecution() }
        let bodies = try base.staged.bodies(of: changeSets, segment)
        let effects = try base.fingerprints(of: segment)
        var chain = try plan.chain ?? base.chain(at: changeSets[0].revision - 1)
        var revisions: [PlannedRevision] = []
        for (changeSet, body) in zip(changeSets, bodies) {
            chain = RecentChangeSet.chain(
                after: chain,
                revision: changeSet.revision,
                device: changeSet.stamp.device,
                body: body.all
            )
            let fingerprint = plan.fingerprints[changeSet.revision - 1].map {
                $0 + (effects[changeSet.envelope.ord] ?? .none)
            }
            plan.fingerprints[changeSet.revision] = fingerprint
            revisions.append(
                PlannedRevision(changeSet: changeSet, body: body, chain: chain, fingerprint: fingerprint)
            )
        }
        try base.keep(revisions, of: segment)
        plan.recordWritten(bodies, chain: chain)
    }

    /// Assigns permanent ids to the new records of a segment.
    private func nameRecords(of changeSets: [GroupPlan.PlannedChangeSet], _ segment: StagedSets) throws {
        let staged = base.staged
        for table in staged.schema.tables where table.keyKind == .integer {
            let count = changeSets.map { records.changes[$0.envelope.ord]?.temporaryCreations[table.name] ?? 0 }
                .reduce(0, +)
            guard count > 0 else { continue }
            let ids = try base.reserveIdentities(count, of: table)
            // A change set that names one of these new ids means another record, or none.
            let namesNewId = changeSets.contains {
                records.highestIds[$0.envelope.ord]?[table.name].map { $0 >= ids.min() ?? 0 } ?? false
            }
            guard !namesNewId else { throw GroupNeedsSerialExecution() }
            try staged.give(ids, to: table, in: segment)
        }
        try staged.nameIdentities(segment)
        if changeSets.count > 1, try staged.namesTwice(segment) { throw GroupNeedsSerialExecution() }
    }
}
