/// Selects the world that a simulation runs.
package struct SimulationOptions: Sendable {
    /// The seed of all decisions.
    package var seed: UInt64
    /// The number of events that have an effect.
    package var rounds: Int
    /// The faults of the world.
    package var profile: Profile
    /// Whether the report has the events in words.
    package var isTracing: Bool
    /// The decisions of an earlier run, to take instead of drawing from the seed.
    var replay: [Span]?

    /// The same world, from the decisions of a run of it.
    package func replaying(_ report: Report) -> SimulationOptions {
        var options = self
        options.replay = report.decisions
        return options
    }

    /// Makes options.
    package init(seed: UInt64, rounds: Int = 200, profile: Profile = .all, isTracing: Bool = false) {
        self.seed = seed
        self.rounds = rounds
        self.profile = profile
        self.isTracing = isTracing
    }
}
