/// Fits a file to its altered tables, or to the zone's.
///
/// Columns that newly travel have two values, the zone's and the file's own.
///
/// | the file has | the zone has | then |
/// | --- | --- | --- |
/// | the same | | nothing |
/// | its column's default | anything | the zone's is shown |
/// | another value | the column's default | it is an edit of this device |
/// | another value | another value | the zone's is shown, the file's is a conflict |
struct Fitting: Sendable {
    /// The shared columns before and after the fit.
    let before: Layout?
    let now: Layout
    /// The zone's values in newly shared columns, for each row of the file.
    var theirs: [RecordID: Cells] = [:]
    /// The file's own values there that become edits.
    var mine: [RecordID: Cells] = [:]
    /// The file's own values there that become conflicts.
    var aside: [RecordID: Cells] = [:]
    /// Rows of newly shared tables that the zone does not have.
    var adopted: [RecordID: Cells] = [:]

    /// Whether a table, or some of its columns, are newly shared.
    func concerns(_ table: String) -> Bool { before?[table] != now[table] }

    /// All records of such a table.
    func touched(_ device: DeviceModel) -> Set<RecordID> {
        Set(device.rows.all.keys).union(device.confirmed.keys).union(device.pending.keys).filter { concerns($0.table) }
    }
}

extension HistoryChecker {
    /// Handles new columns of a file's tables.
    mutating func alter(_ actor: String, _ layout: Layout) {
        layouts[actor, default: []].append(layout)
        if actor == "server" { zone?.alter(layout, rules: rules) } else { devices[actor]?.alter(layout, rules: rules) }
    }

    /// Takes over the newly shared columns; nil if there are none.
    mutating func fit(_ device: inout DeviceModel, _ step: DeviceStep) -> Fitting? {
        guard let fit = step.fit else { return nil }
        let own = layouts[step.device] ?? []
        let zone = layouts["server"] ?? []
        guard own.indices.contains(fit.own), zone.indices.contains(fit.zone) else {
            report(
                .dense, actor: step.device, subject: "its tables", expected: "tables that it and the zone have had",
                found: "the \(fit.own). of its own, the \(fit.zone). of the zone's")
            return nil
        }
        var fitting = Fitting(before: device.shared, now: own[fit.own].shared(with: zone[fit.zone]))
        for (record, row) in device.rows.all where fitting.concerns(record.table) {
            fitting.take(record, row: row, device: device, own: own[fit.own], rules: rules)
        }
        device.shared = fitting.now
        return fitting
    }

    /// Checks that each value that the zone's value hides is among the conflicts.
    ///
    /// Removes the explained conflicts from `parked`.
    mutating func checkSetAside(
        _ fitting: Fitting, ids: Identities, parked: inout [ParkedSet], step: DeviceStep, device: inout DeviceModel
    ) {
        var due: [RecordID: Cells] = [:]
        for (record, cells) in fitting.aside {
            due[rules.translated(record, ids)] = rules.translated(cells, of: record.table, ids)
        }
        let explaining = parked.filter { set in
            set.items.allSatisfy { item in (item.mine ?? [:]).allSatisfy { due[item.record]?[$0.key] == $0.value } }
        }
        for (record, cells) in due.sorted(by: { $0.key < $1.key }) {
            let items = explaining.flatMap(\.items).filter { $0.record == record }
            let mine = items.reduce(Cells()) { $0.merging($1.mine ?? [:]) { $1 } }
            guard mine != cells else { continue }
            report(
                .intentKept, actor: step.device, subject: record,
                expected: "\(cells.text) among the conflicts, since the zone has something else",
                found: items.isEmpty ? "nothing" : mine.text)
        }
        let explained = Set(explaining.map(\.id))
        device.own.formUnion(explained)
        parked.removeAll { explained.contains($0.id) }
    }

    /// An edit that a fit makes.
    ///
    /// `whole` includes undrained edits, `own` does not. `isNew` is whether the fit adds anything.
    typealias FitEdit = (whole: Edit, own: Edit, isNew: Bool)

