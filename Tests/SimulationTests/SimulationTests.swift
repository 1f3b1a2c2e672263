import Testing
import TidemarkSimulation
import TidemarkTestSupport

/// Rule 23: worlds from seeds, as `tidemark simulate` runs them.
///
/// `make simulate` runs longer ones.
@Suite(.serialized) struct SimulationTests {
    @Test(
        arguments: zip(
            Profile.allCases, [400, 40, 40, 40, 40, 40, 40, 40, 40, 40, 200].map { Effort.isLong ? $0 : $0 / 10 }))
    func `A1 A6 A7 A10: many short random worlds keep every promise`(profile: Profile, worlds: Int)
        async throws
    {
        let result = try await Campaign(seeds: 1..<UInt64(worlds + 1), rounds: 10, profile: profile).run()
        #expect(result.failures == [])
        #expect(result.seeds == worlds)
        Report.line("\(result.seeds) worlds of the profile \(profile.rawValue), 10 rounds each")
    }

    @Test(arguments: Profile.allCases) func `A1 A6 A7 A10: long random worlds keep every promise`(profile: Profile)
        async throws
    {
        let result = try await Campaign(
            seeds: 1..<UInt64(Effort.count(short: 2, long: 4)), rounds: 60, profile: profile
        ).run()
        #expect(result.failures == [])
    }

    @Test(arguments: Profile.allCases) func `A15: equal seeds give equal worlds, however often they run`(
        profile: Profile
    ) throws {
        let options = SimulationOptions(seed: 7, rounds: 60, profile: profile)
        let hashes = try (0..<2).map { _ in try Simulation.run(options, FileTemplates()).hash }
        #expect(hashes[0] == hashes[1])
    }

    @Test func `a world replays from its list of decisions`() throws {
        let templates = FileTemplates()
        let options = SimulationOptions(seed: 3, rounds: 60)
        let report = try Simulation.run(options, templates)
        #expect(try Simulation.run(options.replaying(report), templates).hash == report.hash)
    }

    @Test func `shrinking reduces a failing world to the few events that matter`() throws {
        let templates = FileTemplates()
        let options = SimulationOptions(seed: 3, rounds: 60)
        let report = try Simulation.run(options, templates)
        try #require(report.counters[.conflicts] > 0)
        let short = try Shrinking.shortest(report, options: options, templates: templates, runsMax: 300) {
            $0.counters[.conflicts] > 0
        }
        #expect(short.counters[.conflicts] > 0)
        #expect(short.actionCount < 12, "\(short.trace.joined(separator: "\n"))")
    }
}
