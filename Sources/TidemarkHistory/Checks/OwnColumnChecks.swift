/// Checks values that only this file has: the engine leaves them alone, under the records' present
/// ids.
extension HistoryChecker {
    mutating func checkOwnColumns(_ step: DeviceStep, fitting: Fitting?, device: inout DeviceModel) {
        guard let layout = device.layout, let shared = device.shared else { return }
        let ids = step.identities.reduce(into: Identities()) { $0[$1.table, default: [:]][$1.temporary] = $1.permanent }
        let former = Dictionary(
            step.rows.filter { $0.before != nil }.map { (rules.translated($0.record, ids), $0) },
            uniquingKeysWith: { first, _ in first })
        for change in step.rows {
            let record = change.record
            let name = change.record.table
            let own = Set((layout[name] ?? [:]).keys).subtracting((shared[name] ?? [:]).keys).subtracting(
                shared[name] == nil ? [] : rules.table(name)?.key ?? [])
            guard !own.isEmpty, fitting?.before?[name] != nil || fitting == nil else { continue }
            guard let after = change.after else {
                device.removedRows[record] = change.before
                checkRemoval(change, ids: ids, step: step, shared: shared, device: device)
                continue
            }
            let old = former[record]?.before ?? device.removedRows[record]
            let expected = old.map { rules.translated($0, of: name, ids) } ?? layout[name] ?? [:]
            if shared[name] == nil, former[record] == nil {
                reportOwn(change, expected: "no row that nobody made", found: after.text, step: step)
            }
            for column in own.sorted() where after[column] != expected[column] {
                // A row that comes back may be a new record.
                let isNew = former[record] == nil && after[column] == layout[name]?[column]
                guard !isNew, !isEmptied(column, before: expected, after: after, table: name, device: device) else {
                    continue
                }
                reportOwn(
                    change, expected: "\(column)=\(expected[column] ?? "") to stay, which only this file has",
                    found: after.text, step: step)
            }
        }
    }

    /// Checks that rows of a table that only the file has go with their parents, and not otherwise.
    private mutating func checkRemoval(
        _ change: RowChange, ids: Identities, step: DeviceStep, shared: Layout, device: DeviceModel
    ) {
        guard shared[change.record.table] == nil, let row = change.before else { return }
        guard device.rows[rules.translated(change.record, ids)] == nil else { return }
        let now = rules.translated(row, of: change.record.table, ids)
        let parents = rules.parents(of: change.record.table, now)
        guard parents.allSatisfy({ device.rows[$0] != nil }) else { return }
        reportOwn(change, expected: "\(row.text) to stay, which only this file has", found: "no row", step: step)
    }

    /// Whether a reference is empty because its parent is gone.
    private func isEmptied(_ column: String, before: Cells, after: Cells, table: String, device: DeviceModel)
        -> Bool
    {
        guard after[column] == "null" else { return false }
        return rules.parents(of: table, before, through: column).contains { device.rows[$0] == nil }
    }

    private mutating func reportOwn(_ change: RowChange, expected: String, found: String, step: DeviceStep) {
        report(
            .intentKept, actor: step.device, subject: change.record, expected: expected,
            found: "\(found) after \(step.step)")
    }
}
