/// Counts the contents of a run: a run without conflicts proves nothing about conflicts.
package struct Counters: Sendable, Equatable {
    /// Revisions that the server committed.
    package var commits = 0
    /// Transactions of apps.
    package var edits = 0
    /// Change sets that the server refused.
    package var conflicts = 0
    /// Records that a commit deleted.
    package var deletions = 0
    /// Requests with a change set that had its verdict already.
    package var retries = 0
    /// Processes that were killed.
    package var crashes = 0
    /// Temporary ids that became permanent.
    package var identities = 0
    /// Conflicts that were resolved.
    package var resolutions = 0
    /// Snapshots that the server made.
    package var snapshots = 0
    /// Restores of the server's file.
    package var restores = 0
    /// Losing values that were kept.
    package var keptValues = 0
    /// Waiting changes that are not shown because they do not fit the server's rows.
    package var hiddenChanges = 0

    /// Makes counters at zero.
    package init() {}

    /// Adds those of another run.
    package static func += (sum: inout Counters, other: Counters) {
        for path in paths.values { sum[keyPath: path] += other[keyPath: path] }
    }

    /// The counters below those of `minimum`, each as a violation: then the runs prove too little.
    package func shortfall(of minimum: Counters) -> [Violation] {
        Counters.paths.sorted { $0.key < $1.key }.compactMap { name, path in
            guard self[keyPath: path] < minimum[keyPath: path] else { return nil }
            return Violation(
                .meaningful, event: 0, actor: "run", subject: name, expected: "at least \(minimum[keyPath: path])",
                found: "\(self[keyPath: path])")
        }
    }

    private static let paths: [String: any WritableKeyPath<Counters, Int> & Sendable] = [
        "commits": \.commits, "edits": \.edits, "conflicts": \.conflicts, "deletions": \.deletions,
        "retries": \.retries, "crashes": \.crashes, "identities": \.identities, "resolutions": \.resolutions,
        "snapshots": \.snapshots, "restores": \.restores, "keptValues": \.keptValues, "hiddenChanges": \.hiddenChanges,
    ]
}
