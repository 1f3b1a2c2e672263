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
        _ label: String,
        dimensions: [(String, String)],
        kind: MetricDefinition.Kind,
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
