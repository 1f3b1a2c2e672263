#if DEBUG
import TidemarkCore

/// A planted bug, and the way to notice it.
struct PlantedCase: Sendable {
    /// The mistake in the code, in words.
    let bug: PlantedBug
    /// The rule of `Docs/GUARANTEES.md` that it breaks.
    let rule: Int
    /// The group of failures that it belongs to: A server, B network and protocol, C a device's
    /// crash, queue and identity, D apply, schema and snapshots, E hostile input.
    let group: Character
    /// The way to look for it.
    let way: Way

    /// The ways to look for a bug.
    enum Way: Sendable {
        /// In worlds from seeds; the number is a seed that notices it.
        case worlds(Profile, knownSeed: UInt64)
        /// By an action of one peer on another, in a world without other events.
        case scenario(Scenario)
        /// In campaigns of secrecy from seeds; the number is a seed that notices it.
        case secrecy(knownSeed: UInt64)
    }

    init(_ bug: PlantedBug, rule: Int, group: Character, secrecySeed seed: UInt64) {
        self.bug = bug
        self.rule = rule
        self.group = group
        way = .secrecy(knownSeed: seed)
    }

    init(_ bug: PlantedBug, rule: Int, group: Character, profile: Profile = .all, seed: UInt64) {
        self.bug = bug
        self.rule = rule
        self.group = group
        way = .worlds(profile, knownSeed: seed)
    }

    init(_ bug: PlantedBug, rule: Int, group: Character, scenario: Scenario) {
        self.bug = bug
        self.rule = rule
        self.group = group
        way = .scenario(scenario)
    }
}

/// Plants bugs in the real code, one at a time, and shows that the simulation notices each.
///
/// A checker that has never failed is not evidence.
package struct Proof: Sendable {
    /// The result for one planted bug.
    package struct Outcome: Sendable {
        /// The name of the bug.
        package let bug: String
        /// The rule that it breaks, and the group of failures: `rule 12, C`.
        package let place: String
        /// The seed that noticed it, or the scenario's name; nil if none did.
        package let caughtBy: String?
        /// The broken promise, with expected and actual state.
        package let finding: Finding?
        /// The number of worlds that ran.
        package let tried: Int
    }

    /// The names of all bugs that can be planted.
    package static var names: [String] { PlantedCase.all.map(\.bug.rawValue) }

    /// The rules that at least one bug breaks.
    package static var rules: Set<Int> { Set(PlantedCase.all.map(\.rule)) }

    /// The groups of failures that have a bug, in their order.
    package static var groups: [String] { Set(PlantedCase.all.map { String($0.group) }).sorted() }

    private let seedsMax: UInt64

    /// Makes a proof that gives up after a number of seeds for each bug.
    package init(seedsMax: UInt64 = 500) { self.seedsMax = seedsMax }

    /// Plants a bug and looks for it: with its known seed, otherwise with all.
    ///
    /// - Returns: nil if there is no bug of that name.
    ///
    /// - Throws: SQLite's error if the files in memory cannot be made.
    package func prove(_ name: String, searches: Bool = true) async throws -> Outcome? {
        guard let planted = PlantedCase.all.first(where: { $0.bug.rawValue == name }) else { return nil }
        switch planted.way {
        case .scenario(let scenario): return try prove(planted, by: scenario)
        case .worlds(let profile, let knownSeed):
            return try await prove(planted, knownSeed: knownSeed, searches: searches) { seed in
                try run(planted.bug, profile: profile, seed: seed)
            }
        case .secrecy(let knownSeed):
            return try await prove(planted, knownSeed: knownSeed, searches: searches) { seed in
                try await run(planted.bug, secrecySeed: seed)
            }
        }
    }

    /// Looks for a bug with its known seed, then with all others.
    private func prove(
        _ planted: PlantedCase, knownSeed: UInt64, searches: Bool, run: (UInt64) async throws -> Finding?
    ) async throws -> Outcome {
        var tried = 0
        for seed in [knownSeed] + (1...seedsMax).filter({ searches && $0 != knownSeed }) {
            tried += 1
            guard let finding = try await run(seed) else { continue }
            // A seed that finds something in healthy code proves nothing.
            if finding.invariant == "meta", seed != knownSeed { continue }
            let isProof = finding.invariant != "meta"
            return outcome(planted, caughtBy: isProof ? "seed \(seed)" : nil, finding: finding, tried: tried)
        }
        return outcome(planted, caughtBy: nil, finding: nil, tried: tried)
    }

    /// Runs a campaign of secrecy with a bug in the server.
    ///
    /// - Throws: ``Finding`` if the campaign finds something without the bug, too, or it would prove nothing.
    private func run(_ bug: PlantedBug, secrecySeed seed: UInt64) async throws -> Finding? {
        let campaign = SecrecyCampaign(seed: seed)
        let result = try await PlantedBug.$current.withValue(bug) { try await campaign.runEmbedded() }
        guard let violation = result.violations.first else { return nil }
        if let other = try await campaign.runEmbedded().violations.first {
            throw Finding("meta", actor: "seed \(seed)", detail: "finds \(other) in healthy code")
        }
        return Finding("I7", actor: "server", detail: violation)
    }

    /// Runs a world with a bug in it.
    ///
    /// A finding means that the world noticed it.
    private func run(_ bug: PlantedBug, profile: Profile, seed: UInt64) throws -> Finding? {
        let options = SimulationOptions(seed: seed, profile: profile)
        let finding = try PlantedBug.withPlanted(bug, doing: bug.simulatedDeed) {
            do {
                // Uses templates of its own, because a bug may be in the files' triggers.
                return try Simulation.run(options, FileTemplates()).finding
            } catch let finding as Finding {
                // The world notices it before the first round.
                return finding
            }
        }
        guard let finding else { return nil }
        let other = try Simulation.run(options, FileTemplates()).finding
        return other.map { Finding("meta", actor: "seed \(seed)", detail: "finds \($0) in healthy code") } ?? finding
    }

    private func prove(_ planted: PlantedCase, by scenario: Scenario) throws -> Outcome {
        // Without the bug the scenario must find nothing, or it proves nothing.
        if let finding = try scenario.run() {
            let detail = "finds \(finding) in healthy code"
            return outcome(
                planted, caughtBy: nil, finding: Finding("meta", actor: scenario.name, detail: detail), tried: 1)
        }
        let finding = try PlantedBug.withPlanted(planted.bug, doing: planted.bug.simulatedDeed) { try scenario.run() }
        return outcome(planted, caughtBy: finding.map { _ in scenario.name }, finding: finding, tried: 1)
    }

    private func outcome(_ planted: PlantedCase, caughtBy: String?, finding: Finding?, tried: Int) -> Outcome {
        Outcome(
            bug: planted.bug.rawValue, place: "rule \(planted.rule), \(planted.group)", caughtBy: caughtBy,
            finding: finding, tried: tried)
    }
}
#endif
