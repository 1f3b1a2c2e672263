import StoreTestSupport
import Testing
import TidemarkSimulation
import TidemarkTestSupport

/// Rule 8: campaigns of people who share zones; every byte that reaches anybody is searched.
///
/// The requests are real HTTP with time limits, so these tests do not run beside the simulated worlds, which keep
/// every thread of the cooperative pool busy.
@Suite(.serialized, .timeLimit(.minutes(120))) struct SecrecyTests {
    /// A stage in a store of either kind; the place keeps its files.
    private static func run(_ campaign: SecrecyCampaign, _ store: Store) async throws -> SecrecyCampaign.Result {
        guard store == .postgres else { return try await campaign.runEmbedded() }
        let place = try await ZonePlace(
            store, SecrecyStage.schema, policies: SecrecyStage.policies, limits: SecrecyStage.limits)
        let stage = SecrecyStage(service: place.service, database: place.database, host: place.host)
        let result = try await campaign.run(on: stage)
        withExtendedLifetime(place) {}
        return result
    }

    @Test(arguments: Store.all)
    func `I7: no byte that reaches a user comes from a zone that the user may not read`(store: Store) async throws {
        var total = SecrecyCampaign.Result()
        for seed in 1...UInt64(Effort.count("TIDEMARK_SECRECY", short: 2, long: 8)) {
            total += try await Self.run(SecrecyCampaign(seed: seed, steps: Effort.isLong ? 150 : 60), store)
        }
        Report.line(
            "secrecy, \(store): \(total.runs) runs, \(total.probes) probes in \(total.bytes) bytes, "
                + "\(total.violations.count) foreign")
        let broken = total.violations.prefix(5).joined(separator: "\n")
        #expect(total.violations.count == 0, "\(broken)")
        let refused = total.surprises.prefix(5).joined(separator: "\n")
        #expect(total.surprises.count == 0, "the server refuses what it should allow: \(refused)")
        #expect(total.probes >= (Effort.isLong ? 300_000 : 5_000))
    }

    @Test(arguments: Store.all)
    func `I7: with and without a hidden zone, everybody else receives the same bytes`(store: Store) async throws {
        for seed in 1...UInt64(Effort.count("TIDEMARK_SECRECY_TWINS", short: 1, long: 5)) {
            var twins: [[String]] = []
            for isThere in [true, false] {
                let campaign = SecrecyCampaign(seed: seed, hasHiddenZone: isThere, assignsKeys: store == .embedded)
                twins.append(try await Self.run(campaign, store).transcript)
            }
            #expect(twins[0].count == twins[1].count)
            let index = zip(twins[0], twins[1]).enumerated().first { $0.element.0 != $0.element.1 }?.offset
            #expect(index == nil, "seed \(seed): \(index.map { "\(twins[0][$0]) is not \(twins[1][$0])" } ?? "")")
        }
    }
}
