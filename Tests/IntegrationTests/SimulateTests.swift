import Testing

extension IntegrationTests {
    /// `tidemark-dev simulate` for people and scripts.
    @Suite struct SimulateTests {
        @Test func `A15: equal seeds give equal worlds in two processes`() async throws {
            let workshop = try Workshop()
            let arguments = ["simulate", "--seed", "11", "--seeds", "4", "--rounds", "40", "--json"]
            let first = try await workshop.startTidemarkDev(arguments).finished()
            let second = try await workshop.startTidemarkDev(arguments).finished()
            #expect(first.output.contains("\"hash\""))
            #expect(first.output == second.output)
        }

        @Test func `an unknown profile is refused with the list of profiles`() async throws {
            let workshop = try Workshop()
            let result = try await workshop.startTidemarkDev(["simulate", "--profile", "weather"]).finished()
            #expect(result.status == 64)
            #expect(result.errors.contains("network"))
        }
    }
}
