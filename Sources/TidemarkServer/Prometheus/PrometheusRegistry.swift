public import CoreMetrics
internal import Synchronization
public import TidemarkEngine

/// Collects the metrics of swift-metrics, and renders them for `GET /metrics`.
///
/// ```swift
/// let registry = PrometheusRegistry()
/// MetricsSystem.bootstrap(registry)
/// let application = TidemarkServerApplication(..., exposition: registry.text)
/// ```
///
/// It also exports metrics of other libraries in the process, under names that Prometheus allows. The
/// memory is bounded: a metric has at most ``seriesMax`` sets of labels, and the registry does not
/// export further ones. Safe to use from any task.
public final class PrometheusRegistry: MetricsFactory {
    /// The most sets of labels of one metric.
    public static let seriesMax = 1_000

    private struct Label: Hashable, Comparable {
        let name: String
        let value: String

        static func < (one: Label, other: Label) -> Bool { (one.name, one.value) < (other.name, other.value) }
    }

    private struct Family {
        let definition: MetricDefinition
        var series: [[Label]: any PrometheusSeries] = [:]
    }

    private static let durationBounds: [Double] = [0.001, 0.01, 0.1, 1, 10, 100]
    private static let otherBounds: [Double] = [1, 10, 100, 1_000, 10_000, 100_000]
    private let families: Mutex<[String: Family]>

    /// Creates a registry with definitions of some metrics.
    public init(_ definitions: [MetricDefinition] = ServerMetrics.definitions) {
        let families = definitions.map { ($0.name, Family(definition: $0)) }
        self.families = Mutex(Dictionary(families, uniquingKeysWith: { first, _ in first }))
    }

    /// Renders all metrics with at least one sample, sorted by name.
    @Sendable public func text() -> String {
        let families = families.withLock { $0 }
        return families.sorted { $0.key < $1.key }.filter { !$0.value.series.isEmpty }.map { Self.text(of: $0.value) }
            .joined()
    }

    private static func text(of family: Family) -> String {
        let definition = family.definition
        let type =
            switch definition.kind {
            case .counter: "counter"
            case .gauge: "gauge"
            case .histogram: "histogram"
            }
        let series = family.series.sorted { $0.key.lexicographicallyPrecedes($1.key) }
        return PrometheusText.head(definition.name, type: type, help: definition.help)
            + series.map { labels, series in series.lines(definition.name, labels.map { ($0.name, $0.value) }) }
            .joined()
    }

    // MARK: Making instruments

    /// Creates a counter.
    public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        series(label, dimensions: dimensions, kind: .counter) { _ in PrometheusCounter() }
    }

    /// Creates a gauge that counts up and down.
    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(label, dimensions: dimensions, kind: .gauge) { _ in PrometheusGauge() }
    }

    /// Creates a histogram, or a gauge if `aggregate` is false.
    public func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        guard aggregate else { return series(label, dimensions: dimensions, kind: .gauge) { _ in PrometheusGauge() } }
        let kind = MetricDefinition.Kind.histogram(bounds: Self.otherBounds)
        return series(label, dimensions: dimensions, kind: kind, make: Self.histogram)
    }

    /// Creates a histogram of seconds.
    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        let kind = MetricDefinition.Kind.histogram(bounds: Self.durationBounds)
        return series(label, dimensions: dimensions, kind: kind, make: Self.histogram)
    }

    private static func histogram(_ kind: MetricDefinition.Kind) -> PrometheusHistogram {
        guard case .histogram(let bounds) = kind else { return PrometheusHistogram(bounds: []) }
        return PrometheusHistogram(bounds: bounds)
    }

    /// Returns the instrument with a name and labels, or creates one.
    private func series<Series: PrometheusSeries>(
        _ label: String, dimensions: [(String, String)], kind: MetricDefinition.Kind,
        make: (MetricDefinition.Kind) -> Series
    ) -> Series {
        let name = PrometheusText.metricName(label)
        let labels = Self.labels(dimensions)
        return families.withLock { families in
            let definition = families[name]?.definition ?? MetricDefinition(name, kind, help: "No description.")
            var family = families[name] ?? Family(definition: definition)
            if let existing = family.series[labels] as? Series { return existing }
            let instrument = make(definition.kind)
            // If the name is taken by another kind, return a detached instrument that is never exported.
            guard family.series[labels] == nil, definition.kind.isSame(as: kind), family.series.count < Self.seriesMax
            else { return instrument }
            family.series[labels] = instrument
            families[name] = family
            return instrument
        }
    }

    /// Returns sorted labels with unique names, without `le`, which histograms use.
    private static func labels(_ dimensions: [(String, String)]) -> [Label] {
        let pairs = dimensions.map { (PrometheusText.labelName($0), $1) }.filter { $0.0 != "le" }
        return Dictionary(pairs, uniquingKeysWith: { first, _ in first }).map { Label(name: $0, value: $1) }.sorted()
    }

    // MARK: Forgetting instruments

    /// Forgets a counter.
    public func destroyCounter(_ handler: any CounterHandler) { forget(handler) }
    /// Forgets a gauge.
    public func destroyMeter(_ handler: any MeterHandler) { forget(handler) }
    /// Forgets a histogram or a gauge.
    public func destroyRecorder(_ handler: any RecorderHandler) { forget(handler) }
    /// Forgets a histogram of seconds.
    public func destroyTimer(_ handler: any TimerHandler) { forget(handler) }

    private func forget(_ handler: AnyObject) {
        families.withLock { families in
            for (name, family) in families {
                for (labels, series) in family.series where series === handler { families[name]?.series[labels] = nil }
            }
        }
    }
}

