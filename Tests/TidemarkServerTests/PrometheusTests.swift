import CoreMetrics
import Testing
import TidemarkCore
import TidemarkServer
import TidemarkEngine

/// The exporter, tested with an independent parser of the format.
@Suite struct PrometheusTests {
    @Test func `an idle server exports every metric without labels, at 0`() throws {
        let registry = PrometheusRegistry()
        _ = ServerMetrics(factory: registry)
        let page = try PrometheusPage(registry.text())
        // The server reads these from the machine when it is asked.
        let read: Set = [
            "process_resident_memory_bytes", "process_start_time_seconds", "tidemark_data_bytes",
            "tidemark_wal_bytes", "tidemark_disk_free_bytes", "tidemark_disk_size_bytes",
        ]
        for definition in ServerMetrics.definitions where definition.labels.isEmpty && !read.contains(definition.name) {
            switch definition.kind {
            case .histogram: #expect(page.value(definition.name + "_count") == 0)
            case .counter, .gauge: #expect(page.value(definition.name) == 0)
            }
        }
        #expect(page.value("tidemark_build_info", ["version": TidemarkVersion.current]) == 1)
        for definition in ServerMetrics.definitions where page.types[definition.name] != nil {
            #expect(page.help[definition.name] == definition.help)
        }
    }

    @Test func `counters never decrease, whatever is recorded`() throws {
        let registry = PrometheusRegistry([])
        let counter = Counter(label: "a_total", factory: registry)
        counter.increment(by: 5)
        counter.increment(by: -3)
        #expect(try PrometheusPage(registry.text()).value("a_total") == 5)
        counter.reset()
        #expect(try PrometheusPage(registry.text()).value("a_total") == 5)
        counter.increment(by: Int64.max)
        #expect(try PrometheusPage(registry.text()).value("a_total") == Double(Int64.max))
    }

    @Test func `gauges go up and down, and may be any double`() throws {
        let registry = PrometheusRegistry([])
        let meter = Meter(label: "m", factory: registry)
        meter.increment(by: 3)
        meter.decrement(by: 0.5)
        Gauge(label: "inf", factory: registry).record(-Double.infinity)
        Gauge(label: "tiny", factory: registry).record(1e-9)
        let page = try PrometheusPage(registry.text())
        #expect(page.value("m") == 2.5)
        #expect(page.value("inf") == -.infinity)
        #expect(page.value("tiny") == 1e-9)
    }

    @Test func `a histogram counts each value in every bucket that includes it`() throws {
        let bounds = MetricDefinition.Kind.histogram(bounds: [0.1, 1, 10])
        let registry = PrometheusRegistry([MetricDefinition("seconds", bounds, labels: ["route"], help: "Help.")])
        let timer = Timer(label: "seconds", dimensions: [("route", "/x")], factory: registry)
        for milliseconds in [50, 100, 101, 2_000, 60_000] { timer.recordMilliseconds(milliseconds) }
        let page = try PrometheusPage(registry.text())
        for (bound, count) in [("0.1", 2.0), ("1", 3), ("10", 4), ("+Inf", 5)] {
            #expect(page.value("seconds_bucket", ["route": "/x", "le": bound]) == count)
        }
        let sum = try #require(page.value("seconds_sum", ["route": "/x"]))
        #expect(abs(sum - 62.251) < 1e-9)
    }

    @Test func `names and labels of other libraries are converted to valid ones`() throws {
        let registry = PrometheusRegistry([])
        let nasty = "quote \" slash \\ line \n end"
        Counter(
            label: "http.server-requests_total",
            dimensions: [("path.of", nasty), ("__name", "x"), ("1", "y"), ("le", "z"), ("1", "2")], factory: registry
        ).increment()
        let page = try PrometheusPage(registry.text())
        let labels = ["path_of": nasty, "x__name": "x", "_1": "y"]
        #expect(page.value("http_server_requests_total", labels) == 1)
        #expect(page.help["http_server_requests_total"] == "No description.")
    }

    @Test func `help text with a line break is one line`() throws {
        let registry = PrometheusRegistry([MetricDefinition("a_total", .counter, help: "One\ntwo \\ three.")])
        Counter(label: "a_total", factory: registry).increment()
        #expect(try PrometheusPage(registry.text()).help["a_total"] == #"One\ntwo \\ three."#)
    }

    @Test func `a label with a value for every client does not exhaust memory`() throws {
        let registry = PrometheusRegistry([])
        for number in 0..<(PrometheusRegistry.seriesMax + 500) {
            Counter(label: "a_total", dimensions: [("client", "\(number)")], factory: registry).increment()
        }
        #expect(try PrometheusPage(registry.text()).samples.count == PrometheusRegistry.seriesMax)
    }

    @Test func `one name has one kind of metric, and a second kind does not break the page`() throws {
        let registry = PrometheusRegistry([])
        Counter(label: "a_total", factory: registry).increment()
        Timer(label: "a_total", factory: registry).recordSeconds(1)
        Gauge(label: "a_total", dimensions: [("x", "y")], factory: registry).record(7)
        let page = try PrometheusPage(registry.text())
        #expect(page.samples.count == 1)
        #expect(page.value("a_total") == 1)
    }

    @Test func `a destroyed metric disappears from the page`() throws {
        let registry = PrometheusRegistry([])
        let counter = Counter(label: "a_total", factory: registry)
        counter.increment()
        counter.destroy()
        #expect(registry.text() == "")
    }

    @Test func `labels of the server's own metrics are few and fixed`() {
        let labels = Set(ServerMetrics.definitions.flatMap(\.labels))
        #expect(labels == ["route", "status", "code", "version"])
        #expect(!ServerMetrics.definitions.map(\.name).contains { $0.contains("zone") })
    }
}
