import TidemarkCore

/// What a sync has tried, so that it ends.
struct Attempts: Hashable, Sendable {
    /// What may be tried again.
    enum Kind: CaseIterable {
        case snapshot
        case schema
        /// A comparison of rows that replaces differing ones.
        case comparison
        /// A comparison of rebuilt tables that the zone's changes prevented.
        case outdatedRows
        case confirmation
        case inapplicableAnswer

        /// The most attempts in one sync.
        var max: Int {
            switch self {
            case .snapshot, .schema: 4
            case .comparison, .inapplicableAnswer, .outdatedRows: 2
            case .confirmation: 5
            }
        }
    }

    /// What a request should change, unless it ends the sync.
    ///
    /// Each answer that does not end a sync raises the revision while the device catches up, and otherwise settles the
    /// oldest pending change set. In a damaged file both can fail without an error. For instance, an index may lack a
    /// change set's entry, so that it cannot be deleted and is sent for ever.
    enum Mark: Hashable {
        case revision(Int64)
        /// The oldest pending change set, and the latest that the file has ever had.
        case waiting(oldest: Int64?, latest: Int64?)
    }

    /// The most requests without progress; an altered schema or a concurrent process causes fewer.
    static let repeatsMax = 16

    private var counts: [Kind: Int] = [:]
    /// The file's revision when the server last required a snapshot of a later one.
    private var revisionBehind: Int64?
    private var mark: Mark?
    private var repeats = 0

    func count(_ kind: Kind) -> Int { counts[kind, default: 0] }

    /// Begins an attempt; returns false if there were too many.
    ///
    /// A zone that goes on changing may outrun the file that the device has just taken: an attempt at a later
    /// `revision` than that of the last one replaces it.
    mutating func begin(_ kind: Kind, at revision: Int64? = nil) -> Bool {
        if let revision {
            if let revisionBehind, revisionBehind < revision { counts[kind, default: 0] -= 1 }
            revisionBehind = revision
        }
        guard count(kind) < kind.max else { return false }
        counts[kind, default: 0] += 1
        return true
    }

    /// Begins a request; throws `fileDamaged` after too many without progress.
    mutating func begin(at mark: Mark) throws(TidemarkError) {
        repeats = mark == self.mark ? repeats + 1 : 0
        self.mark = mark
        guard repeats >= Self.repeatsMax else { return }
        throw TidemarkError(
            .fileDamaged, "The file does not keep what a sync changes: \(repeats) answers left it as it was.",
            fix: "Keep the file as it is; ERRORS.md says under fileDamaged what can be saved.")
    }
}
