import Foundation

/// The picture of the bytes of each day.
package enum WaysPlot {
    /// Draws the bytes of each way by day into a folder, and returns the paths.
    ///
    /// Results without days are left out.
    package static func write(_ results: [BenchResult], to folder: String) throws -> [String] {
        let daily = results.filter { !$0.dailyBytes.isEmpty }
        guard !daily.isEmpty else { return [] }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let plot = LinePlot(
            title: "Bytes of each day's sync, by the way of syncing",
            subtitle: "both ways, HTTP's own included; both axes logarithmic; \(daily[0].rows) rows",
            curves: daily.prefix(6).map { result in
                let points = result.dailyBytes.enumerated().map { day, bytes in
                    LinePlot.Point(x: Double(day + 1), y: Spread([Double(max(bytes, 1))]))
                }
                return LinePlot.Curve(name: String(result.name.prefix(14)), points: points)
            },
            xText: { "day \(Int($0))" },
            yText: { bytes in bytes < 1_000 ? "\(Int(bytes)) B" : "\(Int(bytes / 1_000)) kB" }
        )
        let path = "\(folder)/ways-bytes.svg"
        try Data(plot.svg.utf8).write(to: URL(filePath: path))
        return [path]
    }
}
