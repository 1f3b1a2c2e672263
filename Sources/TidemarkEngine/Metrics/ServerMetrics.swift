public import CoreMetrics
package import TidemarkCore

/// The server's metrics, recorded through swift-metrics.
///
/// The program that bootstraps swift-metrics decides where the numbers go. `tidemark serve` exports
/// them at `GET /metrics`. Safe to use from any task.
public struct ServerMetrics: Sendable {
    /// The definitions of all metrics.
    public static let definitions: [MetricDefinition] = [
        .pushes, .conflicts, .repeats, .refusals, .requests, .inFlight, .memory, .memoryRefusals, .lag, .waiting,
        .groupSize, .commits, .failedCommits, .damagedLogs, .cacheHits, .cacheMisses, .sharedHits, .sharedMisses,
        .listeners, .residentMemory, .startTime, .dataSize, .unmergedBytes, .diskFree, .diskSize, .build,
    ]

    private let factory: any MetricsFactory
    private let inFlight: Meter
    private let memory: Meter
    private let memoryRefusals: Counter
    private let waiting: Meter
    private let listeners: Meter
    private let cacheHits: Counter
    private let cacheMisses: Counter
    private let sharedHits: Counter
    private let sharedMisses: Counter
    private let pushes: Counter
    private let conflicts: Counter
    private let repeats: Counter
    private let failedCommits: Counter
    private let damagedLogs: Counter
    private let lag: Recorder
    private let groupSize: Recorder
    private let commits: Timer

    /// Creates the instruments; those without labels are exported at 0 from now on.
    ///
    /// The default factory is the one that the process was bootstrapped with.
    public init(factory: any MetricsFactory = MetricsSystem.factory) {
        self.factory = factory
        func counter(_ definition: MetricDefinition) -> Counter { Counter(label: definition.name, factory: factory) }
        func gauge(_ definition: MetricDefinition) -> Meter { Meter(label: definition.name, factory: factory) }
        inFlight = gauge(.inFlight)
        waiting = gauge(.waiting)
        listeners = gauge(.listeners)
        memory = gauge(.memory)
        memoryRefusals = counter(.memoryRefusals)
        cacheHits = counter(.cacheHits)
        cacheMisses = counter(.cacheMisses)
        sharedHits = counter(.sharedHits)
        sharedMisses = counter(.sharedMisses)
        pushes = counter(.pushes)
        conflicts = counter(.conflicts)
        repeats = counter(.repeats)
        failedCommits = counter(.failedCommits)
        damagedLogs = counter(.damagedLogs)
        lag = Recorder(label: MetricDefinition.lag.name, factory: factory)
        groupSize = Recorder(label: MetricDefinition.groupSize.name, factory: factory)
        commits = Timer(label: MetricDefinition.commits.name, factory: factory)
        Meter(label: MetricDefinition.build.name, dimensions: [("version", TidemarkVersion.current)], factory: factory)
            .set(1)
    }

    /// Counts a damaged log entry.
    package func recordDamagedLog() { damagedLogs.increment() }

    /// Changes the number of requests in flight.
    package func changeInFlight(by count: Int) { inFlight.change(by: count) }

    /// Changes the number of bytes accounted to requests and answers in flight.
    package func changeMemory(by bytes: Int) { memory.change(by: bytes) }

    /// Counts a request that was refused for lack of memory.
    package func recordMemoryRefusal() { memoryRefusals.increment() }

    /// Sets the number of listeners.
    func setListeners(_ count: Int) { listeners.set(count) }

    /// Counts a request for news as a hit or a miss of the cache in memory.
    package func recordLookup(isHit: Bool) { (isHit ? cacheHits : cacheMisses).increment() }

    /// Records how far behind a device was that the cache in memory answered.
    package func recordPull(lag revisions: Int64) { lag.record(revisions) }

    /// Counts a load of change sets as a hit or a miss of the shared cache.
    package func recordSharedLookup(isHit: Bool) { (isHit ? sharedHits : sharedMisses).increment() }

    /// Changes the number of requests that wait for a commit of their zone.
    func changeWaiting(by count: Int) { waiting.change(by: count) }

    /// Records an answered or abandoned request; `status` is `gone` when its client disconnected.
    package func recordAnswer(route: String, status: String, in duration: Duration) {
        Timer(
            label: MetricDefinition.requests.name,
            dimensions: [("route", route), ("status", status)],
            factory: factory
        ).recordNanoseconds(duration.nanoseconds)
    }

    /// Counts a request that was answered with an error.
    package func recordRefusal(_ code: ErrorCode) {
        Counter(label: MetricDefinition.refusals.name, dimensions: [("code", code.rawValue)], factory: factory)
            .increment()
    }

    /// Records the end of a group's transaction.
    func recordCommit(_ result: Result<[ZoneResult], any Error>, in duration: Duration) {
        guard case .success(let results) = result else {
            failedCommits.increment()
            return
        }
        commits.recordNanoseconds(duration.nanoseconds)
        groupSize.record(results.count)
        for case .success(let answer) in results { answer.tally.map(count) }
    }

    private func count(_ tally: SyncTally) {
        pushes.increment(by: tally.accepted)
        conflicts.increment(by: tally.conflicts)
        repeats.increment(by: tally.repeats)
        if let behind = tally.lag { lag.record(behind) }
    }
}

extension Meter {
    fileprivate func change(by count: Int) {
        if count > 0 { increment(by: Double(count)) } else { decrement(by: Double(-count)) }
    }
}

extension Duration {
    fileprivate var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
