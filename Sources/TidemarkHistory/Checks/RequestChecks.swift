/// Requests on their way: what is sent is what was frozen.
extension HistoryChecker {
    mutating func take(_ request: Request) {
        requests[request.number] = request
        guard let device = devices[request.device] else { return }
        if request.maxRevision != device.cursor {
            report(
                .dense,
                request.device,
                "request \(request.number)",
                expected: "maxRevision \(device.cursor), the file's revision",
                found: "\(request.maxRevision)"
            )
        }
        let waiting = Dictionary(
            device.outbox.enumerated().map { ($0.element.id, $0.offset) },
            uniquingKeysWith: { first, _ in first }
        )
        var last = -1
        for (id, wire) in request.changeSets {
            guard let place = waiting[id] else {
                report(
                    .intentKept,
                    request.device,
                    "change set \(id)",
                    expected: "only what lies in the outbox is sent",
                    found: "request \(request.number) has it"
                )
                continue
            }
            if place < last {
                report(
                    .noSilentOverwrite,
                    request.device,
                    "change set \(id)",
                    expected: "the order of the outbox",
                    found: "it is sent after a later one"
                )
            }
            last = max(last, place)
            if let frozen = wires[request.device]?[id], frozen != wire {
                report(
                    .once,
                    request.device,
                    "change set \(id)",
                    expected: "what was sent first, \(frozen)",
                    found: wire
                )
            }
        }
    }

    /// Whatever reaches an actor is searched for what it may not see.
    mutating func checkReceived(_ actor: String, _ bytes: String) {
        for canary in hidden[actor] ?? [] where bytes.contains(canary) {
            report(
                .noForeignRow,
                actor,
                "text \(canary)",
                expected: "nothing of a row that it may not see",
                found: "received"
            )
        }
    }

    mutating func checkBound(_ actor: String, _ name: String, _ value: Int) {
        guard let cap = rules.caps[name], value > cap else { return }
        report(.bounded, actor, name, expected: "at most \(cap)", found: "\(value)")
    }

    mutating func checkAbuse(_ actor: String, _ input: String, _ outcome: String) {
        guard outcome.hasPrefix("5") || outcome == "crash" || outcome == "internalFailure" else { return }
        report(.unharmed, actor, input, expected: "a refusal that says why", found: outcome)
    }
}
