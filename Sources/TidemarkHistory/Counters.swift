/// What a run has contained: a run without conflicts proves nothing about conflicts.
public struct Counters: Sendable, Equatable {
    /// Revisions that the server committed.
    public var commits = 0
    /// Transactions of apps.
    public var edits = 0
    /// Change sets that the server refused.
    public var conflicts = 0
    /// Records that a commit deleted.
    public var deletions = 0
    /// Requests with a change set that had its verdict already.
    public var retries = 0
    /// Processes that ended at once.
    public var crashes = 0
    /// Temporary ids that became permanent.
    public var identities = 0
    /// Conflicts that somebody resolved.
    public var resolutions = 0
    /// Snapshots that the server made.
    public var snapshots = 0
    /// Restores of the server's file.
    public var restores = 0
    /// Losing values that were kept.
    public var keptValues = 0
    /// Waiting changes that are not shown because they do not fit the server's rows.
    public var hiddenChanges = 0

    /// Makes counters at zero.
    public init() {}

    /// Adds those of another run.
    public static func += (sum: inout Counters, other: Counters) {
        for path in paths.values { sum[keyPath: path] += other[keyPath: path] }
    }

    /// The counters that are below those of `minimum`, each as a violation: the runs do not prove
    /// what they are meant to prove.
    public func shortfall(of minimum: Counters) -> [Violation] {
        Counters.paths.sorted { $0.key < $1.key }.compactMap { name, path in
            guard self[keyPath: path] < minimum[keyPath: path] else { return nil }
            return Violation(
                .meaningful,
                event: 0,
                actor: "run",
                subject: name,
                expected: "at least \(minimum[keyPath: path])",
                found: "\(self[keyPath: path])"
            )
        }
    }

    private static let paths: [String: any WritableKeyPath<Counters, Int> & Sendable] = [
        "commits": \.commits, "edits": \.edits, "conflicts": \.conflicts, "deletions": \.deletions,
        "retries": \.retries, "crashes": \.crashes, "identities": \.identities, "resolutions": \.resolutions,
        "snapshots": \.snapshots, "restores": \.restores, "keptValues": \.keptValues, "hiddenChanges": \.hiddenChanges,
    ]
}
