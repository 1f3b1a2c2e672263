/// An edit becomes a change set, whole, and nothing else does.
extension HistoryChecker {
    /// Edits of one record, under the ids that it has after the step.
    typealias Edit = (before: Cells?, after: Cells?, cursor: Int64)

    /// The change sets seen for the first time are exactly the edits made since the last drain.
    mutating func drain(
        _ step: DeviceStep,
        _ outbox: [OutboxSet],
        _ ids: Identities,
        _ fitting: Fitting?,
        _ device: inout DeviceModel
    ) -> Set<RecordID> {
        var parked = (step.conflicts ?? []).filter { !$0.isOverruled && !device.own.contains($0.id) }
        if let fitting { checkSetAside(fitting, ids, &parked, step, &device) }
        let fresh =
            outbox.filter { !device.own.contains($0.id) } + parked.map { OutboxSet(id: $0.id, changes: $0.changes) }
        // To fit the file is to drain it first.
        guard fitting != nil || step.captured == 0 || !fresh.isEmpty else {
            let isEdited = device.hasOwnEdits || !device.undrained.isEmpty
            if !isEdited, step.captured > device.captured { reportEcho(step) }
            return []
        }
        var undrained: [RecordID: Edit] = [:]
        for (record, edit) in device.undrained {
            undrained[rules.translated(record, ids)] = (
                edit.before.map { rules.translated($0, of: record.table, ids) },
                device.rows[record].map { rules.translated($0, of: record.table, ids) }, edit.cursor
            )
        }
        var touched = Set(device.undrained.keys).union(undrained.keys)
        var view = device.shared
        let deeds = device.deeds
        device.undrained = [:]
        device.hasOwnEdits = false
        device.deeds = []
        if let fitting {
            let taken = taken(by: fitting, ids, undrained, fresh, step, device)
            if step.captured == 0 {
                undrained.merge(taken.mapValues(\.whole)) { $1 }
            } else {
                view = fitting.before
                for (record, edit) in taken where edit.isNew {
                    device.undrained[record] = DeviceModel.Undrained(before: edit.own.before, cursor: edit.own.cursor)
                    device.deeds = nil
                }
            }
            touched.formUnion(taken.keys)
        }
        checkDrained(undrained, fresh, view, step)
        if let deeds, fitting == nil {
            let queued = fresh.dropLast(parked.count)
            let set = parked.map { OutboxSet(id: $0.id, changes: $0.changes) }
            checkTransactions(deeds, Array(queued), set, ids, view, step)
        }
        for set in fresh {
            // Of a record that several sets change, nobody saw the rows in between.
            let alone = undrained.filter { record, _ in fresh.count { $0.changes.contains { $0.record == record } } == 1
            }
            checkColumns(of: set, alone.mapValues { ($0.before, $0.after) }, step)
            register(set, undrained.mapValues(\.cursor), outbox, step, device)
            checkTime(of: set, step, &device)
            device.own.insert(set.id)
        }
        return touched
    }

    /// The new change sets make of each record what the edits have made of it, in all columns that
    /// travel.
    private mutating func checkDrained(
        _ undrained: [RecordID: Edit],
        _ fresh: [OutboxSet],
        _ view: Layout?,
        _ step: DeviceStep
    ) {
        for (record, edit) in undrained.sorted(by: { $0.key < $1.key }) {
            let changes = fresh.flatMap(\.changes).filter { $0.record == record }
            let before = view.fitted(edit.before, of: record.table)
            let after = view.fitted(edit.after, of: record.table)
            let made = changes.reduce(edit.before) { rules.applied($1, to: $0) }
            guard view.fitted(made, of: record.table) != after else { continue }
            report(
                .intentKept,
                step.device,
                record,
                expected: "its edit from \(before.text) to \(after.text) in the outbox",
                found: changes.isEmpty ? "no change set with it" : made.text
            )
        }
    }

    /// An update sets the columns that were changed and no others, or it would overwrite what
    /// somebody else writes there.
    private mutating func checkColumns(
        of set: OutboxSet,
        _ edits: [RecordID: (before: Cells?, after: Cells?)],
        _ step: DeviceStep
    ) {
        for change in set.changes where change.operation == .update {
            guard let edit = edits[change.record], let before = edit.before, let after = edit.after, before != after,
                let same = change.cells.keys.sorted().first(where: {
                    before[$0] == after[$0] && change.cells[$0] == before[$0]
                })
            else { continue }
            report(
                .noSilentOverwrite,
                step.device,
                change.record,
                expected: "the changed columns only",
                found: "\(same) too in \(set.id)"
            )
        }
    }

    private mutating func reportEcho(_ step: DeviceStep) {
        report(
            .converged,
            step.device,
            "\(step.captured) captured changes",
            expected: "none, since only the engine wrote",
            found: "captured by \(step.step)"
        )
    }

    private mutating func register(
        _ set: OutboxSet,
        _ cursors: [RecordID: Int64],
        _ outbox: [OutboxSet],
        _ step: DeviceStep,
        _ device: DeviceModel
    ) {
        var seen: [RecordID: Int64] = [:]
        for change in set.changes {
            guard let cursor = cursors[change.record] else {
                report(
                    .converged,
                    step.device,
                    change.record,
                    expected: "no change set without an edit",
                    found: "\(change.operation) \(change.cells.text) in \(set.id)"
                )
                continue
            }
            seen[change.record] = cursor
            if let base = change.base, base > cursor, change.operation != .create {
                report(
                    .noSilentOverwrite,
                    step.device,
                    change.record,
                    expected: "base \(cursor), the revision at which it was edited",
                    found: "\(base) in \(set.id)"
                )
            }
        }
        guard sets[set.id] == nil else { return }
        let earlier = outbox.prefix { $0.id != set.id }
        sets[set.id] = AuthoredSet(
            device: step.device,
            changes: set.changes,
            after: Set(set.after).union(predecessors(of: set, among: earlier)),
            seen: seen,
            incarnation: device.incarnation,
            own: device.own.union([set.id]),
            time: set.time
        )
    }

    /// The latest earlier set about each record, and those that create what it refers to.
    private func predecessors(of set: OutboxSet, among earlier: some BidirectionalCollection<OutboxSet>) -> Set<String>
    {
        var found: Set<String> = []
        for change in set.changes {
            if let last = earlier.last(where: { $0.changes.contains { $0.record == change.record } }) {
                found.insert(last.id)
            }
            let row = rules.keyCells(change.record).merging(change.cells) { $1 }
            for parent in rules.parents(of: change.record.table, row) {
                for candidate in earlier
                where candidate.changes.contains(where: { $0.record == parent && $0.operation == .create }) {
                    found.insert(candidate.id)
                }
            }
        }
        return found
    }
}
