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
    /// The counters and gauges without labels, by name.
    private let counters: [String: Counter]
    private let gauges: [String: Meter]
    private let lag: Recorder
    private let groupSize: Recorder
    private let commits: Timer

    /// Creates the instruments; those without labels are exported at 0 from now on.
    ///
    /// The default factory is the one that the process was bootstrapped with.
    public init(factory: any MetricsFactory = MetricsSystem.factory) {
        self.factory = factory
        let plain = Self.definitions.filter { $0.kind == .counter && $0.labels.isEmpty }.map(\.name)
        counters = Dictionary(uniqueKeysWithValues: plain.map { ($0, Counter(label: $0, factory: factory)) })
        let own: [MetricDefinition] = [.inFlight, .waiting, .listeners, .memory]
        gauges = Dictionary(uniqueKeysWithValues: own.map { ($0.name, Meter(label: $0.name, factory: factory)) })
        lag = Recorder(label: MetricDefinition.lag.name, factory: factory)
        groupSize = Recorder(label: MetricDefinition.groupSize.name, factory: factory)
        commits = Timer(label: MetricDefinition.commits.name, factory: factory)
        Meter(label: MetricDefinition.build.name, dimensions: [("version", TidemarkVersion.current)], factory: factory)
            .set(1)
    }

    private func count(_ metric: MetricDefinition, by number: Int = 1) { counters[metric.name]?.increment(by: number) }
    private func change(_ metric: MetricDefinition, by number: Int) {
        guard let gauge = gauges[metric.name] else { return }
        if number > 0 { gauge.increment(by: Double(number)) } else { gauge.decrement(by: Double(-number)) }
    }

    package func recordDamagedLog() { count(.damagedLogs) }
    package func changeInFlight(by number: Int) { change(.inFlight, by: number) }
    /// Changes the number of bytes accounted to requests and answers in flight.
    package func changeMemory(by bytes: Int) { change(.memory, by: bytes) }
    package func recordMemoryRefusal() { count(.memoryRefusals) }
    func setListeners(_ number: Int) { gauges[MetricDefinition.listeners.name]?.set(number) }
    /// Counts a request for news as a hit or a miss of the cache in memory.
    package func recordLookup(isHit: Bool) { count(isHit ? .cacheHits : .cacheMisses) }
    /// Records how far behind a device was that the cache in memory answered.
    package func recordPull(lag revisions: Int64) { lag.record(revisions) }
    /// Counts a load of change sets as a hit or a miss of the shared cache.
    package func recordSharedLookup(isHit: Bool) { count(isHit ? .sharedHits : .sharedMisses) }
    func changeWaiting(by number: Int) { change(.waiting, by: number) }

    /// Records an answered or abandoned request; `status` is `gone` when its client disconnected.
    package func recordAnswer(route: String, status: String, in duration: Duration) {
        Timer(
            label: MetricDefinition.requests.name, dimensions: [("route", route), ("status", status)], factory: factory
        ).recordNanoseconds(duration.nanoseconds)
    }

    package func recordRefusal(_ code: ErrorCode) {
        Counter(label: MetricDefinition.refusals.name, dimensions: [("code", code.rawValue)], factory: factory)
            .increment()
    }

    func recordCommit(_ result: Result<[ZoneResult], any Error>, in duration: Duration) {
        guard case .success(let results) = result else {
            count(.failedCommits)
            return
        }
        commits.recordNanoseconds(duration.nanoseconds)
        groupSize.record(results.count)
        for case .success(let answer) in results { answer.tally.map(count) }
    }

    private func count(_ tally: SyncTally) {
        count(.pushes, by: tally.accepted)
        count(.conflicts, by: tally.conflicts)
        count(.repeats, by: tally.repeats)
        if let behind = tally.lag { lag.record(behind) }
    }
}

extension Duration {
    fileprivate var nanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}

/// A metric's name, meaning and shape, as monitoring sees it.
public struct MetricDefinition: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// Only grows, until the process restarts.
        case counter
        /// A number that goes up and down.
        case gauge
        /// The number of values up to each ascending bound, and their sum.
        case histogram(bounds: [Double])
    }

    /// The name; it ends with the unit, or with `total` for a counter.
    package let name: String
    /// The description in one sentence.
    package let help: String
    package let kind: Kind
    /// The names of the labels, each with few values fixed in the program: never one that a client chooses.
    package let labels: [String]

    package init(_ name: String, _ kind: Kind, labels: [String] = [], help: String) {
        self.name = name
        self.kind = kind
        self.labels = labels
        self.help = help
    }
}

