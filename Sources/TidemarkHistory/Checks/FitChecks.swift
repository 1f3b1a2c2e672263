/// A file is fitted to its tables and to the zone's, when either were altered: what travels only
/// since then has two values, the zone's and the file's own.
///
/// | the file has | the zone has | then |
/// | --- | --- | --- |
/// | the same | | nothing |
/// | its column's default | anything | the zone's is shown |
/// | something else | the column's default | it is an edit of this device |
/// | something else | something else | the zone's is shown, the file's is a conflict |
struct Fitting: Sendable {
    /// What travelled before, and what travels now.
    let before: Layout?
    let now: Layout
    /// The zone's values in columns that travel only now, of each row that is in the file.
    var theirs: [RecordID: Cells] = [:]
    /// The file's own values there that are edits.
    var mine: [RecordID: Cells] = [:]
    /// The file's own values there that have to be kept as conflicts.
    var aside: [RecordID: Cells] = [:]
    /// Rows of tables that travel only now, which the zone has not.
    var adopted: [RecordID: Cells] = [:]

    /// Whether a table travels, or has columns that travel, only now.
    func concerns(_ table: String) -> Bool { before?[table] != now[table] }

    /// Every record of such a table.
    func touched(_ device: DeviceModel) -> Set<RecordID> {
        Set(device.rows.all.keys).union(device.confirmed.keys).union(device.pending.keys).filter { concerns($0.table) }
    }
}

extension HistoryChecker {
    /// A file's tables have other columns.
    mutating func alter(_ actor: String, _ layout: Layout) {
        layouts[actor, default: []].append(layout)
        if actor == "server" { zone?.alter(layout, rules: rules) } else { devices[actor]?.alter(layout, rules: rules) }
    }

    /// Takes over what travels from now on; nil when that is as it was.
    mutating func fit(_ device: inout DeviceModel, _ step: DeviceStep) -> Fitting? {
        guard let fit = step.fit else { return nil }
        let own = layouts[step.device] ?? []
        let zone = layouts["server"] ?? []
        guard own.indices.contains(fit.own), zone.indices.contains(fit.zone) else {
            report(
                .dense,
                step.device,
                "its tables",
                expected: "tables that it and the zone have had",
                found: "the \(fit.own). of its own, the \(fit.zone). of the zone's"
            )
            return nil
        }
        var fitting = Fitting(before: device.shared, now: own[fit.own].shared(with: zone[fit.zone]))
        for (record, row) in device.rows.all where fitting.concerns(record.table) {
            fitting.take(record, row, device, own[fit.own], rules)
        }
        device.shared = fitting.now
        return fitting
    }

    /// What is not shown any more, since the zone has something else, is among the conflicts.
    ///
    /// Takes those out of `parked` that are there for it.
    mutating func checkSetAside(
        _ fitting: Fitting,
        _ ids: Identities,
        _ parked: inout [ParkedSet],
        _ step: DeviceStep,
        _ device: inout DeviceModel
    ) {
        var due: [RecordID: Cells] = [:]
        for (record, cells) in fitting.aside {
            due[rules.translated(record, ids)] = rules.translated(cells, of: record.table, ids)
        }
        let kept = parked.filter { set in
            set.items.allSatisfy { item in (item.mine ?? [:]).allSatisfy { due[item.record]?[$0.key] == $0.value } }
        }
        for (record, cells) in due.sorted(by: { $0.key < $1.key }) {
            let items = kept.flatMap(\.items).filter { $0.record == record }
            let mine = items.reduce(Cells()) { $0.merging($1.mine ?? [:]) { $1 } }
            guard mine != cells else { continue }
            report(
                .intentKept,
                step.device,
                record,
                expected: "\(cells.text) among the conflicts, since the zone has something else",
                found: items.isEmpty ? "nothing" : mine.text
            )
        }
        let explained = Set(kept.map(\.id))
        device.own.formUnion(explained)
        parked.removeAll { explained.contains($0.id) }
    }

    /// What a fit makes edits of.
    ///
    /// In `whole` together with what was not drained before; `isNew` is whether there is more than
    /// that, and `own` is it.
    typealias Taken = (whole: Edit, own: Edit, isNew: Bool)

