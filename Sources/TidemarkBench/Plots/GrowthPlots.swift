import Foundation

/// The pictures of the growth curves.
package enum GrowthPlots {
    /// Draws times and bytes for each growing quantity into a folder, and returns the paths.
    ///
    /// Results without a curve are left out.
    package static func write(_ results: [BenchResult], to folder: String) throws -> [String] {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        return try BenchCase.Point.Axis.allCases.flatMap { axis in
            let axisResults = results.filter { $0.point?.axis == axis }
            guard !axisResults.isEmpty else { return [String]() }
            return try [("time", times(axisResults, axis)), ("bytes", bytes(axisResults, axis))].map {
                let path = "\(folder)/growth-\(axis.rawValue)-\($0.0).svg"
                try Data($0.1.svg.utf8).write(to: URL(filePath: path))
                return path
            }
        }
    }

    private static func times(_ results: [BenchResult], _ axis: BenchCase.Point.Axis) -> LinePlot {
        LinePlot(
            title: "Time against the \(axis.rawValue) of the zone",
            subtitle: "medians, least to most, of latency to p99; both axes logarithmic; \(results[0].store)",
            curves: curves(results) { result in
                // For many small jobs in one run, the time of one.
                guard let p50 = result.p50, let p99 = result.p99 else { return result.seconds }
                return Spread([p50, p50, p99])
            },
            xText: { count($0) + " \(axis.rawValue)" },
            yText: { decimal($0 * 1_000_000, ["µs", "ms", "s", "ks"]) }
        )
    }

    private static func bytes(_ results: [BenchResult], _ axis: BenchCase.Point.Axis) -> LinePlot {
        LinePlot(
            title: "Bytes against the \(axis.rawValue) of the zone",
            subtitle: "both ways, HTTP's own included; both axes logarithmic; \(results[0].store)",
            curves: curves(results) { result in result.wire.map { Spread([Double($0.bytesUp + $0.bytesDown)]) } },
            xText: { count($0) + " \(axis.rawValue)" }, yText: { decimal($0, ["B", "kB", "MB", "GB", "TB"]) })
    }

    private static func curves(_ results: [BenchResult], _ value: (BenchResult) -> Spread?) -> [LinePlot.Curve] {
        var names: [String] = []
        for case let name? in results.map(\.curve) where !names.contains(name) { names.append(name) }
        return names.map { name in
            let points = results.filter { $0.curve == name }.compactMap { result in
                value(result).flatMap { y in result.point.map { LinePlot.Point(x: Double($0.value), y: y) } }
            }
            return LinePlot.Curve(name: name, points: points.sorted { $0.x < $1.x })
        }
    }

    /// A power of ten in its largest unit.
    private static func decimal(_ number: Double, _ units: [String]) -> String {
        var number = number
        var units = units[...]
        while number > 999, units.count > 1 {
            number /= 1_000
            units.removeFirst()
        }
        return String(format: "%g ", number) + (units.first ?? "")
    }

    /// 10000 as 10,000.
    private static func count(_ number: Double) -> String {
        var digits = Array(String(Int(number)))
        var text = ""
        while digits.count > 3 {
            text = "," + String(digits.suffix(3)) + text
            digits.removeLast(3)
        }
        return String(digits) + text
    }
}
