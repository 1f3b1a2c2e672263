/// Selects the world that a simulation runs.
public struct SimulationOptions: Sendable {
    /// What decides everything.
    public var seed: UInt64
    /// How many events that do something.
    public var rounds: Int
    /// Which faults there are.
    public var profile: Profile
    /// Whether the report says in words what happened.
    public var isTracing: Bool
    /// The decisions of an earlier run, to take instead of drawing from the seed.
    var replay: [Span]?

    /// The same world, from the decisions of a run of it.
    package func replaying(_ report: Report) -> SimulationOptions {
        var options = self
        options.replay = report.decisions
        return options
    }

    /// Makes options.
    public init(seed: UInt64, rounds: Int = 200, profile: Profile = .all, isTracing: Bool = false) {
        self.seed = seed
        self.rounds = rounds
        self.profile = profile
        self.isTracing = isTracing
    }
}
