/// Checks that a transaction of an app is in one change set, whole, alone or united with others.
extension HistoryChecker {
    /// The effect of a transaction on each record of shared tables.
    typealias Deed = [RecordID: RowChange]

    /// Checks that the new change sets are the transactions since the last drain, in their order,
    /// each alone or united with its neighbours.
    ///
    /// Sets that were parked at once have lost their place among the others, but not among
    /// themselves.
    mutating func checkTransactions(
        _ deeds: [Deed], queued: [OutboxSet], parked: [OutboxSet], ids: Identities, view: Layout?, step: DeviceStep
    ) {
        // Lost or altered edits have been reported already.
        guard violations.isEmpty, !deeds.isEmpty else { return }
        let deeds = deeds.map { translated($0, ids) }
        // How many transactions may be complete after so many sets of either queue.
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
            .atomic, actor: step.device, subject: "\(deeds.count) transactions",
            expected: "each whole in one change set", found: sets.joined(separator: "; then "))
    }

    /// The possible ends of a change set that begins at a transaction.
    private func ends(of set: OutboxSet, from start: Int, _ deeds: [Deed], _ view: Layout?) -> Set<Int> {
        var ends = Set<Int>()
        var net = Deed()
        for end in deeds.indices.dropFirst(start) {
            for (record, change) in deeds[end] {
                net[record] = RowChange(record, before: net[record].map(\.before) ?? change.before, after: change.after)
            }
            if makes(set, net: net, view: view) { ends.insert(end + 1) }
        }
        return ends
    }

    /// Whether a change set has the same result as transactions on each record.
    private func makes(_ set: OutboxSet, net: Deed, view: Layout?) -> Bool {
        guard set.changes.allSatisfy({ net[$0.record] != nil }) else { return false }
        let changes = Dictionary(grouping: set.changes, by: \.record)
        return net.allSatisfy { record, change in
            let result = (changes[record] ?? []).reduce(change.before) { rules.applied($1, to: $0) }
            return view.fitted(result, of: record.table) == view.fitted(change.after, of: record.table)
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
