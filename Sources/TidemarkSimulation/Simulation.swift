import GRDB

/// Runs worlds from seeds: real device cores and a real server core on real SQLite, with a
/// simulated network, clock and life of processes.
///
/// ```swift
/// let report = Simulation.run(.init(seed: 42), FileTemplates())
/// ```
///
/// No threads, no clock, no randomness but the seed's: the same seed is the same run, in any
/// process.
package enum Simulation {
    /// Runs one world to its end.
    package static func run(
        _ options: SimulationOptions, _ templates: FileTemplates, storage: (any SimulatedStorage)? = nil,
        journal: Journal? = nil
    ) throws -> Report {
        let isFaulty = options.profile.hasDiskFaults(seed: options.seed)
        let usual: any SimulatedStorage = isFaulty ? FaultyStorage() : templates.worlds
        let storage = storage ?? usual
        let world = try World(options, actions: Actions.all, storage: storage, templates: templates, journal: journal)
        var finding: Finding?
        do {
            try world.live()
            try world.settle()
            try world.verify()
        } catch let violation as Finding { finding = violation } catch {
            // The engine throws typed errors only; anything else is a defect.
            finding = Finding("live", actor: "engine", detail: "threw \(error)")
        }
        try world.end()
        if let finding { world.note("broken: \(finding)") }
        return Report(
            seed: options.seed, hash: world.trace.hash, counters: world.counters, finding: finding,
            trace: world.trace.lines, decisions: world.decisions.spans)
    }
}
