import Foundation

/// An axis on which each step is ten times the one before.
struct LogAxis {
    /// The powers of ten at its ends.
    let decades: ClosedRange<Int>
    /// The places of its ends on the page.
    let ends: (Double, Double)

    /// An axis that holds values, which are above 0.
    init(_ values: [Double], from start: Double, to end: Double) {
        let powers = values.map { log10(max($0, .leastNormalMagnitude)) }
        let least = Int((powers.min() ?? 0).rounded(.down))
        let greatest = Int((powers.max() ?? 1).rounded(.up))
        decades = least...max(greatest, least + 1)
        ends = (start, end)
    }

    /// The place of a value on the page.
    func place(_ value: Double) -> Double {
        let part = (log10(value) - Double(decades.lowerBound)) / Double(decades.count - 1)
        return ends.0 + (ends.1 - ends.0) * part
    }

    /// The values that have a line.
    var ticks: [Double] { decades.map { pow(10, Double($0)) } }
}
