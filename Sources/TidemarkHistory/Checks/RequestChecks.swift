/// Checks requests on their way: a device sends the frozen text.
extension HistoryChecker {
    mutating func take(_ request: Request) {
        requests[request.number] = request
        guard let device = devices[request.device] else { return }
        if request.maxRevision != device.cursor {
            report(
                .dense, actor: request.device, subject: "request \(request.number)",
                expected: "maxRevision \(device.cursor), the file's revision", found: "\(request.maxRevision)")
        }
        let waiting = Dictionary(
            device.outbox.enumerated().map { ($0.element.id, $0.offset) }, uniquingKeysWith: { first, _ in first })
        var last = -1
        for (id, wire) in request.changeSets {
            guard let place = waiting[id] else {
                report(
                    .intentKept, actor: request.device, subject: "change set \(id)",
                    expected: "only what lies in the outbox is sent", found: "request \(request.number) has it")
                continue
            }
            if place < last {
                report(
                    .noSilentOverwrite, actor: request.device, subject: "change set \(id)",
                    expected: "the order of the outbox", found: "it is sent after a later one")
            }
            last = max(last, place)
            if let frozen = wires[request.device]?[id], frozen != wire {
                report(
                    .once, actor: request.device, subject: "change set \(id)",
                    expected: "the text that was sent first, \(frozen)", found: wire)
            }
        }
    }

    mutating func checkBound(_ actor: String, name: String, value: Int) {
        guard let cap = rules.caps[name], value > cap else { return }
        report(.bounded, actor: actor, subject: name, expected: "at most \(cap)", found: "\(value)")
    }

    mutating func checkAbuse(_ actor: String, input: String, outcome: String) {
        guard outcome.hasPrefix("5") || outcome == "crash" || outcome == "internalFailure" else { return }
        report(.unharmed, actor: actor, subject: input, expected: "a refusal that says why", found: outcome)
    }
}
