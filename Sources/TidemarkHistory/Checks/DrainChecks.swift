/// Checks that every edit becomes part of a change set, whole, and nothing else does.
extension HistoryChecker {
    /// Edits of one record, under the ids that it has after the step.
    typealias Edit = (before: Cells?, after: Cells?, cursor: Int64)

    /// Checks that the new change sets are exactly the edits since the last drain.
    mutating func drain(
        _ step: DeviceStep, outbox: [OutboxSet], ids: Identities, fitting: Fitting?, remade: Remade,
        device: inout DeviceModel
    ) -> Set<RecordID> {
        var parked = (step.conflicts ?? []).filter { !$0.isOverruled && !device.own.contains($0.id) }
        if let fitting { checkSetAside(fitting, ids: ids, parked: &parked, step: step, device: &device) }
        let fresh =
            outbox.filter { !device.own.contains($0.id) } + parked.map { OutboxSet(id: $0.id, changes: $0.changes) }
        // Fitting a file drains it first.
        guard fitting != nil || step.captured == 0 || !fresh.isEmpty else {
            let isEdited = device.hasOwnEdits || !device.undrained.isEmpty
            if !isEdited, step.captured > device.captured { reportEcho(step) }
            return []
        }
        // Edits that depend on a refused change set were parked with it, and made again.
        let ids = remade.sets.isEmpty ? ids : ids.adding(remade.ids)
        let first = outbox.firstIndex { remade.sets.values.contains($0.id) } ?? outbox.endIndex
        let again = Set(outbox[first...].map(\.id))
        var undrained = undrained(in: device, under: ids)
        var touched = Set(device.undrained.keys).union(undrained.keys)
        var view = device.shared
        let deeds = device.deeds
        device.undrained = [:]
        device.hasOwnEdits = false
        device.deeds = []
        if let fitting {
            let fitEdits = fitEdits(by: fitting, ids, undrained: undrained, fresh: fresh, step: step, device: device)
            if step.captured == 0 {
                undrained.merge(fitEdits.mapValues(\.whole)) { $1 }
            } else {
                view = fitting.before
                for (record, edit) in fitEdits where edit.isNew {
                    device.undrained[record] = DeviceModel.Undrained(before: edit.own.before, cursor: edit.own.cursor)
                    device.deeds = nil
                }
            }
            touched.formUnion(fitEdits.keys)
        }
        checkDrained(undrained, fresh: fresh, view: view, step: step)
        if let deeds, fitting == nil {
            let queued = fresh.dropLast(parked.count)
            checkTransactions(
                deeds, queued: queued.filter { !again.contains($0.id) },
                parked: queued.filter { again.contains($0.id) } + fresh.suffix(parked.count), ids: ids, view: view,
                step: step)
        }
        for set in fresh {
            takeFresh(
                set, among: fresh, undrained: undrained, again: again, outbox: outbox, step: step, device: &device)
        }
        return touched
    }

    /// The edits since the last drain, under the ids that their records have after the step.
    private func undrained(in device: DeviceModel, under ids: Identities) -> [RecordID: Edit] {
        var undrained: [RecordID: Edit] = [:]
        for (record, edit) in device.undrained {
            undrained[rules.translated(record, ids)] = (
                edit.before.map { rules.translated($0, of: record.table, ids) },
                device.rows[record].map { rules.translated($0, of: record.table, ids) }, edit.cursor
            )
        }
        return undrained
    }

    /// Checks a new change set, and notes its author.
    ///
    /// `again` has the change sets that were made again.
    private mutating func takeFresh(
        _ set: OutboxSet, among fresh: [OutboxSet], undrained: [RecordID: Edit], again: Set<String>,
        outbox: [OutboxSet], step: DeviceStep, device: inout DeviceModel
    ) {
        // If several sets change a record, no recorder read the rows in between.
        let alone = undrained.filter { record, _ in fresh.count { $0.changes.contains { $0.record == record } } == 1 }
        checkColumns(of: set, alone.mapValues { ($0.before, $0.after) }, step)
        checkSums(of: set, alone.mapValues { ($0.before, $0.after) }, step)
        let cursors = undrained.map { record, edit in
            (record, again.contains(set.id) ? seenRevision(of: record, since: edit.cursor, step) : edit.cursor)
        }
        register(set, cursors: Dictionary(uniqueKeysWithValues: cursors), outbox: outbox, step: step, device: device)
        checkTime(of: set, step, &device)
        device.own.insert(set.id)
    }

