import Foundation

/// A few curves on logarithmic axes, as an SVG that suits light and dark pages.
struct LinePlot {
    /// One curve.
    struct Curve {
        let name: String
        let points: [Point]
    }

    /// A measured point: the median, and the least and greatest of all runs.
    struct Point {
        let x: Double
        let y: Spread
    }

    let title: String
    let subtitle: String
    let curves: [Curve]
    /// Names a value of the axis across.
    let xText: (Double) -> String
    /// Names a value of the axis upwards.
    let yText: (Double) -> String

    private let width = 760.0
    private let height = 460.0
    private let left = 84.0
    private let right = 120.0
    private let top = 72.0
    private let bottom = 52.0

    /// The colours of the curves on a light and on a dark page.
    ///
    /// Colour-blind people can tell them apart, and each curve has its name at its end.
    private static let colours = [
        ("#0060a8", "#62b5f0"), ("#c04a00", "#ff9552"), ("#007a5a", "#3fd2a4"), ("#a83a86", "#ee9ad0"),
        ("#7a6200", "#e6cf50"), ("#5b5bd6", "#a9a9ff"),
    ]

    /// The picture.
    var svg: String {
        let points = curves.flatMap(\.points)
        let x = LogAxis(points.map(\.x), from: left, to: width - right)
        let y = LogAxis(points.flatMap { [$0.y.min, $0.y.max] }, from: height - bottom, to: top)
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(n(width)) \(n(height))" \
            role="img" aria-label="\(escaped(title))">
            <style>\(style)</style>
            <rect class="page" width="\(n(width))" height="\(n(height))" rx="8"/>
            <text class="title" x="24" y="30">\(escaped(title))</text>
            <text class="note" x="24" y="50">\(escaped(subtitle))</text>
            \(grid(x, y))
            \(curves.indices.map { line($0, x: x, y: y) }.joined(separator: "\n"))
            \(names(y))
            </svg>

            """
    }

    // MARK: Parts

    private var style: String {
        func colours(_ pick: ((String, String)) -> String) -> String {
            Self.colours.enumerated().map { index, pair in
                let colour = pick(pair)
                return ".l\(index){stroke:\(colour)}.c\(index){fill:\(colour)}"
            }.joined()
        }
        return """

            text{font:13px system-ui,sans-serif;fill:#24292f}
            .title{font-size:16px;font-weight:600}.note,.tick{fill:#57606a;font-size:12px}
            .name{font-weight:600}.page{fill:#fff}.grid{stroke:#d8dee4}
            polyline{fill:none;stroke-width:2.5;stroke-linejoin:round}.ends{stroke-width:1.5}
            \(colours(\.0))
            @media (prefers-color-scheme:dark){
            text{fill:#e6edf3}.note,.tick{fill:#9198a1}.page{fill:#0d1117}.grid{stroke:#2b323b}
            \(colours(\.1))
            }

            """
    }

    private func grid(_ x: LogAxis, _ y: LogAxis) -> String {
        let least = n(left)
        let most = n(width - right)
        let rows = y.ticks.map { value in
            let place = y.place(value)
            return """
                <line class="grid" x1="\(least)" x2="\(most)" y1="\(n(place))" y2="\(n(place))"/>
                <text class="tick" x="\(n(left - 10))" y="\(n(place + 4))" \
                text-anchor="end">\(escaped(yText(value)))</text>
                """
        }
        let columns = x.ticks.map { value in
            let place = n(x.place(value))
            return """
                <line class="grid" x1="\(place)" x2="\(place)" y1="\(n(top))" \
                y2="\(n(height - bottom))"/>
                <text class="tick" x="\(place)" y="\(n(height - bottom + 22))" \
                text-anchor="middle">\(escaped(xText(value)))</text>
                """
        }
        return (rows + columns).joined(separator: "\n")
    }

    private func line(_ index: Int, x: LogAxis, y: LogAxis) -> String {
        let colour = index % Self.colours.count
        let points = curves[index].points
        let middle = points.map { "\(n(x.place($0.x))),\(n(y.place($0.y.median)))" }
        let marks = points.map { point in
            let across = n(x.place(point.x))
            let down = n(y.place(point.y.median))
            return """
                <line class="ends l\(colour)" x1="\(across)" x2="\(across)" \
                y1="\(n(y.place(point.y.min)))" y2="\(n(y.place(point.y.max)))"/>
                <circle class="c\(colour)" cx="\(across)" cy="\(down)" r="4"/>
                """
        }
        let path = "<polyline class=\"l\(colour)\" points=\"\(middle.joined(separator: " "))\"/>"
        return ([path] + marks).joined(separator: "\n")
    }

    /// The curves' names at their ends, none on top of another.
    private func names(_ y: LogAxis) -> String {
        let ends = curves.indices.compactMap { index in curves[index].points.last.map { (index, y.place($0.y.median)) }
        }.sorted { $0.1 < $1.1 }
        var floor = top
        return ends.map { index, wanted in
            let place = max(wanted, floor)
            floor = place + 17
            return """
                <text class="name c\(index % Self.colours.count)" x="\(n(width - right + 12))" \
                y="\(n(place + 4))">\(escaped(curves[index].name))</text>
                """
        }.joined(separator: "\n")
    }

    private func n(_ number: Double) -> String { String(format: "%g", (number * 10).rounded() / 10) }

    private func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing("\"", with: "&quot;")
    }
}
