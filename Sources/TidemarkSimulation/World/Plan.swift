import TidemarkCore

/// The features and faults of a seed: the swarm.
///
/// Each seed draws them, so that some runs have one fault and some have all at once. All zeros is
/// the simplest world.
struct Plan {
    let deviceCount: Int
    /// The clients without rows.
    let clientCount: Int
    /// The policies by table, and by `table.column` where a column has its own.
    let policies: [String: ConflictPolicy]
    let serverLimits: Limits
    let deviceLimits: Limits
    /// Percent of messages that are lost, doubled, cut, and late by many seconds.
    let lost: Int
    let doubled: Int
    let garbled: Int
    let late: Int
    /// Percent of requests in which the server's process ends.
    let serverCrash: Int
    /// Percent of crashes after which a file is opened by a new connection, which costs more than
    /// everything else; the others leave the connection to the next process.
    let opensAnew: Int
    /// Percent of a device's steps in which a call to its disk fails.
    let diskFaults: Int
    /// How often each action is drawn, in the order of the world's actions.
    let weights: [Int]
    /// How often each kind of statement is drawn, in the order of ``Statements/all``.
    let statementWeights: [Int]
    /// The greatest number of statements in a transaction.
    let statementsMax: Int
    /// The number of records that edits choose from.
    let spread: Int
    /// Percent of values that are long.
    let longValues: Int

    init(_ decisions: inout Decisions, _ actions: [any Action], profile: Profile, hasDiskFaults: Bool) {
        decisions.begin(.plan)
        deviceCount = 2 + decisions.decide(4)
        policies = decisions.pick(Self.mixes(profile))
        var limits = Self.limits(&decisions)
        if profile.copies { Self.shorten(&limits, &decisions) }
        (serverLimits, deviceLimits) = limits
        let rates = [0, 0, 3, 10, 25]
        let network = profile.hasNetworkFaults
        lost = network ? decisions.pick(rates) : 0
        doubled = network ? decisions.pick(rates) : 0
        garbled = network ? decisions.pick([0, 0, 0, 3, 10]) : 0
        late = network ? decisions.pick([0, 5, 20]) : 0
        serverCrash = profile.hasCrashes ? decisions.pick(rates) : 0
        diskFaults = hasDiskFaults ? decisions.pick([0, 3, 10]) : 0
        weights = actions.map { $0.weight(&decisions, profile: profile) }
        statementWeights = Statements.all.map { _ in decisions.pick([1, 1, 0, 3]) }
        statementsMax = 1 + decisions.decide(4)
        spread = decisions.pick([1_000, 3, 6])
        longValues = profile.hasLongValues ? decisions.pick([0, 5, 20]) : 0
        clientCount = profile.hasClients ? 1 + decisions.decide(3) : 0
        let isOften = profile.followsFates
        opensAnew = isOften ? 50 : profile.hasCrashes ? decisions.pick([0, 0, 0, 0, 0, 0, 0, 50]) : 0
    }

    /// Draws whether a file is opened by a new connection after a crash.
    func drawsNewConnection(_ decisions: inout Decisions) -> Bool { decisions.decide(100) >= 100 - opensAnew }

    /// Few mixes, since each needs its own files to copy from.
    private static let policyMixes: [[String: ConflictPolicy]] = [
        mix(Array(repeating: .reject, count: 5)), mix(Array(repeating: .columns, count: 5)),
        mix([.columns, .reject, .columns, .reject, .columns]),
    ]

    /// Mixes in which a policy decides every pair of values, or adds up.
    private static let decidingMixes: [[String: ConflictPolicy]] = [
        Stocks.policies(mix(Array(repeating: .lastWriter, count: 5)), table: .reject),
        Stocks.policies(mix(Array(repeating: .latest, count: 5)), table: .latest),
        Stocks.policies(
            mix([.latest, .columns, .lastWriter, .latest, .reject]).merging([
                "player.name": .lastWriter, "player.score": .latest,
            ]) { $1 },
            table: .columns),
    ]

    /// Mixes for the tables of ``Shapes``.
    private static let shapeMixes: [[String: ConflictPolicy]] = [
        mix([.reject, .reject, .reject], of: Shapes.tables), mix([.columns, .columns, .columns], of: Shapes.tables),
        mix([.columns, .reject, .lastWriter], of: Shapes.tables),
    ]

    private static func mixes(_ profile: Profile) -> [[String: ConflictPolicy]] {
        if profile == .shapes { return shapeMixes }
        if profile.followsFates { return Fates.mixes }
        return profile.decides ? decidingMixes : policyMixes
    }

    private static func mix(_ policies: [ConflictPolicy], of tables: [ZoneSchema.Table] = ZoneSchema.tables) -> [String:
        ConflictPolicy]
    { Dictionary(uniqueKeysWithValues: zip(tables.map(\.name), policies)) }

    /// A log of a few revisions, and fewer of them in a request, so that the recorder sees all.
    private static func shorten(_ limits: inout (server: Limits, device: Limits), _ decisions: inout Decisions) {
        limits.server.revisionsKept = decisions.pick([nil, 5, 5])
        limits.server.compactionStepMin = 1
        limits.server.compactionStepMax = decisions.pick([1_000, 2])
        guard limits.server.revisionsKept != nil else { return }
        limits.device.changeSetsPerRequestMax = min(4, limits.device.changeSetsPerRequestMax)
    }

    private static func limits(_ decisions: inout Decisions) -> (server: Limits, device: Limits) {
        var server = Limits.standard
        var device = Limits.standard
        server.revisionsPerAnswerMax = decisions.pick([1_000, 1_000, 5, 1])
        server.catchUpBytesMax = decisions.pick([8 << 20, 8 << 20, 700])
        // Drawn along with the one before, so that the worlds of known seeds stay the same.
        server.deltaBytesMin = server.revisionsPerAnswerMax == 5 ? 300 : 1 << 20
        device.changeSetsPerRequestMax = decisions.pick([10_000, 10_000, 3, 1])
        device.outgoingBytesTarget = decisions.pick([8 << 20, 8 << 20, 400])
        device.lendsIDs = device.outgoingBytesTarget != 400
        return (server, device)
    }
}
