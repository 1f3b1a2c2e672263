import TidemarkCore

/// The transactions that the app is known to have made, as the numbers of what they captured.
///
/// What lies between them was written by other programs: nobody knows where their transactions
/// begin and end.
package struct KnownTransactions: Sendable, ExpressibleByArrayLiteral {
    /// The first and the last number of each, in their order.
    private(set) var ranges: [ClosedRange<Int64>] = []
    /// Whether whatever was captured is one transaction.
    private let isAll: Bool

    private static let countMax = 10_000

    /// What is captured is one transaction of the engine's own.
    static let all = KnownTransactions(isAll: true)

    /// Knows of no transaction.
    package init() { self.init(isAll: false) }

    /// Knows of some transactions, in their order.
    package init(arrayLiteral ranges: ClosedRange<Int64>...) {
        self.init(isAll: false)
        self.ranges = ranges
    }

    private init(isAll: Bool) { self.isAll = isAll }

    /// Notes a transaction that is later than all others.
    mutating func note(first: Int64, last: Int64) {
        guard first <= last, last > ranges.last?.upperBound ?? 0 else { return }
        ranges.append(first...last)
    }

    /// Forgets the older half when there are too many to keep.
    mutating func forgetOldest() { if ranges.count > Self.countMax { ranges.removeFirst(Self.countMax / 2) } }

    /// The numbers of a range at which transactions end, in their order; the last one does.
    func ends(in range: ClosedRange<Int64>) -> [Int64] {
        if planted(PlantedBug.splitsTransactions) { return Array(range) }
        let ends = ranges.flatMap { [$0.lowerBound - 1, $0.upperBound] }.filter(range.contains)
        return Set(ends + [range.upperBound]).sorted()
    }

    /// Which of these ends are those of known transactions.
    func known(among ends: [Int64]) -> Set<Int64> {
        isAll ? Set(ends) : Set(ranges.map(\.upperBound)).intersection(ends)
    }
}
