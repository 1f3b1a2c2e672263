/// What only this file has is nobody else's: the engine leaves it as it was, under the ids that the
/// records have then.
extension HistoryChecker {
    mutating func checkOwnColumns(_ step: DeviceStep, _ fitting: Fitting?, _ device: inout DeviceModel) {
        guard let layout = device.layout, let shared = device.shared else { return }
        let ids = step.identities.reduce(into: Identities()) { $0[$1.table, default: [:]][$1.temporary] = $1.permanent }
        let former = Dictionary(
            step.rows.filter { $0.before != nil }.map { (rules.translated($0.record, ids), $0) },
            uniquingKeysWith: { first, _ in first }
        )
        for change in step.rows {
            let record = change.record
            let name = change.record.table
            let own = Set((layout[name] ?? [:]).keys).subtracting((shared[name] ?? [:]).keys).subtracting(
                shared[name] == nil ? [] : rules.table(name)?.key ?? []
            )
            guard !own.isEmpty, fitting?.before?[name] != nil || fitting == nil else { continue }
            guard let after = change.after else {
                device.gone[record] = change.before
                checkRemoval(change, ids, step, shared, device)
                continue
            }
            let old = former[record]?.before ?? device.gone[record]
            let expected = old.map { rules.translated($0, of: name, ids) } ?? layout[name] ?? [:]
            if shared[name] == nil, former[record] == nil {
                reportOwn(change, "no row that nobody made", after.text, step)
            }
            for column in own.sorted() where after[column] != expected[column] {
                // A row that comes back may have been made anew.
                let isNew = former[record] == nil && after[column] == layout[name]?[column]
                guard !isNew, !isEmptied(column, expected, after, name, device) else { continue }
                reportOwn(
                    change,
                    "\(column)=\(expected[column] ?? "") to stay, which only this file has",
                    after.text,
                    step
                )
            }
        }
    }

    /// Rows of a table that only the file has go with what they refer to, and not otherwise.
    private mutating func checkRemoval(
        _ change: RowChange,
        _ ids: Identities,
        _ step: DeviceStep,
        _ shared: Layout,
        _ device: DeviceModel
    ) {
        guard shared[change.record.table] == nil, let row = change.before else { return }
        guard device.rows[rules.translated(change.record, ids)] == nil else { return }
        let now = rules.translated(row, of: change.record.table, ids)
        let parents = rules.parents(of: change.record.table, now)
        guard parents.allSatisfy({ device.rows[$0] != nil }) else { return }
        reportOwn(change, "\(row.text) to stay, which only this file has", "no row", step)
    }

    /// Whether a reference was emptied since what it referred to is gone.
    private func isEmptied(_ column: String, _ before: Cells, _ after: Cells, _ table: String, _ device: DeviceModel)
        -> Bool
    {
        guard after[column] == "null" else { return false }
        return rules.parents(of: table, before, through: column).contains { device.rows[$0] == nil }
    }

    private mutating func reportOwn(_ change: RowChange, _ expected: String, _ found: String, _ step: DeviceStep) {
        report(.intentKept, step.device, change.record, expected: expected, found: "\(found) after \(step.step)")
    }
}
