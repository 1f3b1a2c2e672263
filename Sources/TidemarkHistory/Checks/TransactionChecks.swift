/// A transaction of an app is in one change set, whole, whatever is united with it.
extension HistoryChecker {
    /// What a transaction did to each record of tables that travel.
    typealias Deed = [RecordID: RowChange]

    /// The new change sets are the transactions since the last drain, each for itself or united
    /// with its neighbours, in their order.
    ///
    /// Sets that were parked at once have lost their place among the others, but not among
    /// themselves.
    mutating func checkTransactions(
        _ deeds: [Deed],
        _ queued: [OutboxSet],
        _ parked: [OutboxSet],
        _ ids: Identities,
        _ view: Layout?,
        _ step: DeviceStep
    ) {
        // Edits that are lost or altered were reported already.
        guard found.isEmpty, !deeds.isEmpty else { return }
        let deeds = deeds.map { translated($0, ids) }
        // How many transactions may be through after so many sets of either queue.
        var reached = Array(repeating: Array(repeating: Set<Int>(), count: parked.count + 1), count: queued.count + 1)
        reached[0][0] = [0]
        for first in 0...queued.count {
            for second in 0...parked.count {
                for start in reached[first][second] {
                    if first < queued.count {
                        reached[first + 1][second].formUnion(ends(of: queued[first], from: start, deeds, view))
                    }
                    if second < parked.count {
                        reached[first][second + 1].formUnion(ends(of: parked[second], from: start, deeds, view))
                    }
                }
            }
        }
        let nothing = OutboxSet(id: "", changes: [])
        let isWhole = reached[queued.count][parked.count].contains { end in
            end == deeds.count || ends(of: nothing, from: end, deeds, view).contains(deeds.count)
        }
        guard !isWhole else { return }
        let sets = (queued + parked).map { set in set.changes.map { "\($0.record)" }.sorted().joined(separator: ", ") }
        report(
            .atomic,
            step.device,
            "\(deeds.count) transactions",
            expected: "each whole in one change set",
            found: sets.joined(separator: "; then ")
        )
    }

    /// Where the transactions end that a change set may be made of, when they begin at one.
    private func ends(of set: OutboxSet, from start: Int, _ deeds: [Deed], _ view: Layout?) -> Set<Int> {
        var ends = Set<Int>()
        var net = Deed()
        for end in deeds.indices.dropFirst(start) {
            for (record, change) in deeds[end] {
                net[record] = RowChange(record, before: net[record].map(\.before) ?? change.before, after: change.after)
            }
            if makes(set, net, view) { ends.insert(end + 1) }
        }
        return ends
    }

    /// Whether a change set makes of each record what transactions have made of it.
    private func makes(_ set: OutboxSet, _ net: Deed, _ view: Layout?) -> Bool {
        guard set.changes.allSatisfy({ net[$0.record] != nil }) else { return false }
        let changes = Dictionary(grouping: set.changes, by: \.record)
        return net.allSatisfy { record, change in
            let made = (changes[record] ?? []).reduce(change.before) { rules.applied($1, to: $0) }
            return view.fitted(made, of: record.table) == view.fitted(change.after, of: record.table)
        }
    }

    private func translated(_ deed: Deed, _ ids: Identities) -> Deed {
        guard !ids.isEmpty else { return deed }
        return Dictionary(
            deed.values.map { change in
                let record = rules.translated(change.record, ids)
                let row = { (row: Cells?) in row.map { rules.translated($0, of: record.table, ids) } }
                return (record, RowChange(record, before: row(change.before), after: row(change.after)))
            },
            uniquingKeysWith: { $1 }
        )
    }
}
