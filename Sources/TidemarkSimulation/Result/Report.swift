/// The result of a run.
package struct Report: Sendable {
    /// The seed.
    package let seed: UInt64
    /// The hash of everything that happened: equal for equal seeds, on every machine.
    package let hash: UInt64
    /// The counts of its events.
    package let counters: Counters
    /// The first broken promise; nil if all were kept.
    package let finding: Finding?
    /// The events in words, if the options want them.
    package let trace: [String]
    /// Every decision of the run, in one list.
    let decisions: [Span]

    /// The number of actions.
    package var actionCount: Int { decisions.filter { $0.kind == .act }.count }
}

/// A broken promise of a run.
package struct Finding: Error, Hashable, Sendable, CustomStringConvertible {
    /// The promise, for instance `I5`.
    package let invariant: String
    /// The actor, for instance `device 2`.
    package let actor: String
    /// The fault.
    package let detail: String

    /// Makes a finding.
    package init(_ invariant: String, actor: String, detail: String) {
        self.invariant = invariant
        self.actor = actor
        self.detail = detail
    }

    /// One line.
    package var description: String { "\(invariant), \(actor): \(detail)" }
}

/// Collects all events, as a hash and, if the options want it, in words.
struct Trace {
    /// FNV-1a, 64 bits.
    private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    private(set) var lines: [String] = []
    let keepsLines: Bool

    init(keepsLines: Bool) { self.keepsLines = keepsLines }

    /// Adds bytes to the hash.
    mutating func add(_ bytes: some Sequence<UInt8>) {
        var hash = hash
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        self.hash = hash
    }

    /// Adds an event: `text` is hashed and, if lines are kept, followed by `more`.
    mutating func note(_ time: Int64, text: String, more: @autoclosure () -> String = "") {
        add(text.utf8)
        guard keepsLines else { return }
        let seconds = String(time / 1_000_000), millis = String(time / 1_000 % 1_000)
        let stamp = seconds + "." + String(repeating: "0", count: 3 - millis.count) + millis
        let padding = String(repeating: " ", count: max(0, 9 - stamp.count))
        lines.append("\(padding)\(stamp)  \(text)\(more())")
    }
}
