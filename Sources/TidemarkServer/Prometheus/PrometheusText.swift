/// The text format of Prometheus, version 0.0.4
/// (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
enum PrometheusText {
    /// The content type of this format.
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// Renders the two lines above a metric's samples.
    static func head(_ name: String, type: String, help: String) -> String {
        "# HELP \(name) \(escape(help, quotes: false))\n# TYPE \(name) \(type)\n"
    }

    /// Renders one sample.
    static func sample(_ name: String, labels: [(String, String)], value: String) -> String {
        guard !labels.isEmpty else { return "\(name) \(value)\n" }
        let pairs = labels.map { "\($0)=\"\(escape($1, quotes: true))\"" }
        return "\(name){\(pairs.joined(separator: ","))} \(value)\n"
    }

    /// Renders a number in Go's syntax.
    static func number(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value > 0 ? "+Inf" : "-Inf" }
        return Int64(exactly: value).map(String.init) ?? "\(value)"
    }

    /// Replaces characters that a metric's name may not have.
    static func metricName(_ text: String) -> String { name(text) { $0 == "_" || $0 == ":" } }

    /// Replaces characters that a label's name may not have; Prometheus reserves the prefix `__`.
    static func labelName(_ text: String) -> String {
        let name = name(text) { $0 == "_" }
        return name.hasPrefix("__") ? "x" + name : name
    }

    private static func name(_ text: String, allowing mark: (Character) -> Bool) -> String {
        let name = String(text.map { $0.isASCII && ($0.isLetter || $0.isNumber) || mark($0) ? $0 : "_" })
        guard let first = name.first, !first.isNumber else { return "_" + name }
        return name
    }

    private static func escape(_ text: String, quotes: Bool) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where quotes: result += "\\\""
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}
