import Foundation

/// Results as people read them.
package enum BenchTable {
    /// The heads of the columns.
    private static let heads = [
        "job", "ours", "(min to max)", "ceiling", "(min to max)", "ratio", "p50", "p99", "its p99", "requests",
        "up, down in bytes", "peak MiB", "also", "goal", "",
    ]
    /// The columns that are aligned to the right.
    private static let right: Set<Int> = [1, 3, 5, 6, 7, 8, 9, 10, 11]

    /// The rows of a table, its heads first, and the columns that are aligned to the right.
    ///
    /// Empty columns are left out.
    package static func rows(_ results: [BenchResult]) -> (rows: [[String]], right: Set<Int>) {
        let cells = results.map(row)
        let used = heads.indices.filter { column in cells.contains { !$0[column].isEmpty } }
        let rows = ([heads] + cells).map { row in used.map { row[$0] } }
        return (rows, Set(used.indices.filter { right.contains(used[$0]) }))
    }

    /// The lines below a table: the ceilings of the jobs.
    package static func notes(_ results: [BenchResult]) -> [String] {
        let named = results.filter { !$0.ceiling.isEmpty }
        guard let first = named.first else { return [] }
        if Set(named.map(\.ceiling)).count == 1 { return ["beside: \(first.ceiling)"] }
        return named.map { "\($0.name) beside: \($0.ceiling)" }
    }

    private static func row(_ result: BenchResult) -> [String] {
        [
            result.name, Figure.Unit.time(result.seconds.median), ends(result.seconds),
            result.ceilingSeconds.map { Figure.Unit.time($0.median) } ?? "", result.ceilingSeconds.map(ends) ?? "",
            result.ratio.map { String(format: "%.2f", $0) } ?? "", result.p50.map(Figure.Unit.time) ?? "",
            result.p99.map(Figure.Unit.time) ?? "", result.ceilingP99.map(Figure.Unit.time) ?? "",
            result.wire.map { "\($0.requests)" } ?? "", result.wire.map { "\($0.bytesUp), \($0.bytesDown)" } ?? "",
            result.peakMemory.map { "\($0 >> 20)" } ?? "",
            result.figures.map { "\($0.name) \($0.unit.text($0.value))" }.joined(separator: ", "), result.goal,
            result.isMet.map { $0 ? "met" : "missed" } ?? "",
        ]
    }

    private static func ends(_ spread: Spread) -> String {
        "(\(Figure.Unit.time(spread.min)) to \(Figure.Unit.time(spread.max)))"
    }
}
