/// Checks that a device's rows are the confirmed ones, with the waiting changes on top.
extension HistoryChecker {
    mutating func checkRows(around records: Set<RecordID>, of device: inout DeviceModel) {
        var strays: [RecordID] = []
        for record in records where device.undrained[record] == nil && device.shared.has(record.table) {
            if actualRow(record, device) == expectedRow(record, device) {
                device.hiding.remove(record)
            } else {
                strays.append(record)
            }
        }
        guard !strays.isEmpty else { return }
        strays.sort()
        // A change set that does not fit the rows waits without being shown, whole: the server will
        // give the reason. All others are shown.
        let misfits = misfits(of: device)
        for record in strays {
            let pending = device.pending[record] ?? []
            // A hidden change stays hidden until the device applies an answer, even if it would
            // fit.
            let isHidden = misfits.contains(record) || device.hiding.contains(record)
            if isHidden, isPart(record, of: pending, device) {
                counters.hiddenChanges += 1
                device.hiding.insert(record)
                continue
            }
            report(
                pending.isEmpty ? .dense : .intentKept, actor: device.name, subject: record,
                expected: pending.isEmpty
                    ? "the row at revision \(device.cursor), \(expectedRow(record, device).text)"
                    : "its waiting edit on top of revision \(device.cursor), " + expectedRow(record, device).text,
                found: actualRow(record, device).text)
        }
    }

    /// The confirmed row with the waiting changes on top, in the file's columns.
    private func expectedRow(_ record: RecordID, _ device: DeviceModel) -> Cells? {
        let row = (device.pending[record] ?? []).reduce(device.confirmed[record]) { rules.applied($1, to: $0) }
        return device.shared.fitted(row, of: record.table)
    }

    /// The part of a file's row in the zone's columns.
    private func actualRow(_ record: RecordID, _ device: DeviceModel) -> Cells? {
        device.shared.fitted(device.rows[record], of: record.table)
    }

    /// The records of waiting change sets that do not fit: not all together, and not each on top of
    /// the fitting ones before it.
    private func misfits(of device: DeviceModel) -> Set<RecordID> {
        let confirmed = device.confirmed.filter { device.shared.has($0.key.table) }
        var rows = Rows(confirmed, rules: rules)
        var all = rows
        for record in device.pending.keys { all.set(record, expectedRow(record, device), rules: rules) }
        guard !fit(device.pending.keys, in: all) else { return [] }
        var misfits: Set<RecordID> = []
        for set in device.outbox {
            var next = rows
            for change in set.changes {
                let row = rules.applied(change, to: next[change.record])
                next.set(change.record, device.shared.fitted(row, of: change.record.table), rules: rules)
            }
            let records = set.changes.map(\.record)
            if fit(records, in: next) { rows = next } else { misfits.formUnion(records) }
        }
        return misfits
    }

    /// Whether records can be shown: no unique value twice, no broken reference, no sum that a table refuses.
    private func fit(_ records: some Sequence<RecordID>, in rows: Rows) -> Bool {
        guard rows.brokenReference(around: records, rules: rules) == nil,
            records.allSatisfy({ record in rows[record].map { rules.table(record.table)?.takes($0) ?? true } ?? true })
        else { return false }
        let touched = Set(records.map(\.table))
        return rules.tables.allSatisfy { table in
            !touched.contains(table.name)
                || table.unique.allSatisfy { unique in
                    var usedValues: Set<[String]> = []
                    return rows.all.allSatisfy { record, row in
                        guard record.table == table.name, let values = unique.values(of: row) else { return true }
                        return usedValues.insert(values).inserted
                    }
                }
        }
    }

    /// Whether a row results from some of the waiting changes, with the others hidden.
    private func isPart(_ record: RecordID, of pending: [RecordChange], _ device: DeviceModel) -> Bool {
        guard pending.count < 10 else { return true }
        let row = actualRow(record, device)
        return (0..<(1 << pending.count)).contains { choice in
            let visibleChanges = pending.enumerated().filter { choice & (1 << $0.offset) != 0 }
            let result = visibleChanges.reduce(device.confirmed[record]) { rules.applied($1.element, to: $0) }
            return row == device.shared.fitted(result, of: record.table)
        }
    }
}
