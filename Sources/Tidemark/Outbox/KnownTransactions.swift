import TidemarkCore

/// The app's observed transactions, as ranges of capture numbers.
///
/// Changes between the ranges come from other programs, whose transaction boundaries are unknown.
package struct KnownTransactions: Sendable, ExpressibleByArrayLiteral {
    /// The first and the last number of each transaction, in order.
    private(set) var ranges: [ClosedRange<Int64>] = []
    /// Whether all captured changes belong to one known transaction.
    private let isAll: Bool
    private static let countMax = 10_000
    /// All captured changes are one transaction of the engine.
    static let all = KnownTransactions(isAll: true)

    package init() { self.init(isAll: false) }

    package init(arrayLiteral ranges: ClosedRange<Int64>...) {
        self.init(isAll: false)
        self.ranges = ranges
    }

    private init(isAll: Bool) { self.isAll = isAll }

    /// Appends a transaction that is later than all others.
    mutating func append(first: Int64, last: Int64) {
        guard first <= last, last > ranges.last?.upperBound ?? 0 else { return }
        ranges.append(first...last)
    }

    /// Drops the older half if there are too many.
    mutating func dropOldest() { if ranges.count > Self.countMax { ranges.removeFirst(Self.countMax / 2) } }

    /// Returns the numbers of a range at which transactions end, in order; its last number is one.
    func ends(in range: ClosedRange<Int64>) -> [Int64] {
        if planted(PlantedBug.splitsTransactions) { return Array(range) }
        let ends = ranges.flatMap { [$0.lowerBound - 1, $0.upperBound] }.filter(range.contains)
        return Set(ends + [range.upperBound]).sorted()
    }

    /// Returns the parts of a range that belong to no known transaction, in order.
    func unknownRanges(in range: ClosedRange<Int64>) -> [ClosedRange<Int64>] {
        let ends = ends(in: range)
        let known = knownEnds(among: ends)
        return zip([range.lowerBound] + ends.dropLast().map { $0 + 1 }, ends).filter { !known.contains($1) }.map {
            $0...$1
        }
    }

    /// Returns those of `ends` at which known transactions end.
    func knownEnds(among ends: [Int64]) -> Set<Int64> {
        isAll ? Set(ends) : Set(ranges.map(\.upperBound)).intersection(ends)
    }
}
