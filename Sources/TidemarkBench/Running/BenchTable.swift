import Foundation

/// Results as people read them.
package enum BenchTable {
    /// The heads of the columns.
    package static let heads = [
        "benchmark", "job", "ours", "(min to max)", "ceiling", "(min to max)", "ratio", "p50",
        "p99",
        "its p99", "requests", "bytes up, down", "peak MiB", "goal", "",
    ]
    /// The columns that are aligned to the right.
    package static let right: Set<Int> = [2, 4, 6, 7, 8, 9, 10, 11, 12]

    /// The cells of a result.
    package static func row(_ result: BenchResult) -> [String] {
        [
            result.benchmark, result.name, time(result.seconds.median), ends(result.seconds),
            result.ceilingSeconds.map { time($0.median) } ?? "",
            result.ceilingSeconds.map(ends) ?? "",
            result.ratio.map { String(format: "%.2f", $0) } ?? "",
            result.p50.map(time) ?? "", result.p99.map(time) ?? "",
            result.ceilingP99.map(time) ?? "", result.wire.map { "\($0.requests)" } ?? "",
            result.wire.map { "\($0.bytesUp), \($0.bytesDown)" } ?? "",
            result.peakMemory.map { "\($0 >> 20)" } ?? "", result.goal,
            result.isMet.map { $0 ? "met" : "missed" } ?? "",
        ]
    }

    private static func ends(_ spread: Spread) -> String {
        "(\(time(spread.min)) to \(time(spread.max)))"
    }

    /// A time in the unit that suits it.
    static func time(_ seconds: Double) -> String {
        switch seconds {
        case ..<0.001: String(format: "%.0f µs", seconds * 1_000_000)
        case ..<1: String(format: "%.1f ms", seconds * 1_000)
        default: String(format: "%.2f s", seconds)
        }
    }
}
