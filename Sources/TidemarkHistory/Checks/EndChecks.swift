/// Checks the end of a run: dumps, digests, and whether everything drained.
extension HistoryChecker {
    /// Checks an answer that arrived: a request for it exists.
    mutating func deliver(_ request: Int) {
        guard requests[request] == nil else { return }
        report(
            .bounded, actor: "network", subject: "request \(request)", expected: "answers to requests that were sent",
            found: "an answer to none")
    }

    /// Checks a dump: a file's rows are the committed ones, also after a crash.
    mutating func checkDump(_ actor: String, _ rows: [RecordID: Cells]) {
        if actor == "server" {
            guard let zone else { return }
            compare(
                rows, expected: zone.rows.all, invariant: .acknowledgedStays, actor: actor,
                what: "the zone at \(zone.latest)")
        } else if let device = devices[actor] {
            compare(
                rows, expected: device.rows.all, invariant: .intentKept, actor: actor,
                what: "the file at \(device.cursor)")
        }
    }

    mutating func checkDrained(_ device: String, _ requests: Int) {
        drained.insert(device)
        if requests > rules.requestsToDrainMax {
            report(
                .live, actor: device, subject: "requests until it was even",
                expected: "at most \(rules.requestsToDrainMax)", found: "\(requests)")
        }
        guard let healedAt, now - healedAt > rules.secondsToDrainMax else { return }
        report(
            .live, actor: device, subject: "seconds until it was even", expected: "at most \(rules.secondsToDrainMax)",
            found: "\(now - healedAt)")
    }

    mutating func checkEnd() {
        guard let zone else { return }
        for device in devices.values.sorted(by: { $0.name < $1.name }) {
            checkEven(device, zone)
            checkLedger(device)
            compare(
                device.rows.all, expected: zone.rows.all, invariant: .converged, actor: device.name,
                what: "the end, revision \(zone.latest)")
        }
        let expected = digests["server"]
        for (actor, hash) in digests.sorted(by: { $0.key < $1.key }) where hash != expected {
            report(
                .converged, actor: actor, subject: "its digest", expected: expected ?? "one of the server's too",
                found: hash)
        }
    }

    private mutating func checkEven(_ device: DeviceModel, _ zone: ZoneModel) {
        if !drained.contains(device.name) {
            report(
                .live, actor: device.name, subject: "the end", expected: "nothing left to send or to fetch",
                found: "it never came to an end")
        }
        if !device.outbox.isEmpty || device.captured > 0 || !device.undrained.isEmpty {
            report(
                .live, actor: device.name, subject: "the outbox", expected: "empty, since all faults have stopped",
                found: "\(device.outbox.count) change sets and \(device.captured) captured changes"
                    + (device.outbox.first.map { ", \($0.id) first" } ?? ""))
        }
        if device.cursor != zone.latest || device.epoch != zone.epoch {
            report(
                .live, actor: device.name, subject: "the cursor", expected: "\(zone.latest) of epoch \(zone.epoch)",
                found: "\(device.cursor) of epoch \(device.epoch ?? "none")")
        }
    }
}
