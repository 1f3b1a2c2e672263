public import CoreMetrics
public import TidemarkCore

/// What a server tells about itself through swift-metrics.
///
/// Where the numbers go is decided by whoever bootstraps swift-metrics: `tidemark serve` keeps
/// them for `GET /metrics`. Safe to use from any task.
public struct ServerMetrics: Sendable {
    /// Every metric there is: the one table of them.
    public static let definitions: [MetricDefinition] = [
        .pushes, .conflicts, .repeats, .refusals, .requests, .inFlight, .memory, .memoryRefusals, .lag, .waiting,
        .groupSize, .commits, .failedCommits, .damagedLogs, .cacheHits, .cacheMisses, .sharedHits, .sharedMisses,
        .listeners, .build,
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

    /// Makes the instruments; those without labels are there from now on, at 0.
    ///
    /// The factory is the one that the process was bootstrapped with, unless another is given.
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

    /// An entry of a log was found damaged.
    public func foundDamagedLog() { damagedLogs.increment() }

    /// So many requests more, or fewer, are being answered.
    public func inFlight(changedBy count: Int) { inFlight.change(by: count) }

    /// Requests and answers in flight are counted for so many bytes more, or fewer.
    public func memory(changedBy bytes: Int) { memory.change(by: bytes) }

    /// A request was refused because there was no memory left for it.
    public func refusedForMemory() { memoryRefusals.increment() }

    /// So many connections are told of new revisions.
    func listeners(_ count: Int) { listeners.set(count) }

    /// A request for news was answered from memory, or not at once.
    public func lookedUp(isHit: Bool) { (isHit ? cacheHits : cacheMisses).increment() }

    /// A device that was so many revisions behind got them without a transaction.
    public func pulled(lag revisions: Int64) { lag.record(revisions) }

    /// Change sets were loaded from the cache that nodes share, or had to be read from the store.
    public func shared(isHit: Bool) { (isHit ? sharedHits : sharedMisses).increment() }

    /// So many requests more, or fewer, wait for a commit of their zone.
    func waiting(changedBy count: Int) { waiting.change(by: count) }

    /// A request was answered, or given up: `status` is `gone` when its client went away.
    public func answered(route: String, status: String, in duration: Duration) {
        Timer(
            label: MetricDefinition.requests.name,
            dimensions: [("route", route), ("status", status)],
            factory: factory
        ).recordNanoseconds(duration.nanoseconds)
    }

    /// A request was answered with an error.
    public func refused(_ code: ErrorCode) {
        Counter(label: MetricDefinition.refusals.name, dimensions: [("code", code.rawValue)], factory: factory)
            .increment()
    }

    /// A group's transaction has ended.
    func committed(_ result: Result<[Result<ZoneAnswer, any Error>], any Error>, in duration: Duration) {
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
        repeats.increment(by: tally.repeated)
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