    mutating func fitEdits(
        by fitting: Fitting, _ ids: Identities, undrained: [RecordID: Edit], fresh: [OutboxSet], step: DeviceStep,
        device: DeviceModel
    ) -> [RecordID: FitEdit] {
        var fitEdits: [RecordID: FitEdit] = [:]
        for (old, theirs) in fitting.theirs {
            guard let row = device.rows[old] else { continue }
            let record = rules.translated(old, ids)
            let mine = fitting.mine[old] ?? [:]
            let undrainedEdit = undrained[record]
            guard undrainedEdit != nil || !mine.isEmpty else { continue }
            let before = rules.translated(row.merging(theirs) { $1 }, of: old.table, ids)
            let after = before.merging(rules.translated(mine, of: old.table, ids)) { $1 }
            let first = undrainedEdit.map { $0.before?.merging(theirs) { $1 } } ?? before
            fitEdits[record] = (
                (first, after, undrainedEdit?.cursor ?? device.cursor), (before, after, device.cursor), !mine.isEmpty
            )
        }
        for (record, edit) in adoptions(by: fitting, ids, fresh: fresh, step: step, device: device) {
            fitEdits[record] = (edit, edit, true)
        }
        return fitEdits
    }

    /// Finds the new records that rows of a newly shared table become.
    ///
    /// Keys that the server gives are drawn anew.
    private mutating func adoptions(
        by fitting: Fitting, _ ids: Identities, fresh: [OutboxSet], step: DeviceStep, device: DeviceModel
    ) -> [RecordID: Edit] {
        var newRows: [RecordID: Cells] = [:]
        if step.captured == 0 {
            for change in fresh.flatMap(\.changes) where change.operation == .create {
                newRows[change.record] = rules.applied(change, to: nil)
            }
        } else {
            newRows = device.rows.all
            for change in step.rows { newRows[change.record] = change.after }
            newRows = newRows.filter { device.confirmed[$0.key] == nil }
        }
        var edits: [RecordID: Edit] = [:]
        for (record, row) in fitting.adopted.sorted(by: { $0.key < $1.key }) {
            let row = rules.translated(row, of: record.table, ids)
            let due = content(row, of: record.table, fitting.now)
            let matches = newRows.keys.filter {
                $0.table == record.table && edits[$0] == nil
                    && content(newRows[$0] ?? [:], of: $0.table, fitting.now) == due
            }
            guard let new = matches.min() else {
                report(
                    .intentKept, actor: step.device, subject: record,
                    expected: "\(row.text) as a new record, since the zone has the table now", found: "nothing")
                continue
            }
            edits[new] = (nil, row.merging(rules.keyCells(new)) { $1 }, device.cursor)
        }
        return edits
    }

    /// The row without a key that the server gives.
    private func content(_ row: Cells, of name: String, _ view: Layout) -> Cells {
        let table = rules.table(name)
        let key = table?.hasAssignedKeys == true ? table?.key ?? [] : []
        return (view.fitted(row, of: name) ?? row).filter { !key.contains($0.key) }
    }
}

extension Fitting {
    /// Judges a row of a table with newly shared columns.
    fileprivate mutating func take(_ record: RecordID, row: Cells, device: DeviceModel, own: Layout, rules: Rules) {
        guard let columns = now[record.table], let table = rules.table(record.table) else { return }
        let zone = device.confirmed[record]
        let oldColumns = before?[record.table]
        if oldColumns == nil, zone == nil || table.hasAssignedKeys {
            adopted[record] = row
            return
        }
        for (column, fill) in columns where oldColumns?[column] == nil && !table.key.contains(column) {
            let value = row[column] ?? fill
            let theirs = zone?[column] ?? fill
            self.theirs[record, default: [:]][column] = theirs
            guard value != theirs else { continue }
            if oldColumns == nil {
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
