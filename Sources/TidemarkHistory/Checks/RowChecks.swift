/// The rows of a device's file are what the server confirmed, with what waits on top.
extension HistoryChecker {
    mutating func checkRows(around records: Set<RecordID>, of device: inout DeviceModel) {
        var strays: [RecordID] = []
        for record in records
        where device.undrained[record] == nil && device.shared.has(record.table) {
            if visible(record, device) == shown(record, device) {
                device.hiding.remove(record)
            } else {
                strays.append(record)
            }
        }
        guard !strays.isEmpty else { return }
        strays.sort()
        // A change set that does not fit the rows waits without being shown: the server will say
        // why.
        let mayHide = !fits(device)
        for record in strays {
            let pending = device.pending[record] ?? []
            // What was hidden once stays so until an answer is taken in, also when it would fit.
            let isHidden = mayHide || device.hiding.contains(record)
            if isHidden, isPart(record, of: pending, device) {
                counters.hiddenChanges += 1
                device.hiding.insert(record)
                continue
            }
            report(
                pending.isEmpty ? .dense : .intentKept,
                device.name,
                record,
                expected: pending.isEmpty
                    ? "the row at revision \(device.cursor), \(shown(record, device).text)"
                    : "its waiting edit on top of revision \(device.cursor), "
                        + shown(record, device).text,
                found: visible(record, device).text
            )
        }
    }

    /// What the server confirmed, with what waits on top, as far as the file has columns for it.
    private func shown(_ record: RecordID, _ device: DeviceModel) -> Cells? {
        let row = (device.pending[record] ?? []).reduce(device.confirmed[record]) {
            rules.applied($1, to: $0)
        }
        return device.shared.fitted(row, of: record.table)
    }

    /// What the file shows of the zone's columns.
    private func visible(_ record: RecordID, _ device: DeviceModel) -> Cells? {
        device.shared.fitted(device.rows[record], of: record.table)
    }

    /// Whether all that waits can be shown at once: no unique value twice, no reference to nothing.
    private func fits(_ device: DeviceModel) -> Bool {
        var all = device.confirmed.filter { device.shared.has($0.key.table) }
        for record in device.pending.keys { all[record] = shown(record, device) }
        let rows = Rows(all, rules: rules)
        guard rows.brokenReference(around: all.keys, rules: rules) == nil else { return false }
        for table in rules.tables {
            for columns in table.unique {
                var taken: Set<[String]> = []
                for (record, row) in all where record.table == table.name {
                    let values = columns.map { row[$0] ?? "null" }
                    guard !values.contains("null") else { continue }
                    guard taken.insert(values).inserted else { return false }
                }
            }
        }
        return true
    }

    /// Whether a row is what some of the waiting changes make, the others being hidden.
    private func isPart(
        _ record: RecordID,
        of pending: [RecordChange],
        _ device: DeviceModel
    ) -> Bool {
        guard pending.count < 10 else { return true }
        let row = visible(record, device)
        return (0..<(1 << pending.count)).contains { choice in
            let shown = pending.enumerated().filter { choice & (1 << $0.offset) != 0 }
            let made = shown.reduce(device.confirmed[record]) {
                rules.applied($1.element, to: $0)
            }
            return row == device.shared.fitted(made, of: record.table)
        }
    }
}