extension MetricDefinition {
    private static let seconds: [Double] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

    static let pushes = MetricDefinition("tidemark_pushes_total", .counter, help: "Change sets that became revisions.")
    static let conflicts = MetricDefinition(
        "tidemark_conflicts_total", .counter, help: "Change sets that were refused as conflicts.")
    static let repeats = MetricDefinition(
        "tidemark_repeats_total", .counter,
        help: "Change sets that a device sent again and that got their stored verdict.")
    static let refusals = MetricDefinition(
        "tidemark_refusals_total", .counter, labels: ["code"],
        help: "Requests that were answered with an error, by its code.")
    static let requests = MetricDefinition(
        "tidemark_request_duration_seconds", .histogram(bounds: seconds), labels: ["route", "status"],
        help: "From a request's head to the last byte of its answer, by route and HTTP status.")
    static let inFlight = MetricDefinition(
        "tidemark_requests_in_flight", .gauge, help: "Requests whose answer is not out yet.")
    static let memory = MetricDefinition(
        "tidemark_in_flight_bytes", .gauge, help: "Memory that is accounted to requests and answers in flight.")
    static let memoryRefusals = MetricDefinition(
        "tidemark_in_flight_refusals_total", .counter,
        help: "Requests that were refused because there was no memory left for them.")
    static let lag = MetricDefinition(
        "tidemark_lag_revisions", .histogram(bounds: [0, 1, 10, 100, 1_000, 10_000, 100_000]),
        help: "How many revisions a device was behind its zone when it synced.")
    static let waiting = MetricDefinition(
        "tidemark_requests_waiting", .gauge,
        help: "Requests that wait for a commit of their zone, the one in progress included.")
    static let groupSize = MetricDefinition(
        "tidemark_group_size_requests", .histogram(bounds: [1, 2, 4, 8, 16, 32, 64]),
        help: "Requests that shared one transaction.")
    static let commits = MetricDefinition(
        "tidemark_commit_duration_seconds", .histogram(bounds: seconds),
        help: "From the begin of a group's transaction until it was durable.")
    static let failedCommits = MetricDefinition(
        "tidemark_commit_failures_total", .counter,
        help: "Groups whose transaction failed; their requests were answered with the error.")
    static let damagedLogs = MetricDefinition(
        "tidemark_damaged_log_entries_total", .counter,
        help: "Damaged log entries; the server removed the log up to each.")
    static let cacheHits = MetricDefinition(
        "tidemark_cache_hits_total", .counter,
        help: "Requests for news that were answered from the recent change sets in memory.")
    static let cacheMisses = MetricDefinition(
        "tidemark_cache_misses_total", .counter,
        help: "Requests for news that needed change sets from outside the memory, or the store.")
    static let sharedHits = MetricDefinition(
        "tidemark_shared_cache_hits_total", .counter,
        help: "Loads of change sets that the cache shared with other nodes served.")
    static let sharedMisses = MetricDefinition(
        "tidemark_shared_cache_misses_total", .counter,
        help: "Loads of change sets that the shared cache did not have, or not of this history.")
    static let listeners = MetricDefinition(
        "tidemark_listeners", .gauge, help: "Connections that wait for new revisions.")
    package static let residentMemory = MetricDefinition(
        "process_resident_memory_bytes", .gauge, help: "Memory that the process holds.")
    package static let startTime = MetricDefinition(
        "process_start_time_seconds", .gauge, help: "When the server started, in seconds since 1970.")
    package static let dataSize = MetricDefinition(
        "tidemark_data_bytes", .gauge, help: "Files of the zones, with their -wal.")
    package static let diskFree = MetricDefinition(
        "tidemark_disk_free_bytes", .gauge, help: "Space that is left on the disk of the zones' files.")
    package static let diskSize = MetricDefinition(
        "tidemark_disk_size_bytes", .gauge, help: "Size of the disk of the zones' files.")
    package static let unmergedBytes = MetricDefinition(
        "tidemark_wal_bytes", .gauge, help: "Bytes in the write-ahead logs (-wal) of the zones' files.")
    static let build = MetricDefinition(
        "tidemark_build_info", .gauge, labels: ["version"], help: "Always 1; the label says which version runs.")
}
