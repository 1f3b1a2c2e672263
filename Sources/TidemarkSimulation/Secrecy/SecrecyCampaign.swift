internal import Foundation
internal import Tidemark
import TidemarkHistory
internal import TidemarkTestSupport

/// Runs people with private, shared and public zones against a real server, and searches every byte that
/// reaches anybody: invariant I7.
///
/// The seed decides every action. What the server may say is judged by ``TidemarkHistory/ReadersModel``.
package struct SecrecyCampaign: Sendable {
    /// The result of one or more runs.
    package struct Result: Sendable {
        /// The number of runs.
        package var runs = 0
        /// The number of pairs of an answer and a foreign secret that were searched.
        package var probes = 0
        /// The number of bytes that were searched.
        package var bytes = 0
        /// The broken promises, each with its seed.
        package var violations: [String] = []
        /// Where the server refused what the model allows, each with its seed.
        package var surprises: [String] = []
        /// What reached everybody but the people of the hidden zone.
        package var transcript: [String] = []

        /// Makes an empty result.
        package init() {}

        /// Adds another run's result, without its transcript.
        package static func += (left: inout Self, right: Self) {
            left.runs += right.runs
            left.probes += right.probes
            left.bytes += right.bytes
            left.violations += right.violations
            left.surprises += right.surprises
        }
    }

    private let seed: UInt64
    private let steps: Int
    private let hasHiddenZone: Bool
    private let assignsKeys: Bool

    /// Makes a campaign.
    ///
    /// - Parameters:
    ///   - seed: Decides every action.
    ///   - steps: The number of actions.
    ///   - hasHiddenZone: Whether a zone exists that only two further people know. They act at other moments
    ///     than everybody else, whose actions are the same with and without them.
    ///   - assignsKeys: Whether the server assigns keys to new records. PostgreSQL takes the keys of all zones from
    ///     one sequence, so their gaps tell how many records other zones have.
    package init(seed: UInt64, steps: Int = 60, hasHiddenZone: Bool = true, assignsKeys: Bool = true) {
        self.seed = seed
        self.steps = steps
        self.hasHiddenZone = hasHiddenZone
        self.assignsKeys = assignsKeys
    }

    /// Runs it on a stage of its own, which it closes.
    ///
    /// - Throws: An error of the store or the connection; broken promises are in the result.
    package func run(on stage: SecrecyStage) async throws -> Result {
        let random = SecrecyRandom(seed: seed)
        let outcome: Swift.Result<Result, any Error>
        do {
            outcome = .success(try await ServedStage.run(stage, random: random) { try await run($0, random) })
        } catch { outcome = .failure(error) }
        try await stage.close()
        return try outcome.get()
    }

    /// Runs it on SQLite files of its own.
    ///
    /// - Throws: An error of a file or the connection; broken promises are in the result.
    package func runEmbedded() async throws -> Result {
        let newID = SyncEngine.Environment.system.newID
        let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(newID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let result = try await run(on: try await SecrecyStage.embedded(in: folder))
        try FileManager.default.removeItem(at: folder)
        return result
    }

    private func run(_ server: ServedStage, _ random: SecrecyRandom) async throws -> Result {
        let world = SecrecyWorld(server, random: random, assignsKeys: assignsKeys)
        try await world.begin(people: 3 + random.draw(2), hidden: 2)
        for step in 0..<steps {
            if hasHiddenZone {
                random.isHidden = true
                try await act(in: world, isFirst: step == 0)
                random.isHidden = false
            }
            // Lists are ordered by the time of their entries, so each step has its own.
            server.bench.advance(by: 1)
            try await act(in: world, isFirst: step == 0)
        }
        world.checkLog()
        var result = Result()
        result.runs = 1
        result.probes = world.checker.probes
        result.bytes = world.checker.bytes
        result.violations = world.checker.violations.map { "seed \(seed): \($0)" }
        result.surprises = world.surprises.map { "seed \(seed): \($0)" }
        result.transcript = world.transcript
        return result
    }

    /// Runs one action of the present stream of choices.
    private func act(in world: SecrecyWorld, isFirst: Bool) async throws {
        let random = world.random
        guard let person = random.pick(world.actors) else { return }
        if isFirst { return try await world.makeZone(person) }
        guard let zone = random.pick(world.places) else { return }
        let rights = world.checker.model.zones[zone].rights.filter { world.actors.contains($0.key) }
        // Mostly a member, because a stranger's requests are all alike.
        let member = random.pick(rights.keys.sorted()).flatMap { random.draw(5) == 0 ? nil : $0 } ?? person
        let owner = rights.filter { $0.value == .owner }.keys.sorted().first ?? member
        let device = random.pick(world.people[member].devices)?.id
        switch random.draw(100) {
        case ..<30: try await world.push(member, zone)
        case ..<40: try await world.pull(world.sender(member), device: device, zone)
        case ..<45: try await world.recall(member, zone)
        case ..<49: try await world.pretend(member, zone)
        case ..<53: try await world.compare(world.sender(member), zone)
        case ..<60: try await world.snapshot(world.sender(member), zone)
        case ..<64: try await world.look(world.sender(member), zone)
        case ..<70: try await world.invite(owner, zone)
        case ..<76: try await world.accept(person)
        case ..<79: try await world.setRole(owner, zone)
        case ..<82: try await world.remove(random.draw(2) == 0 ? owner : member, zone, other: member)
        case ..<84: try await world.retitle(owner, zone)
        case ..<85: try await world.delete(owner, zone)
        case ..<88: if world.places.count < 6 { try await world.makeZone(person) }
        case ..<90: try await world.usePrivateZone(person)
        case ..<92: try await world.rotate(person)
        case ..<93: try await world.signOut(person)
        case ..<94: try await world.guess(person, zone)
        case ..<95: try await world.intrude(zone)
        case ..<96: try await world.babble(person, zone)
        case ..<97: try await world.watch(person)
        case ..<98: try await world.recordStream(person)
        default: try await world.removeListener(owner, zone)
        }
    }
}
