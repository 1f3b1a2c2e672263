import Foundation
import Testing

/// A strict parser of Prometheus's text format.
struct PrometheusPage {
    /// One line with a number.
    struct Sample {
        let name: String
        let labels: [String: String]
        let value: Double
    }

    /// The fault of a page.
    struct Malformed: Error, CustomStringConvertible {
        let line: Substring
        let reason: String
        var description: String { "\(reason): \(line)" }
    }

    private(set) var samples: [Sample] = []
    private(set) var types: [String: String] = [:]
    private(set) var help: [String: String] = [:]

    init(_ text: String) throws {
        guard text.isEmpty || text.hasSuffix("\n") else {
            throw Malformed(line: text.suffix(50), reason: "the last line has no end")
        }
        var finished: Set<String> = []
        var current = ""
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
            if line.hasPrefix("#") {
                let family = try comment(line)
                if family != current { finished.insert(current) }
                guard !finished.contains(family) else {
                    throw Malformed(line: line, reason: "a metric stands in two places")
                }
                current = family
            } else {
                let sample = try Self.sample(line)
                guard family(of: sample) == current else {
                    throw Malformed(line: line, reason: "a sample under another metric's head")
                }
                samples.append(sample)
            }
        }
        try checkOnce()
        try checkHistograms()
    }

    /// The value under a name and labels.
    func value(_ name: String, _ labels: [String: String] = [:]) -> Double? {
        samples.first { $0.name == name && $0.labels == labels }?.value
    }

    // MARK: Lines

    private mutating func comment(_ line: Substring) throws -> String {
        guard let match = line.wholeMatch(of: /# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)/) else {
            throw Malformed(line: line, reason: "neither HELP nor TYPE")
        }
        let name = String(match.output.2)
        let rest = String(match.output.3)
        if match.output.1 == "HELP" {
            guard help[name] == nil, types[name] == nil, rest.wholeMatch(of: Self.helpText) != nil else {
                throw Malformed(line: line, reason: "HELP twice, late, or not escaped")
            }
            help[name] = rest
        } else {
            guard types[name] == nil, ["counter", "gauge", "histogram"].contains(rest) else {
                throw Malformed(line: line, reason: "TYPE twice, or unknown")
            }
            types[name] = rest
        }
        return name
    }

    nonisolated(unsafe) private static let helpText = /(?:[^\\]|\\\\|\\n)*/

    private static func sample(_ line: Substring) throws -> Sample {
        let shape = /([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)/
        guard let match = line.wholeMatch(of: shape), let value = number(match.output.3) else {
            throw Malformed(line: line, reason: "no sample")
        }
        var labels = [String: String]()
        var rest = match.output.2 ?? ""
        while !rest.isEmpty {
            let pair = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\\\|\\n|\\")*)"(?:,|$)/
            guard let label = rest.prefixMatch(of: pair), !label.output.1.hasPrefix("__"),
                labels.updateValue(unescaped(label.output.2), forKey: String(label.output.1)) == nil
            else { throw Malformed(line: line, reason: "a label that is none, or twice") }
            rest = rest[label.range.upperBound...]
        }
        return Sample(name: String(match.output.1), labels: labels, value: value)
    }

    private static func number(_ text: Substring) -> Double? {
        switch text {
        case "+Inf": .infinity
        case "-Inf": -.infinity
        case "NaN": .nan
        default: text.wholeMatch(of: /-?[0-9.]+(?:e[-+]?[0-9]+)?/).flatMap { Double($0.output) }
        }
    }

    private static func unescaped(_ text: Substring) -> String {
        var result = ""
        var isEscape = false
        for character in text {
            if isEscape {
                result.append(character == "n" ? "\n" : character)
                isEscape = false
            } else if character == "\\" {
                isEscape = true
            } else {
                result.append(character)
            }
        }
        return result
    }

    // MARK: Families

    /// The metric of a sample: that of its name, or of its name without the ending.
    private func family(of sample: Sample) -> String? {
        if let type = types[sample.name] { return type == "histogram" ? nil : sample.name }
        for ending in ["_bucket", "_sum", "_count"] where sample.name.hasSuffix(ending) {
            let name = String(sample.name.dropLast(ending.count))
            if types[name] == "histogram" { return name }
        }
        return nil
    }

    private func checkOnce() throws {
        let keys = samples.map { "\($0.name) \($0.labels.sorted { $0.key < $1.key })" }
        guard Set(keys).count == keys.count, Set(types.keys) == Set(help.keys) else {
            throw Malformed(line: "", reason: "a sample twice, or HELP without TYPE")
        }
        for (name, type) in types where (type == "counter") != name.hasSuffix("_total") {
            throw Malformed(line: Substring(name), reason: "counters, and they alone, are totals")
        }
        for sample in samples where types[sample.name] == "counter" && sample.value < 0 {
            throw Malformed(line: Substring(sample.name), reason: "a counter below 0")
        }
    }

    private func checkHistograms() throws {
        for (name, type) in types where type == "histogram" {
            let buckets = samples.filter { $0.name == name + "_bucket" }
            let series = Dictionary(grouping: buckets) { bucket in bucket.labels.filter { $0.key != "le" } }
            for (labels, buckets) in series {
                let bounds = buckets.compactMap { $0.labels["le"].flatMap { Self.number($0[...]) } }
                let counts = buckets.map(\.value)
                guard bounds.count == buckets.count, bounds == bounds.sorted(), counts == counts.sorted(),
                    bounds.last == .infinity, counts.last == value(name + "_count", labels),
                    value(name + "_sum", labels) != nil
                else { throw Malformed(line: Substring(name), reason: "no histogram") }
            }
            let counts = samples.filter { $0.name == name + "_count" }
            guard counts.count == series.count else {
                throw Malformed(line: Substring(name), reason: "counts without buckets")
            }
        }
    }
}
