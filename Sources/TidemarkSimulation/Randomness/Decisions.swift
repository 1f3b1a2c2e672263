/// Every decision of a run, in one list: drawn from the seed, or taken from an earlier list.
///
/// The list is cut into spans, one for each event of the world. When a shortened list is replayed,
/// each event takes the next span of its own kind. So leaving out a device's action does not shift
/// the network's decisions. A missing decision is 0, and 0 always is the simplest choice: no fault,
/// the first record, the shortest delay.
struct Decisions {
    /// The kinds of decisions.
    enum Kind: Int, CaseIterable, Codable, Sendable {
        /// The swarm: which features and faults the seed has.
        case plan
        /// The next action in the world.
        case act
        /// The fate of a message.
        case carry
        /// The actions after all faults have stopped.
        case settle
    }

    private var generator: SeededBits
    private let replayed: [[Span]]?
    private var cursors = Array(repeating: 0, count: Kind.allCases.count)
    private var current: [Int] = []
    private var position = 0
    /// The decisions so far.
    private(set) var spans: [Span] = []

    /// Draws every decision from a seed.
    init(seed: UInt64) {
        generator = SeededBits(seed: seed)
        replayed = nil
    }

    /// Takes the decisions of a list.
    init(replaying story: [Span]) {
        generator = SeededBits(seed: 0)
        replayed = Kind.allCases.map { kind in story.filter { $0.kind == kind } }
    }

    /// Begins the decisions of one event.
    ///
    /// Returns false when a replayed list has no more of that kind.
    @discardableResult mutating func begin(_ kind: Kind) -> Bool {
        spans.append(Span(kind: kind, choices: []))
        guard let replayed else { return true }
        let cursor = cursors[kind.rawValue]
        cursors[kind.rawValue] += 1
        position = 0
        current = cursor < replayed[kind.rawValue].count ? replayed[kind.rawValue][cursor].choices : []
        return cursor < replayed[kind.rawValue].count
    }

    /// A number from 0 up to, but not including, `count`.
    mutating func decide(_ count: Int) -> Int {
        guard count > 1 else { return 0 }
        let choice: Int
        if replayed == nil {
            choice = Int(generator.next() % UInt64(count))
        } else {
            choice = position < current.count ? min(current[position], count - 1) : 0
            position += 1
        }
        spans[spans.count - 1].choices.append(choice)
        return choice
    }

    /// True in `percent` of 100 cases.
    mutating func chance(_ percent: Int) -> Bool { percent > 0 && decide(100) >= 100 - percent }

    /// One of the elements; the first is the simplest.
    mutating func pick<Element>(_ elements: [Element]) -> Element { elements[decide(elements.count)] }
}

/// The decisions of one event.
struct Span: Hashable, Sendable {
    let kind: Decisions.Kind
    var choices: [Int]
}

/// Random bits that a seed determines: SplitMix64, after Steele, Lea and Flood (2014).
struct SeededBits {
    private var state: UInt64

    /// Makes a generator; equal seeds give equal bits.
    init(seed: UInt64) { state = seed }

    /// The next 64 bits.
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