    mutating func taken(
        by fitting: Fitting,
        _ ids: Identities,
        _ undrained: [RecordID: Edit],
        _ fresh: [OutboxSet],
        _ step: DeviceStep,
        _ device: DeviceModel
    ) -> [RecordID: Taken] {
        var taken: [RecordID: Taken] = [:]
        for (old, theirs) in fitting.theirs {
            guard let row = device.rows[old] else { continue }
            let record = rules.translated(old, ids)
            let mine = fitting.mine[old] ?? [:]
            let known = undrained[record]
            guard known != nil || !mine.isEmpty else { continue }
            let before = rules.translated(row.merging(theirs) { $1 }, of: old.table, ids)
            let after = before.merging(rules.translated(mine, of: old.table, ids)) { $1 }
            let first = known.map { $0.before?.merging(theirs) { $1 } } ?? before
            taken[record] = (
                (first, after, known?.cursor ?? device.cursor), (before, after, device.cursor), !mine.isEmpty
            )
        }
        for (record, edit) in adoptions(by: fitting, ids, fresh, step, device) { taken[record] = (edit, edit, true) }
        return taken
    }

    /// The new records that rows of a table become which the zone had not before: keys that the
    /// server gives are drawn anew.
    private mutating func adoptions(
        by fitting: Fitting,
        _ ids: Identities,
        _ fresh: [OutboxSet],
        _ step: DeviceStep,
        _ device: DeviceModel
    ) -> [RecordID: Edit] {
        var made: [RecordID: Cells] = [:]
        if step.captured == 0 {
            for change in fresh.flatMap(\.changes) where change.operation == .create {
                made[change.record] = rules.applied(change, to: nil)
            }
        } else {
            made = device.rows.all
            for change in step.rows { made[change.record] = change.after }
            made = made.filter { device.confirmed[$0.key] == nil }
        }
        var edits: [RecordID: Edit] = [:]
        for (record, row) in fitting.adopted.sorted(by: { $0.key < $1.key }) {
            let row = rules.translated(row, of: record.table, ids)
            let due = content(row, of: record.table, fitting.now)
            let found = made.keys.filter {
                $0.table == record.table && edits[$0] == nil
                    && content(made[$0] ?? [:], of: $0.table, fitting.now) == due
            }
            guard let new = found.min() else {
                report(
                    .intentKept,
                    step.device,
                    record,
                    expected: "\(row.text) as a new record, since the zone has the table now",
                    found: "nothing"
                )
                continue
            }
            edits[new] = (nil, row.merging(rules.keyCells(new)) { $1 }, device.cursor)
        }
        return edits
    }

    /// A row without a key that the server gives.
    private func content(_ row: Cells, of name: String, _ view: Layout) -> Cells {
        let table = rules.table(name)
        let key = table?.hasAssignedKeys == true ? table?.key ?? [] : []
        return (view.fitted(row, of: name) ?? row).filter { !key.contains($0.key) }
    }
}

extension Fitting {
    /// Judges a row of a table that is concerned.
    fileprivate mutating func take(
        _ record: RecordID,
        _ row: Cells,
        _ device: DeviceModel,
        _ own: Layout,
        _ rules: Rules
    ) {
        guard let columns = now[record.table], let table = rules.table(record.table) else { return }
        let zone = device.confirmed[record]
        let known = before?[record.table]
        if known == nil, zone == nil || table.hasAssignedKeys {
            adopted[record] = row
            return
        }
        for (column, fill) in columns where known?[column] == nil && !table.key.contains(column) {
            let value = row[column] ?? fill
            let theirs = zone?[column] ?? fill
            self.theirs[record, default: [:]][column] = theirs
            guard value != theirs else { continue }
            if known == nil {
                aside[record, default: [:]][column] = value
            } else if value != own[record.table]?[column] {
                if theirs == fill {
                    mine[record, default: [:]][column] = value
                } else {
                    aside[record, default: [:]][column] = value
                }
            }
        }
    }
}
