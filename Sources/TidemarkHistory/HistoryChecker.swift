/// Verifies a history, event by event, against its own model of what must hold.
///
/// It knows the rules of the product and nothing of its code: rows are folded from the log here
/// once more, in other words. Each event costs what it touches, so a history costs its length.
public struct HistoryChecker: Sendable {
    let rules: Rules
    /// The number of events seen.
    public private(set) var count = 0
    /// What the run has contained so far.
    public internal(set) var counters = Counters()

    var now = 0.0
    var found: [Violation] = []
    var zone: ZoneModel?
    var devices: [String: DeviceModel] = [:]
    var copies: [String: DeviceModel] = [:]
    var sets: [String: AuthoredSet] = [:]
    /// What each device has frozen of its change sets: a copy of a file freezes them anew.
    var wires: [String: [String: String]] = [:]
    /// The change sets that a server has forgotten, and some device has offered again.
    var offeredAgain: Set<String> = []
    /// The values that do not stand and have to be kept.
    var ledger = Ledger()
    var requests: [Int: Request] = [:]
    /// What the server has answered to requests with a change set, instead of a verdict.
    var errors: [String: Set<String>] = [:]
    /// The layouts that were told of each file, oldest first.
    var layouts: [String: [Layout]] = [:]
    var digests: [String: String] = [:]
    var hidden: [String: [String]] = [:]
    var healedAt: Double?
    var drained: Set<String> = []

    /// Makes a checker at the beginning of a history.
    public init(rules: Rules) { self.rules = rules }

    /// Takes in the next event, and tells which promises it breaks.
    public mutating func check(_ event: Event) -> [Violation] {
        defer { count += 1 }
        now = event.time
        take(event.kind)
        guard !found.isEmpty else { return [] }
        defer { found = [] }
        return found
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
        case .copied(let from, let name):
            copies[name] = devices[from]
            wires[name] = wires[from]
        case .replaced(let device, let copy): replace(device, by: copy)
        case .restored(let epoch, let revision):
            counters.restores += 1
            zone?.restore(epoch: epoch, revision: revision, rules: rules)
            ledger.forget()
        case .dumped(let actor, let rows): checkDump(actor, rows)
        case .digested(let actor, let hash): digests[actor] = hash
        case .hidden(let actor, let canaries): hidden[actor, default: []] += canaries
        case .received(let actor, let bytes): checkReceived(actor, bytes)
        case .measured(let actor, let name, let value): checkBound(actor, name, value)
        case .abused(let actor, let input, let outcome): checkAbuse(actor, input, outcome)
        case .healed: healedAt = now
        case .drained(let device, let count): checkDrained(device, count)
        case .finished: checkEnd()
        }
    }

    /// Notes a broken promise.
    mutating func report(
        _ invariant: Violation.Invariant,
        _ actor: String,
        _ subject: some CustomStringConvertible,
        expected: String,
        found what: String
    ) {
        found.append(
            Violation(invariant, event: count, actor: actor, subject: "\(subject)", expected: expected, found: what)
        )
    }
}

extension Cells? {
    /// The row in one line, columns sorted by name.
    var text: String {
        guard let self else { return "no row" }
        return "{" + self.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ") + "}"
    }
}
