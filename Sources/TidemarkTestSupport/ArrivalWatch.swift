public import CoreMetrics

/// Tells when a request waits for a store's next commit, by the metric that counts them.
///
/// ```swift
/// let arrivals = ArrivalWatch()
/// let store = try EmbeddedStore(..., metrics: ServerMetrics(factory: arrivals))
/// ```
public final class ArrivalWatch: MetricsFactory {
    private let arrivals = AsyncStream.makeStream(of: Void.self)

    /// Makes a watch.
    public init() {}

    /// Returns once another request waits.
    public func next() async { for await _ in arrivals.stream { break } }

    /// Makes the meter of waiting requests, which signals this watch.
    ///
    /// Any other meter is discarded.
    public func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        guard label == "tidemark_requests_waiting" else { return NOOPMetricsHandler.instance }
        return Door(arrivals: arrivals.continuation)
    }

    private final class Door: MeterHandler {
        let arrivals: AsyncStream<Void>.Continuation

        init(arrivals: AsyncStream<Void>.Continuation) { self.arrivals = arrivals }

        func increment(by amount: Double) { arrivals.yield() }
        func decrement(by amount: Double) {}
        func set(_ value: Int64) {}
        func set(_ value: Double) {}
    }

    /// Discards the counter.
    public func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        NOOPMetricsHandler.instance
    }

    /// Discards the recorder.
    public func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        NOOPMetricsHandler.instance
    }

    /// Discards the timer.
    public func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        NOOPMetricsHandler.instance
    }

    /// Does nothing.
    public func destroyCounter(_ handler: any CounterHandler) {}
    /// Does nothing.
    public func destroyMeter(_ handler: any MeterHandler) {}
    /// Does nothing.
    public func destroyRecorder(_ handler: any RecorderHandler) {}
    /// Does nothing.
    public func destroyTimer(_ handler: any TimerHandler) {}
}
