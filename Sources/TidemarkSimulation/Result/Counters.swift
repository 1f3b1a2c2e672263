/// Counts the events of a run: a run without conflicts, crashes and losses proves nothing.
package struct Counters: Hashable, Sendable {
    /// The counted events.
    package enum Name: String, CaseIterable, Sendable {
        case rounds, edits, statements
        case brokenEdits = "edits refused"
        case outsideEdits = "outside edits"
        case serverEdits = "server edits"
        case deletes, syncs, requests, answers
        case retries, lostRequests = "lost requests"
        case lostAnswers = "lost answers"
        case doubled = "doubled requests"
        case garbled = "garbled answers"
        case staleRequests = "late requests"
        case sharedCommits = "shared commits"
        case unchanged, shortAnswers = "short answers"
        case askedInFull = "asked in full"
        case pushedChanges = "told unasked"
        case longValues = "long values"
        case conflicts, accepted, retried
        case keptValues = "kept values"
        case deviceCrashes = "device crashes"
        case serverCrashes = "server crashes"
        case diskFaults = "disk faults"
        case partitions, pages, snapshots, deltas
        case secondProcesses = "second processes"
        case joins, migrations, copies, restores
        case putBack = "files put back"
        case shortLogs = "short logs"
        case revisions
        case restReads = "questions over REST"
        case restWrites = "writes over REST"
        case restBatches = "batches over REST"
        case restRefusals = "refusals over REST"
        case mirrors = "copies by list and feed"
    }

    private var values = Array(repeating: 0, count: Name.allCases.count)

    /// Makes counters at zero.
    package init() {}

    /// One count.
    package subscript(name: Name) -> Int {
        get { values[Self.index[name] ?? 0] }
        set { values[Self.index[name] ?? 0] = newValue }
    }

    /// Adds the counts of another run.
    package static func += (left: inout Self, right: Self) {
        for index in left.values.indices { left.values[index] += right.values[index] }
    }

    /// The events that a run of many seeds must contain, and this one does not.
    package func missing(for profile: Profile) -> [Name] { profile.required.filter { self[$0] == 0 } }

    private static let index = Dictionary(
        uniqueKeysWithValues: Name.allCases.enumerated().map { ($0.element, $0.offset) })
}

/// The faults that a run may have.
package enum Profile: String, CaseIterable, Sendable {
    /// All faults of the others; every fourth seed is on disks that fail.
    case all
    /// Messages are lost, doubled, delayed, reordered and cut; devices are out of reach.
    case network
    /// Processes end between any two steps.
    case crash
    /// The power goes, and calls to the disk fail.
    case storage
    /// Apps and the server migrate at any moment, besides the faults of network and crash.
    case schema
    /// Devices listen, and some values are so long that change sets are kept and read in pieces.
    ///
    /// Besides the faults of network and crash.
    case live
    /// Where two values meet, the column's policy picks one, and the other one is kept; or it adds up what
    /// devices add: see ``Stocks``.
    ///
    /// Besides the faults of network and crash.
    case policies
    /// Files are copied and restored from backups, the server's too, and its log is short.
    ///
    /// Besides the faults of network and crash.
    case restore
    /// Tables of other shapes: see ``Shapes``.
    ///
    /// Besides the faults of network and crash.
    case shapes
    /// Clients without rows read, write and follow the feed over REST: see ``RestClient``.
    ///
    /// Besides the faults of network and crash.
    case rest
    /// Apps migrate between an edit and its sync, programs write tables whole or without triggers, clients set amounts
    /// by old tags, people decide about conflicts long after, and both sides are put back: see ``Fates``.
    ///
    /// Besides the faults of network and crash.
    case fates

    /// Whether messages get lost and the like.
    var hasNetworkFaults: Bool { ![.crash, .storage].contains(self) }
    /// Whether policies decide between values, some of them by the clock.
    var decides: Bool { self == .policies }
    /// The version of the tables that a world begins with.
    var firstVersion: Int {
        self == .shapes ? Shapes.version : decides ? Stocks.version : followsFates ? Fates.version : 0
    }
    /// Whether files are copied and restored, and logs are short.
    var copies: Bool { self == .restore }
    /// Whether files are restored from backups.
    var putsBack: Bool { copies || followsFates }
    /// Whether each edit is followed to its end, by a ledger instead of the checker.
    var followsFates: Bool { self == .fates }
    /// Whether there are clients without rows.
    var hasClients: Bool { self == .rest }
    /// Whether tables are altered.
    var migrates: Bool { self == .schema }
    /// Whether the files of a seed are on disks that fail.
    func hasDiskFaults(seed: UInt64) -> Bool { self == .storage || self == .all && seed.isMultiple(of: 4) }
    /// Whether requests of a seed wait for each other, and share a transaction.
    func hasGroups(seed: UInt64) -> Bool { seed.isMultiple(of: 5) }
    /// Whether devices listen.
    var hasListeners: Bool { self == .live }
    /// Whether some values are long.
    var hasLongValues: Bool { self == .live }
    /// Whether processes end.
    var hasCrashes: Bool { self != .network }

    /// The events that at least one of many seeds must contain.
    package var required: [Counters.Name] {
        let always: [Counters.Name] = [
            .edits, .outsideEdits, .serverEdits, .deletes, .conflicts, .accepted, .retried, .pages, .sharedCommits,
            .unchanged, .shortAnswers, .askedInFull,
        ]
        let network: [Counters.Name] = [.lostRequests, .lostAnswers, .doubled, .garbled, .retries, .partitions]
        let crash: [Counters.Name] = [.deviceCrashes, .serverCrashes]
        return always + (hasNetworkFaults ? network : []) + (hasCrashes ? crash : [])
            + (self == .storage ? [.diskFaults] : []) + (migrates ? [.migrations] : [])
            + (hasListeners ? [.pushedChanges] : [])
            + (hasLongValues ? [.longValues] : []) + (decides ? [.keptValues] : [])
            + (hasClients ? [.restReads, .restWrites, .restBatches, .restRefusals, .mirrors] : [])
            + (followsFates ? [.migrations, .restores, .putBack] : [])
            + (copies ? [.copies, .restores, .putBack, .shortLogs] : [])
    }
}
