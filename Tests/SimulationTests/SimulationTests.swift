import Testing
import TidemarkSimulation

/// Worlds from seeds, as `tidemark simulate` runs them.
@Suite(.serialized) struct SimulationTests {
    @Test(arguments: [Profile.all, .network, .crash])
    func `A1 A6 A7 A10: whatever happens in dozens of worlds, all files end up equal`(
        profile: Profile
    ) async throws {
        let result = try await Campaign(seeds: 1..<31, rounds: 60, profile: profile).run()
        #expect(result.failures == [])
    }

    @Test func `A15: one seed is one world, however often it runs`() async throws {
        let result = try await Campaign(seeds: 1..<11, rounds: 60, runsTwice: true).run()
        #expect(result.failures == [])
    }
}
