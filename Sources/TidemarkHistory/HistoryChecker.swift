/// Verifies a history, event by event, against its own model of what must hold.
///
/// The checker has the rules of the product and none of its code. It folds the rows from the log
/// itself. The cost of an event is proportional to the rows that it touches.
package struct HistoryChecker: Sendable {
    let rules: Rules
    /// The number of events seen.
    package private(set) var count = 0
    /// The contents of the run so far.
    package internal(set) var counters = Counters()

    var now = 0.0
    var violations: [Violation] = []
    var zone: ZoneModel?
    var devices: [String: DeviceModel] = [:]
    var copies: [String: DeviceModel] = [:]
    var zoneCopies: [String: ZoneModel] = [:]
    var sets: [String: AuthoredSet] = [:]
    /// The frozen change sets of each device.
    ///
    /// A copy of a file freezes them anew.
    var wires: [String: [String: String]] = [:]
    /// The change sets that a server has forgotten and a device has offered again.
    var offeredAgain: Set<String> = []
    /// The ids that the server has lent, by epoch.
    var lendings: [String: [Lending]] = [:]
    /// The losing values that must be kept.
    var ledger = Ledger()
    var requests: [Int: Request] = [:]
    /// The writes of clients without rows, by the ids of their change sets.
    var offers: [String: OfferModel] = [:]
    /// The errors with which the server has answered requests, for each change set.
    var errors: [String: Set<String>] = [:]
    /// The layouts of each file, oldest first.
    var layouts: [String: [Layout]] = [:]
    var digests: [String: String] = [:]
    var healedAt: Double?
    var drained: Set<String> = []

    /// Makes a checker at the beginning of a history.
    package init(rules: Rules) { self.rules = rules }

    /// Checks the next event.
    ///
    /// - Returns: The promises that it breaks.
    package mutating func check(_ event: Event) -> [Violation] {
        defer { count += 1 }
        now = event.time
        take(event.kind)
        guard !violations.isEmpty else { return [] }
        defer { violations = [] }
        return violations
    }

    private mutating func take(_ kind: Event.Kind) {
        switch kind {
        case .altered(let actor, let layout): alter(actor, layout)
        case .joined(let device, let identity, let epoch, let cursor, let rows):
            join(device, identity: identity, epoch: epoch, cursor: cursor, rows)
        case .edited(let device, let changes): edit(device, changes)
        case .stepped(let step): take(step)
        case .sent(let request): take(request)
        case .served(let step): take(step)
        case .delivered(_, let request): deliver(request)
        case .snapshot(let epoch, let revision, let rows): checkSnapshot(epoch: epoch, revision: revision, rows)
        case .crashed: counters.crashes += 1
        case .reopened: break
        case .copied("server", let name): zoneCopies[name] = zone
        case .copied(let from, let name):
            copies[name] = devices[from]
            wires[name] = wires[from]
        case .replaced(let device, let copy): replace(device, by: copy)
        case .restored(let epoch, let revision, let copy):
            counters.restores += 1
            if let copy = copy.flatMap({ zoneCopies[$0] }) {
                zone?.restore(epoch: epoch, copy: copy)
            } else {
                zone?.restore(epoch: epoch, revision: revision, rules: rules)
            }
            ledger.forget()
        case .dumped(let actor, let rows): checkDump(actor, rows)
        case .digested(let actor, let hash): digests[actor] = hash
        case .measured(let actor, let name, let value): checkBound(actor, name: name, value: value)
        case .abused(let actor, let input, let outcome): checkAbuse(actor, input: input, outcome: outcome)
        case .offered(let offer): take(offer)
        case .judged(let id): judge(id)
        case .answered(let answer): check(answer)
        case .shown(let sight): check(sight)
        case .mirrored(let client, let revision, let rows): checkMirror(client, at: revision, rows)
        case .healed: healedAt = now
        case .drained(let device, let count): checkDrained(device, count)
        case .finished: checkEnd()
        }
    }

    /// Records a broken promise.
    mutating func report(
        _ invariant: Violation.Invariant, actor: String, subject: some CustomStringConvertible, expected: String,
        found actual: String
    ) {
        violations.append(
            Violation(invariant, event: count, actor: actor, subject: "\(subject)", expected: expected, found: actual))
    }
}

extension Cells? {
    /// The row in one line, columns sorted by name.
    var text: String {
        guard let self else { return "no row" }
        return "{" + self.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ") + "}"
    }
}
