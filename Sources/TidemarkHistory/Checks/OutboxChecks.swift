/// No edit is lost: it is captured, drained into a change set, frozen, and leaves the outbox only
/// with its verdict.
extension HistoryChecker {
    /// Takes over outbox and inbox; returns the records whose edits were drained.
    mutating func checkOutbox(
        _ step: DeviceStep,
        _ fitting: Fitting?,
        _ device: inout DeviceModel
    ) -> Set<RecordID> {
        let ids = step.identities.reduce(into: Identities()) {
            $0[$1.table, default: [:]][$1.temporary] = $1.permanent
        }
        let (oldOutbox, oldInbox) = (device.outbox, device.inbox)
        let outbox = step.outbox ?? oldOutbox
        let inbox = step.conflicts.map {
            Dictionary($0.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        }
        let drained = drain(step, outbox, ids, fitting, &device)
        checkKept(oldOutbox, outbox, ids, device.shared, step)
        if let inbox { checkInbox(inbox, from: oldInbox, ids, step) }
        checkSettled(oldOutbox, outbox, inbox ?? oldInbox, device, step)
        if step.outbox != nil { device.hold(outbox) }
        if let inbox { device.inbox = inbox }
        counters.resolutions += step.resolved.count
        return drained
    }

    // MARK: New change sets

    /// Edits of one record, under the ids that it has after the step.
    typealias Edit = (before: Cells?, after: Cells?, cursor: Int64)

    /// The change sets seen for the first time are exactly the edits made since the last drain.
    private mutating func drain(
        _ step: DeviceStep,
        _ outbox: [OutboxSet],
        _ ids: Identities,
        _ fitting: Fitting?,
        _ device: inout DeviceModel
    ) -> Set<RecordID> {
        var parked = (step.conflicts ?? []).filter { !device.own.contains($0.id) }
        if let fitting { checkSetAside(fitting, ids, &parked, step, &device) }
        let fresh =
            outbox.filter { !device.own.contains($0.id) }
            + parked.map { OutboxSet(id: $0.id, changes: $0.changes) }
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
                device.rows[record].map { rules.translated($0, of: record.table, ids) },
                edit.cursor
            )
        }
        var touched = Set(device.undrained.keys).union(undrained.keys)
        var view = device.shared
        (device.undrained, device.hasOwnEdits) = ([:], false)
        if let fitting {
            let taken = taken(by: fitting, ids, undrained, fresh, step, device)
            if step.captured == 0 {
                undrained.merge(taken.mapValues(\.whole)) { $1 }
            } else {
                view = fitting.before
                for (record, edit) in taken where edit.isNew {
                    device.undrained[record] = DeviceModel.Undrained(
                        before: edit.own.before,
                        cursor: edit.own.cursor
                    )
                }
            }
            touched.formUnion(taken.keys)
        }
        checkDrained(undrained, fresh, view, step)
        for set in fresh {
            // Of a record that several sets change, nobody saw the rows in between.
            let alone = undrained.filter { record, _ in
                fresh.count { $0.changes.contains { $0.record == record } } == 1
            }
            checkColumns(of: set, alone.mapValues { ($0.before, $0.after) }, step)
            register(set, undrained.mapValues(\.cursor), outbox, step, device)
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
            let (before, after) = (
                view.fitted(edit.before, of: record.table),
                view.fitted(edit.after, of: record.table)
            )
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
            guard let edit = edits[change.record], let before = edit.before, let after = edit.after,
                before != after,
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
            own: device.own.union([set.id])
        )
    }

    /// The latest earlier set about each record, and those that create what it refers to.
    private func predecessors(
        of set: OutboxSet,
        among earlier: some BidirectionalCollection<OutboxSet>
    ) -> Set<String> {
        var found: Set<String> = []
        for change in set.changes {
            if let last = earlier.last(where: { $0.changes.contains { $0.record == change.record } }
            ) {
                found.insert(last.id)
            }
            let row = rules.keyCells(change.record).merging(change.cells) { $1 }
            for parent in rules.parents(of: change.record.table, row) {
                for candidate in earlier
                where candidate.changes.contains(where: {
                    $0.record == parent && $0.operation == .create
                }) {
                    found.insert(candidate.id)
                }
            }
        }
        return found
    }

    // MARK: Change sets that stay

    /// What waits changes only by the ids that it is given, and what is frozen not at all.
    private mutating func checkKept(
        _ old: [OutboxSet],
        _ new: [OutboxSet],
        _ ids: Identities,
        _ shared: Layout?,
        _ step: DeviceStep
    ) {
        guard step.outbox != nil else { return }
        let before = Dictionary(old.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        for set in new {
            if let wire = set.wire, sets[set.id]?.wire == nil {
                sets[set.id]?.wire = wire
                let changes = shared.part(set.changes)
                sets[set.id]?.changes = changes
                checkBases(of: changes, wire, set.id, step)
            }
            if let frozen = sets[set.id]?.wire, frozen != set.wire {
                report(
                    .once,
                    step.device,
                    "change set \(set.id)",
                    expected: "what was frozen, \(frozen)",
                    found: set.wire ?? "nothing frozen"
                )
            }
            guard let known = before[set.id] else { continue }
            let expected = contents(known.changes.map { rules.translated($0, ids) })
            let actual = contents(set.changes)
            guard expected != actual else { continue }
            let record = Set(expected.keys).union(actual.keys)
                .filter { expected[$0] != actual[$0] }.min()
            report(
                ids.isEmpty ? .intentKept : .references,
                step.device,
                record.map { "\($0) in change set \(set.id)" } ?? set.id,
                expected: record.flatMap { expected[$0] } ?? "nothing about it",
                found: record.flatMap { actual[$0] } ?? "nothing about it"
            )
        }
    }

    /// What is sent says of each record the revision at which it was edited.
    private mutating func checkBases(
        of changes: [RecordChange],
        _ wire: String,
        _ id: String,
        _ step: DeviceStep
    ) {
        let told = wire.split(separator: "\"revision\":", omittingEmptySubsequences: false)
            .dropFirst().map { String($0.prefix { $0.isNumber }) }.sorted()
        let due = changes.filter { $0.operation != .create }.compactMap(\.base)
            .map(String.init).sorted()
        guard told != due else { return }
        report(
            .noSilentOverwrite,
            step.device,
            "change set \(id)",
            expected: "the bases \(due.joined(separator: ", "))",
            found: told.joined(separator: ", ")
        )
    }

    private func contents(_ changes: [RecordChange]) -> [RecordID: String] {
        Dictionary(
            changes.map { ($0.record, "\($0.operation) \($0.cells.text)") },
            uniquingKeysWith: { $1 }
        )
    }

    // MARK: Change sets that go

    /// A change set leaves the outbox with its effects, or into the conflict inbox.
    private mutating func checkSettled(
        _ old: [OutboxSet],
        _ new: [OutboxSet],
        _ inbox: [String: ParkedSet],
        _ device: DeviceModel,
        _ step: DeviceStep
    ) {
        guard step.outbox != nil else { return }
        let waiting = Set(new.map(\.id))
        for set in old where !waiting.contains(set.id) {
            let revision = zone?.revision(of: set.id)
            if let parked = inbox[set.id] {
                checkParked(set, parked, device, step)
            } else if let revision, revision > step.cursor {
                report(
                    .acknowledgedStays,
                    step.device,
                    "change set \(set.id)",
                    expected: "to wait until revision \(revision) is taken in",
                    found: "gone from the outbox at revision \(step.cursor)"
                )
            } else if revision != nil {
                checkMapped(set, device, step)
            } else if set.wire == nil, device.shared.part(set.changes).isEmpty {
                forget(set, new)
            } else {
                report(
                    .intentKept,
                    step.device,
                    "change set \(set.id)",
                    expected: "its effects, or itself among the conflicts, after \(step.step)",
                    found: "gone from the outbox without a verdict"
                )
            }
        }
    }

    /// Of a change set that sets only what the zone has no place for nothing travels: what builds
    /// on it builds on what it built on itself.
    private mutating func forget(_ set: OutboxSet, _ waiting: [OutboxSet]) {
        let after = sets[set.id]?.after ?? []
        for other in waiting where sets[other.id]?.after.remove(set.id) != nil {
            sets[other.id]?.after.formUnion(after)
        }
    }

    /// Whoever still holds a temporary id finds the permanent one.
    private mutating func checkMapped(
        _ set: OutboxSet,
        _ device: DeviceModel,
        _ step: DeviceStep
    ) {
        for change in set.changes where change.operation == .create {
            guard let id = Int64(change.record.key),
                let given = zone?.assigned[step.identity]?[change.record.table]?[id],
                device.identities[change.record.table]?[id] == nil
            else { continue }
            report(
                .references,
                step.device,
                change.record,
                expected: "\(given.permanent) in the map of ids",
                found: "nothing"
            )
        }
    }

    private mutating func checkParked(
        _ set: OutboxSet,
        _ parked: ParkedSet,
        _ device: DeviceModel,
        _ step: DeviceStep
    ) {
        if let revision = zone?.revision(of: set.id), device.incarnation == zone?.incarnation {
            report(
                .once,
                step.device,
                "change set \(set.id)",
                expected: "the verdict that it has, revision \(revision)",
                found: "parked as a conflict"
            )
        }
        let ids = step.identities.reduce(into: Identities()) {
            $0[$1.table, default: [:]][$1.temporary] = $1.permanent
        }
        checkItems(of: parked, set.changes.map { rules.translated($0, ids) }, step)
        checkParkingCause(set.id, device, step)
        guard let truth = zone?.verdicts[set.id]?.truth else { return }
        for item in parked.items {
            guard
                let told = truth[item.record].map({ told in told.map { part($0, item, device) } }),
                told != item.theirs.map({ part($0, item, device) })
            else { continue }
            report(
                .intentKept,
                step.device,
                "\(item.record) in conflict \(set.id)",
                expected: "theirs as the server told it, \(told.text)",
                found: item.theirs.text
            )
        }
    }

    private func part(_ cells: Cells, _ item: ParkedSet.Item, _ device: DeviceModel) -> Cells {
        device.shared.part(cells, of: item.record.table)
    }

    /// The inbox keeps what each change set wanted, whole.
    private mutating func checkItems(
        of parked: ParkedSet,
        _ changes: [RecordChange],
        _ step: DeviceStep
    ) {
        let items = Dictionary(parked.items.map { ($0.record, $0) }, uniquingKeysWith: { $1 })
        for change in changes {
            let item = items[change.record]
            let mine = item?.mine ?? [:]
            guard
                item?.operation == change.operation,
                change.cells.allSatisfy({ mine[$0.key] == $0.value })
            else {
                report(
                    .intentKept,
                    step.device,
                    "\(change.record) in conflict \(parked.id)",
                    expected: "\(change.operation) \(change.cells.text) kept as mine",
                    found: item.map { "\($0.operation?.rawValue ?? "nothing") \($0.mine.text)" }
                        ?? "nothing"
                )
                continue
            }
        }
    }

    /// What is in the inbox stays there, whole, until somebody resolves it.
    private mutating func checkInbox(
        _ inbox: [String: ParkedSet],
        from old: [String: ParkedSet],
        _ ids: Identities,
        _ step: DeviceStep
    ) {
        for (id, parked) in old.sorted(by: { $0.key < $1.key }) {
            if let now = inbox[id] {
                checkItems(of: now, parked.changes.map { rules.translated($0, ids) }, step)
            } else if !step.resolved.contains(id) {
                report(
                    .intentKept,
                    step.device,
                    "conflict \(id)",
                    expected: "to stay until it is resolved",
                    found: "gone after \(step.step)"
                )
            }
        }
    }
}

extension ParkedSet {
    /// What the change set wanted.
    var changes: [RecordChange] {
        items.compactMap { item in
            item.operation.map { RecordChange(item.record, $0, item.mine ?? [:]) }
        }
    }
}
