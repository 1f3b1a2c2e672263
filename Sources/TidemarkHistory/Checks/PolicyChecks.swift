/// Checks `lastWriter` and `latest`: losing values are kept, once, and clocks go forward.
extension HistoryChecker {
    /// Checks that each newly kept value has lost.
    mutating func checkKeptValues(_ inbox: [String: ParkedSet], besides old: [String: ParkedSet], _ step: DeviceStep) {
        // A restored zone has forgotten why values lost.
        guard zone?.incarnation == 0 else { return }
        for (id, parked) in inbox.sorted(by: { $0.key < $1.key }) where parked.isOverruled && old[id] == nil {
            for item in parked.items {
                for (column, value) in (item.mine ?? [:]).sorted(by: { $0.key < $1.key }) {
                    counters.keptValues += 1
                    let entry = Ledger.Entry(record: item.record, column: column, value: value)
                    guard !ledger.keep(entry, by: step.identity) else { continue }
                    report(
                        .intentKept, actor: step.device, subject: "\(item.record) in \(id)",
                        expected: "no value kept that stands, or is kept already", found: "\(column)=\(value)")
                }
            }
        }
    }

    /// Checks that at the end every losing value was kept.
    mutating func checkLedger(_ device: DeviceModel) {
        guard zone?.incarnation == 0 else { return }
        let due = (ledger.due[device.identity] ?? [:]).sorted {
            ($0.value, $0.key.record, $0.key.column) < ($1.value, $1.key.record, $1.key.column)
        }
        guard let (entry, revision) = due.first else { return }
        report(
            .intentKept, actor: device.name, subject: entry.record,
            expected: "\(entry.column)=\(entry.value) kept, since revision \(revision) has"
                + " another value by the policy of the column", found: "it was lost")
    }

    /// The most counts by which a clock may be ahead of the wall and of all times that it has seen.
    ///
    /// Each change set takes one, also one that vanishes.
    private static let ticksMax: Int64 = 1_000

    /// Checks that a change set is later than every time in its author's file, and otherwise at the
    /// time of the wall.
    mutating func checkTime(of set: OutboxSet, _ step: DeviceStep, _ device: inout DeviceModel) {
        guard let wall = step.wall, set.time > 0 else { return }
        let floor = max(device.lastTime + 1, (wall - 2) * 1_000)
        if !(floor...floor + 2_000 + Self.ticksMax).contains(set.time) {
            report(
                .noSilentOverwrite, actor: step.device, subject: "the time of change set \(set.id)",
                expected: "about \(floor), later than all that the file has seen", found: "\(set.time)")
        }
        device.lastTime = max(device.lastTime, set.time)
    }

    /// Checks that a revision has its author's time, capped by the server's tolerance.
    mutating func checkTime(of commit: Commit, _ authored: AuthoredSet, _ wall: Int64?) {
        guard let wall, authored.time > 0 else { return }
        let isBelieved = authored.time / 1_000 <= wall + Self.skewMax
        let isFine =
            isBelieved
            ? commit.time == authored.time
            : (wall * 1_000...(wall + Self.skewMax) * 1_000 + Self.ticksMax).contains(commit.time)
        guard !isFine else { return }
        report(
            .noSilentOverwrite, actor: "server", subject: "the time of revision \(commit.revision)",
            expected: isBelieved ? "\(authored.time), as its author says" : "that of its arrival, about \(wall)",
            found: "\(commit.time)")
    }

    /// How far ahead of the server's wall a time may be, in milliseconds.
    static let skewMax: Int64 = 300_000
}
