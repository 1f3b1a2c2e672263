import Testing

extension IntegrationTests {
    /// `tidemark-dev simulate` as people and machines use it.
    @Suite struct SimulateTests {
        @Test func `A15: the same seeds are the same worlds in two processes`() async throws {
            let workshop = try Workshop()
            let arguments = ["simulate", "--seed", "11", "--seeds", "4", "--rounds", "40", "--json"]
            let first = try await workshop.startTidemarkDev(arguments).finished()
            let second = try await workshop.startTidemarkDev(arguments).finished()
            #expect(first.output.contains("\"hash\""))
            #expect(first.output == second.output)
        }

        @Test func `a profile that is not there is refused with those that are`() async throws {
            let workshop = try Workshop()
            let result = try await workshop.startTidemarkDev(["simulate", "--profile", "weather"]).finished()
            #expect(result.status == 64)
            #expect(result.errors.contains("network"))
        }
    }
}
