/// A metric's name, meaning and shape, as monitoring sees it.
public struct MetricDefinition: Hashable, Sendable {
    /// How its numbers are to be read.
    public enum Kind: Hashable, Sendable {
        /// Only grows, until the process starts anew.
        case counter
        /// A number that goes up and down.
        case gauge
        /// How many values there were up to each bound, in rising order, and their sum.
        case histogram(bounds: [Double])
    }

    /// Its name; the unit stands last, or `total` for a counter.
    public let name: String
    /// What it counts, in a sentence.
    public let help: String
    /// How its numbers are to be read.
    public let kind: Kind
    /// The names of its labels.
    ///
    /// Each has few values, fixed in the program: never a zone, a device or anything else that a
    /// client chooses.
    public let labels: [String]

    /// Makes a definition.
    public init(_ name: String, _ kind: Kind, labels: [String] = [], help: String) {
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
        "tidemark_conflicts_total",
        .counter,
        help: "Change sets that were refused as conflicts."
    )
    static let repeats = MetricDefinition(
        "tidemark_repeats_total",
        .counter,
        help: "Change sets that came again and got the verdict that was given before."
    )
    static let refusals = MetricDefinition(
        "tidemark_refusals_total",
        .counter,
        labels: ["code"],
        help: "Requests that were answered with an error, by its code."
    )
    static let requests = MetricDefinition(
        "tidemark_request_duration_seconds",
        .histogram(bounds: seconds),
        labels: ["route", "status"],
        help: "From a request's head to the last byte of its answer, by route and HTTP status."
    )
    static let inFlight = MetricDefinition(
        "tidemark_requests_in_flight",
        .gauge,
        help: "Requests whose answer is not out yet."
    )
    static let memory = MetricDefinition(
        "tidemark_in_flight_bytes",
        .gauge,
        help: "Memory that requests and answers in flight are counted for."
    )
    static let memoryRefusals = MetricDefinition(
        "tidemark_in_flight_refusals_total",
        .counter,
        help: "Requests that were refused because there was no memory left for them."
    )
    static let lag = MetricDefinition(
        "tidemark_lag_revisions",
        .histogram(bounds: [0, 1, 10, 100, 1_000, 10_000, 100_000]),
        help: "How many revisions a device was behind its zone when it synced."
    )
    static let waiting = MetricDefinition(
        "tidemark_requests_waiting",
        .gauge,
        help: "Requests that wait for a commit of their zone, the one in progress included."
    )
    static let groupSize = MetricDefinition(
        "tidemark_group_size_requests",
        .histogram(bounds: [1, 2, 4, 8, 16, 32, 64]),
        help: "Requests that shared one transaction."
    )
    static let commits = MetricDefinition(
        "tidemark_commit_duration_seconds",
        .histogram(bounds: seconds),
        help: "From the begin of a group's transaction until it was durable."
    )
    static let failedCommits = MetricDefinition(
        "tidemark_commit_failures_total",
        .counter,
        help: "Groups whose transaction failed; their requests were answered with the error."
    )
    static let damagedLogs = MetricDefinition(
        "tidemark_damaged_log_entries_total",
        .counter,
        help: "Entries of a log that were found damaged; the log up to each was taken away."
    )
    static let cacheHits = MetricDefinition(
        "tidemark_cache_hits_total",
        .counter,
        help: "Requests for news that were answered from the recent change sets in memory."
    )
    static let cacheMisses = MetricDefinition(
        "tidemark_cache_misses_total",
        .counter,
        help: "Requests for news for which change sets had to be loaded, or the store asked."
    )
    static let sharedHits = MetricDefinition(
        "tidemark_shared_cache_hits_total",
        .counter,
        help: "Loads of change sets that the cache shared with other nodes had."
    )
    static let sharedMisses = MetricDefinition(
        "tidemark_shared_cache_misses_total",
        .counter,
        help: "Loads of change sets that it did not have, or not of this history."
    )
    static let listeners = MetricDefinition(
        "tidemark_listeners",
        .gauge,
        help: "Connections that are told of new revisions."
    )
    static let build = MetricDefinition(
        "tidemark_build_info",
        .gauge,
        labels: ["version"],
        help: "Always 1; the label says which version runs."
    )
}
