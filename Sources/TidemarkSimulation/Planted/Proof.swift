#if DEBUG
import TidemarkCore

/// What it takes to notice a planted bug.
struct PlantedCase: Sendable {
    /// What the code does wrong, in words.
    let bug: PlantedBug
    /// The rule of `Docs/GUARANTEES.md` that it breaks.
    let rule: Int
    /// The group of failures that it belongs to: A server, B network and protocol, C a device's
    /// crash, queue and identity, D apply, schema and snapshots, E hostile input.
    let group: Character
    /// How it is looked for.
    let way: Way

    /// How a bug is looked for.
    enum Way: Sendable {
        /// In worlds from seeds; the number is a seed that is known to notice it.
        case worlds(Profile, knownSeed: UInt64)
        /// By what one peer does to another, in a world where nothing else happens.
        case scenario(Scenario)
    }

    init(_ bug: PlantedBug, rule: Int, _ group: Character, _ profile: Profile = .all, seed: UInt64) {
        self.bug = bug
        self.rule = rule
        self.group = group
        way = .worlds(profile, knownSeed: seed)
    }

    init(_ bug: PlantedBug, rule: Int, _ group: Character, _ scenario: Scenario) {
        self.bug = bug
        self.rule = rule
        self.group = group
        way = .scenario(scenario)
    }
}

/// Plants bugs in the real code, one at a time, and shows that the simulation notices each.
///
/// A checker that has never failed is not evidence.
public struct Proof: Sendable {
    /// What became of one planted bug.
    public struct Outcome: Sendable {
        /// The name of the bug.
        public let bug: String
        /// The rule that it breaks, and the group of failures: `rule 12, C`.
        public let place: String
        /// The seed that noticed it, or the scenario's name; nil: nobody did.
        public let caughtBy: String?
        /// The promise that was found broken, and what was found.
        public let finding: Finding?
        /// How many worlds it took.
        public let tried: Int
    }

    /// The names of all bugs that can be planted.
    public static var names: [String] { PlantedCase.all.map(\.bug.rawValue) }

    /// The rules that some bug breaks.
    public static var rules: Set<Int> { Set(PlantedCase.all.map(\.rule)) }

    /// The groups of failures that have a bug, in their order.
    public static var groups: [String] { Set(PlantedCase.all.map { String($0.group) }).sorted() }

    private let seedsMax: UInt64

    /// Makes a proof that gives up after so many seeds a bug.
    public init(seedsMax: UInt64 = 500) { self.seedsMax = seedsMax }

    /// Plants a bug and looks for it: with the seed that is known to notice it, else with all.
    ///
    /// - Returns: nil when there is no bug of that name.
    /// - Throws: What SQLite says when the files in memory cannot be made.
    public func prove(_ name: String, searches: Bool = true) throws -> Outcome? {
        guard let planted = PlantedCase.all.first(where: { $0.bug.rawValue == name }) else { return nil }
        switch planted.way {
        case .scenario(let scenario): return try prove(planted, by: scenario)
        case .worlds(let profile, let known):
            var tried = 0
            if let finding = try run(planted.bug, profile, seed: known, &tried) {
                return outcome(planted, "seed \(known)", finding, tried)
            }
            for seed in 1...seedsMax where searches && seed != known {
                guard let finding = try run(planted.bug, profile, seed: seed, &tried) else { continue }
                return outcome(planted, "seed \(seed)", finding, tried)
            }
            return outcome(planted, nil, nil, tried)
        }
    }

    /// Runs a world with a bug in it; what it finds is what noticed the bug.
    private func run(_ bug: PlantedBug, _ profile: Profile, seed: UInt64, _ tried: inout Int) throws -> Finding? {
        tried += 1
        return try PlantedBug.withPlanted(bug) {
            do {
                // Templates of its own, for a bug may be in the files' triggers.
                return try Simulation.run(.init(seed: seed, profile: profile), FileTemplates()).finding
            } catch let finding as Finding {
                // Found before the first round.
                return finding
            }
        }
    }

    private func prove(_ planted: PlantedCase, by scenario: Scenario) throws -> Outcome {
        // Without the bug the scenario has to find nothing, or it proves nothing.
        if let finding = try scenario.run() {
            let detail = "finds \(finding) in healthy code"
            return outcome(planted, nil, Finding("meta", scenario.name, detail), 1)
        }
        let finding = try PlantedBug.withPlanted(planted.bug) { try scenario.run() }
        return outcome(planted, finding.map { _ in scenario.name }, finding, 1)
    }

    private func outcome(_ planted: PlantedCase, _ caughtBy: String?, _ finding: Finding?, _ tried: Int) -> Outcome {
        Outcome(
            bug: planted.bug.rawValue,
            place: "rule \(planted.rule), \(planted.group)",
            caughtBy: caughtBy,
            finding: finding,
            tried: tried
        )
    }
}
#endif
