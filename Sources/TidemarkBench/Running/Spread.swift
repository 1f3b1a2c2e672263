/// The median of some numbers, and their extremes.
package struct Spread: Hashable, Sendable, Encodable {
    /// The median.
    package let median: Double
    /// The least.
    package let min: Double
    /// The greatest.
    package let max: Double

    /// Sums up at least one number.
    package init(_ numbers: [Double]) {
        let sorted = numbers.sorted()
        let middle = sorted.count / 2
        median = sorted.count.isMultiple(of: 2) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
        min = sorted[0]
        max = sorted[sorted.count - 1]
    }

    /// The number at a rank, given as a part of all.
    package static func percentile(_ part: Double, of numbers: [Double]) -> Double? {
        guard !numbers.isEmpty else { return nil }
        let sorted = numbers.sorted()
        return sorted[Swift.min(sorted.count - 1, Int(Double(sorted.count) * part))]
    }
}
