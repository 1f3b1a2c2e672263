/// What a run was, and what it found.
public struct Report: Sendable {
    /// The seed.
    public let seed: UInt64
    /// The hash of everything that happened: equal for equal seeds, on every machine.
    public let hash: UInt64
    /// What happened, in numbers.
    public let counters: Counters
    /// The first promise that was broken; nil when all were kept.
    public let finding: Finding?
    /// What happened in words, when that was asked for.
    public let trace: [String]
    /// Every decision of the run, in one list.
    let decisions: [Span]

    /// How often somebody did something.
    package var actionCount: Int { decisions.filter { $0.kind == .act }.count }
}

/// A promise that a run has found broken.
public struct Finding: Error, Hashable, Sendable, CustomStringConvertible {
    /// Which, for instance `I5`.
    public let invariant: String
    /// Who, for instance `device 2`.
    public let actor: String
    /// What is not as it should be.
    public let detail: String

    /// Makes a finding.
    public init(_ invariant: String, _ actor: String, _ detail: String) {
        self.invariant = invariant
        self.actor = actor
        self.detail = detail
    }

    /// One line.
    public var description: String { "\(invariant), \(actor): \(detail)" }
}

/// Everything that happens, as a hash and, when asked for, in words.
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

    /// Adds an event: `text` is hashed and, when lines are kept, `more` stands behind it.
    mutating func note(_ time: Int64, _ text: String, _ more: @autoclosure () -> String = "") {
        add(text.utf8)
        guard keepsLines else { return }
        let seconds = String(time / 1_000_000), millis = String(time / 1_000 % 1_000)
        let stamp = seconds + "." + String(repeating: "0", count: 3 - millis.count) + millis
        let padding = String(repeating: " ", count: max(0, 9 - stamp.count))
        lines.append("\(padding)\(stamp)  \(text)\(more())")
    }
}