    /// Checks that the new change sets have the same result as the edits, in all columns that
    /// travel.
    private mutating func checkDrained(
        _ undrained: [RecordID: Edit], fresh: [OutboxSet], view: Layout?, step: DeviceStep
    ) {
        for (record, edit) in undrained.sorted(by: { $0.key < $1.key }) {
            let changes = fresh.flatMap(\.changes).filter { $0.record == record }
            let before = view.fitted(edit.before, of: record.table)
            let after = view.fitted(edit.after, of: record.table)
            let result = changes.reduce(edit.before) { rules.applied($1, to: $0) }
            guard view.fitted(result, of: record.table) != after else { continue }
            report(
                .intentKept, actor: step.device, subject: record,
                expected: "its edit from \(before.text) to \(after.text) in the outbox",
                found: changes.isEmpty ? "no change set with it" : result.text)
        }
    }

    /// Checks that an update sets only the changed columns.
    ///
    /// Others could overwrite another author's values.
    private mutating func checkColumns(
        of set: OutboxSet, _ edits: [RecordID: (before: Cells?, after: Cells?)], _ step: DeviceStep
    ) {
        for change in set.changes where change.operation == .update {
            guard let edit = edits[change.record], let before = edit.before, let after = edit.after, before != after,
                let same = change.cells.keys.sorted().first(where: {
                    before[$0] == after[$0] && change.cells[$0] == before[$0]
                })
            else { continue }
            report(
                .noSilentOverwrite, actor: step.device, subject: change.record, expected: "the changed columns only",
                found: "\(same) too in \(set.id)")
        }
    }

    /// Checks that a column with the policy `add` travels as what the edit added.
    ///
    /// An absolute value would be a conflict with every other device's.
    private mutating func checkSums(
        of set: OutboxSet, _ edits: [RecordID: (before: Cells?, after: Cells?)], _ step: DeviceStep
    ) {
        for change in set.changes where change.operation == .update {
            guard let edit = edits[change.record], let table = rules.table(change.record.table) else { continue }
            for (column, cell) in change.cells.sorted(by: { $0.key < $1.key }) where table.policy(of: column) == .add {
                guard let old = edit.before?[column].flatMap({ Int64($0) }),
                    let new = edit.after?[column].flatMap({ Int64($0) }),
                    case let (delta, isTooLarge) = new.subtractingReportingOverflow(old),
                    !isTooLarge, Rules.delta(cell) != delta
                else { continue }
                report(
                    .noSilentOverwrite, actor: step.device, subject: change.record,
                    expected: "\(delta) added to \(column)", found: "\(cell) in \(set.id)")
            }
        }
    }

    private mutating func reportEcho(_ step: DeviceStep) {
        report(
            .converged, actor: step.device, subject: "\(step.captured) captured changes",
            expected: "none, since only the engine wrote", found: "captured by \(step.step)")
    }

    private mutating func register(
        _ set: OutboxSet, cursors: [RecordID: Int64], outbox: [OutboxSet], step: DeviceStep, device: DeviceModel
    ) {
        var baseRevisions: [RecordID: Int64] = [:]
        for change in set.changes {
            guard let cursor = cursors[change.record] else {
                report(
                    .converged, actor: step.device, subject: change.record, expected: "no change set without an edit",
                    found: "\(change.operation) \(change.cells.text) in \(set.id)")
                continue
            }
            baseRevisions[change.record] = cursor
            if let base = change.base, base > cursor, change.operation != .create {
                report(
                    .noSilentOverwrite, actor: step.device, subject: change.record,
                    expected: "base \(cursor), the revision at which it was edited", found: "\(base) in \(set.id)")
            }
        }
        guard sets[set.id] == nil else { return }
        let earlier = outbox.prefix { $0.id != set.id }
        sets[set.id] = AuthoredSet(
            device: step.device, changes: set.changes,
            after: Set(set.after).union(predecessors(of: set, among: earlier)), baseRevisions: baseRevisions,
            incarnation: device.incarnation, own: device.own.union([set.id]), time: set.time)
    }

    /// Finds the latest earlier set about each record, and the sets that create its parents.
    func predecessors(of set: OutboxSet, among earlier: some BidirectionalCollection<OutboxSet>) -> Set<String> {
        var ids: Set<String> = []
        for change in set.changes {
            if let last = earlier.last(where: { $0.changes.contains { $0.record == change.record } }) {
                ids.insert(last.id)
            }
            let row = rules.keyCells(change.record).merging(change.cells) { $1 }
            for parent in rules.parents(of: change.record.table, row) {
                for candidate in earlier
                where candidate.changes.contains(where: { $0.record == parent && $0.operation == .create }) {
                    ids.insert(candidate.id)
                }
            }
        }
        return ids
    }
}
