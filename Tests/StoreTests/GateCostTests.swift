import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// What a request costs the database of users.
@Suite(.serialized) struct GateCostTests {
    @Test(arguments: Store.all)
    func `a request of a member, and one of anybody in everybody's zone, reads the version once and nothing else`(
        store: Store
    ) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna")
        try await bench.add("ben", role: nil)
        let database = CountedDatabase(bench.database)
        let now = bench.now
        let policy = AccessPolicy(hasOwnUsers: true, zones: ["news": AccessPolicy.ZoneRights(everybody: .reader)])
        let gate = MemberGate(database, policy: policy, now: { now })
        let tokens = try await [bench.device("phone", of: "anna"), bench.device("phone", of: "ben")]
        for (token, zone) in [(tokens[0], "main"), (tokens[1], "news"), (tokens[0], "news")] {
            // The first request shows the token, and the second one finds what that changed.
            for _ in 1...2 { _ = try await gate.access(to: zone, token: token) { _ in } }
            database.reset()
            let access = try await gate.access(to: zone, token: token) { _ in }
            #expect(access.role == (zone == "main" ? .writer : .reader))
            #expect(database.counts == CountedDatabase.Counts(versions: 1))
            // So does the question before the answer goes out.
            database.reset()
            try await gate.confirm(access, token: token)
            #expect(database.counts == CountedDatabase.Counts(versions: 1))
        }
        // A right that ends counts at the next request, although the gate remembers it.
        try await bench.members { try $0.set("ben", isDisabled: true) }
        let error = await #expect(throws: TidemarkError.self) {
            _ = try await gate.access(to: "news", token: tokens[1]) { _ in }
        }
        #expect(error?.code == .signInNeeded)
        try await bench.members { try $0.set(.owner, of: "anna", in: "news") }
        #expect(try await gate.access(to: "news", token: tokens[0]) { _ in }.role == .owner)
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all)
    func `a sender who is over the limit costs no look at the zone, and a text that is no token costs nothing`(
        store: Store
    ) async throws {
        struct Limit: Error {}
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna")
        let database = CountedDatabase(bench.database)
        let now = bench.now
        let gate = MemberGate(database, now: { now })
        let token = try await bench.device("phone", of: "anna")
        for _ in 1...2 { _ = try await gate.access(to: "main", token: token) { _ in } }
        database.reset()
        await #expect(throws: Limit.self) {
            _ = try await gate.access(to: "other", token: token) { caller in
                #expect(caller.userID == "anna")
                throw Limit()
            }
        }
        #expect(database.counts == CountedDatabase.Counts(versions: 1))
        database.reset()
        for text in ["", "tmd_", "eyJhbGciOiJub25lIn0.e30.", nil] {
            await #expect(throws: TidemarkError.self) {
                _ = try await gate.access(to: "main", token: text) { #expect($0 == .anonymous) }
            }
        }
        #expect(database.counts == CountedDatabase.Counts())
        withExtendedLifetime(place) {}
    }
}