extension MetricDefinition.Kind {
    /// Whether both are counters, gauges or histograms; ignores bounds.
    fileprivate func isSame(as other: MetricDefinition.Kind) -> Bool {
        switch (self, other) {
        case (.counter, .counter), (.gauge, .gauge), (.histogram, .histogram): true
        default: false
        }
    }
}

/// One metric with one set of labels.
protocol PrometheusSeries: AnyObject, Sendable {
    func lines(_ name: String, _ labels: [(String, String)]) -> String
}

/// A number that only grows.
final class PrometheusCounter: PrometheusSeries, CounterHandler {
    private let value = Mutex<Int64>(0)

    func increment(by amount: Int64) {
        guard amount > 0 else { return }
        value.withLock { value in
            let (sum, isTooMuch) = value.addingReportingOverflow(amount)
            value = isTooMuch ? .max : sum
        }
    }

    /// Does nothing, because Prometheus takes a smaller counter for a restarted process.
    func reset() {}

    func lines(_ name: String, _ labels: [(String, String)]) -> String {
        PrometheusText.sample(name, labels: labels, value: "\(value.withLock { $0 })")
    }
}

/// A number that goes up and down.
final class PrometheusGauge: PrometheusSeries, MeterHandler, RecorderHandler {
    private let value = Mutex(0.0)

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { self.value.withLock { $0 = value } }
    func increment(by amount: Double) { value.withLock { $0 += amount } }
    func decrement(by amount: Double) { value.withLock { $0 -= amount } }
    func record(_ value: Int64) { set(value) }
    func record(_ value: Double) { set(value) }

    func lines(_ name: String, _ labels: [(String, String)]) -> String {
        PrometheusText.sample(name, labels: labels, value: PrometheusText.number(value.withLock { $0 }))
    }
}

/// Counts values up to each bound.
final class PrometheusHistogram: PrometheusSeries, RecorderHandler, TimerHandler {
    private struct State {
        /// The count of values between each bound and the previous one; the last is above all bounds.
        var counts: [Int64]
        var sum = 0.0
    }

    private let bounds: [Double]
    private let state: Mutex<State>

    init(bounds: [Double]) {
        self.bounds = bounds
        state = Mutex(State(counts: Array(repeating: 0, count: bounds.count + 1)))
    }

    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        guard !value.isNaN else { return }
        let index = bounds.firstIndex { value <= $0 } ?? bounds.count
        state.withLock { state in
            state.counts[index] += 1
            state.sum += value
        }
    }

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }

    func lines(_ name: String, _ labels: [(String, String)]) -> String {
        let state = state.withLock { $0 }
        var text = ""
        var count = Int64(0)
        for (bound, number) in zip(bounds + [.infinity], state.counts) {
            count += number
            text += PrometheusText.sample(
                "\(name)_bucket", labels: labels + [("le", PrometheusText.number(bound))], value: "\(count)")
        }
        text += PrometheusText.sample("\(name)_sum", labels: labels, value: PrometheusText.number(state.sum))
        return text + PrometheusText.sample("\(name)_count", labels: labels, value: "\(count)")
    }
}

/// The text format of Prometheus, version 0.0.4 (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
enum PrometheusText {
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    /// Renders the two lines above a metric's samples.
    static func head(_ name: String, type: String, help: String) -> String {
        "# HELP \(name) \(escape(help, quotes: false))\n# TYPE \(name) \(type)\n"
    }

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
