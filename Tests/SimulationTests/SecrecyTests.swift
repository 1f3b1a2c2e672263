import StoreTestSupport
import Testing
import TidemarkSimulation
import TidemarkTestSupport

/// Rule 8: campaigns of people who share zones; every byte that reaches anybody is searched.
@Suite(.serialized, .timeLimit(.minutes(120))) struct SecrecyTests {
    /// A stage in a store of either kind; the place keeps its files.
    private static func run(_ campaign: SecrecyCampaign, _ store: Store) async throws -> SecrecyCampaign.Result {
        guard store == .postgres else { return try await campaign.runEmbedded() }
        let place = try await ZonePlace(
            store,
            SecrecyStage.schema,
            policies: SecrecyStage.policies,
            limits: SecrecyStage.limits
        )
        let stage = SecrecyStage(service: place.service, database: place.database, host: place.host)
        let result = try await campaign.run(on: stage)
        withExtendedLifetime(place) {}
        return result
    }

    @Test(arguments: Store.all)
    func `I7: no byte that reaches a user comes from a zone that the user may not read`(store: Store) async throws {
        var total = SecrecyCampaign.Result()
        for seed in 1...UInt64(Effort.count("TIDEMARK_SECRECY", short: 3, long: 120)) {
            total += try await Self.run(SecrecyCampaign(seed: seed, steps: Effort.isLong ? 150 : 60), store)
        }
        Report.line(
            "secrecy, \(store): \(total.runs) runs, \(total.probes) probes in \(total.bytes) bytes, "
                + "\(total.violations.count) foreign"
        )
        #expect(total.violations.isEmpty, "\(total.violations.prefix(5))")
        #expect(total.surprises.isEmpty, "the server refuses what it should allow: \(total.surprises.prefix(5))")
        #expect(total.probes >= (Effort.isLong ? 1_000_000 : 10_000))
    }

    @Test(arguments: Store.all)
    func `I7: with and without a hidden zone, everybody else receives the same bytes`(store: Store) async throws {
        for seed in 1...UInt64(Effort.count("TIDEMARK_SECRECY_TWINS", short: 2, long: 40)) {
            let with = try await Self.run(SecrecyCampaign(seed: seed), store).transcript
            let without = try await Self.run(SecrecyCampaign(seed: seed, hasHiddenZone: false), store).transcript
            #expect(with.count == without.count)
            let difference = zip(with, without).first { $0 != $1 }
            #expect(difference == nil, "seed \(seed): \(difference?.0 ?? "") is not \(difference?.1 ?? "")")
        }
    }
}
