import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// Tokens on both stores: how a device gets one, renews it and loses it.
@Suite(.serialized) struct TokenExchangeTests {
    private static let day: Int64 = 86_400_000

    @Test(arguments: Store.all) func `a sign-in token admits to no zone, and becomes the token of a device`(
        store: Store
    ) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna")
        let signIn = try await bench.issue(.signIn, to: "anna")
        #expect(try await bench.refusal(of: signIn) == .signInNeeded)
        let issued = try await bench.gate.exchange(signIn, device: "phone")
        #expect(issued.user == "anna")
        #expect(issued.expires == bench.now + 90 * Self.day)
        #expect(try await bench.refusal(of: issued.token) == nil)
        let user = Caller.User(id: "anna", expires: issued.expires, device: "phone")
        #expect(try await bench.gate.caller(token: issued.token) == .user(user))
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `a sign-in token is used once: after its device has come, no other one gets in`(
        store: Store
    ) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna")
        let signIn = try await bench.issue(.signIn, to: "anna")
        let lost = try await bench.gate.exchange(signIn, device: "phone").token
        let phone = try await bench.gate.exchange(signIn, device: "phone").token
        #expect(try await bench.user(lost) == nil, "the unused token of the first exchange")
        #expect(try await bench.user(phone) == "anna")
        for _ in 0..<2 {
            await #expect(throws: TidemarkError.self) { try await bench.gate.exchange(signIn, device: "thief") }
        }
        // People paste a link twice, so the phone stays signed in.
        #expect(try await bench.user(phone) == "anna")
        #expect(try await bench.audit().contains("tokenReused") == false)
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `a lost answer loses nothing: the old token stays valid until the new one is used`(
        store: Store
    ) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna")
        let first = try await bench.device("phone", of: "anna")
        #expect(try await bench.user(first) == "anna")
        let lost = try await bench.gate.exchange(first, device: "phone").token
        #expect(try await bench.user(first) == "anna")
        let second = try await bench.gate.exchange(first, device: "phone").token
        #expect(try await bench.user(first) == "anna")
        #expect(try await bench.user(second) == "anna")
        #expect(try await bench.user(lost) == nil)
        #expect(try await bench.user(second) == "anna", "a token that nobody issued revokes nothing")
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `a copied token that is shown after its successor ends the chain, and is audited`(
        store: Store
    ) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna")
        let copied = try await bench.device("phone", of: "anna")
        let other = try await bench.device("laptop", of: "anna")
        let thief = try await bench.gate.exchange(copied, device: "phone").token
        #expect(try await bench.user(thief) == "anna")
        let next = try await bench.gate.exchange(thief, device: "phone").token
        bench.advance(by: TokenState.grace + 1)
        #expect(try await bench.user(copied) == nil)
        for token in [copied, thief, next] { #expect(try await bench.user(token) == nil) }
        #expect(try await bench.audit().count { $0 == "tokenReused" } == 1)
        #expect(try await bench.user(other) == "anna", "another device has another chain")
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `a cancelled request that arrives within a minute of the rotation ends nothing`(
        store: Store
    ) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna")
        let old = try await bench.device("phone", of: "anna")
        #expect(try await bench.user(old) == "anna")
        let new = try await bench.gate.exchange(old, device: "phone").token
        #expect(try await bench.user(new) == "anna")
        for pause in [0, TokenState.grace] {
            bench.advance(by: pause)
            #expect(try await bench.user(old) == nil)
            await #expect(throws: TidemarkError.self) { try await bench.gate.exchange(old, device: "phone") }
            await #expect(throws: TidemarkError.self) { try await bench.gate.revoke(old) }
            #expect(try await bench.user(new) == "anna")
        }
        #expect(try await bench.audit().contains("tokenReused") == false)
        bench.advance(by: 1)
        #expect(try await bench.user(old) == nil)
        #expect(try await bench.user(new) == nil)
        #expect(try await bench.audit().last == "tokenReused")
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `a refused exchange of a copied token ends the chain as well`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna")
        let copied = try await bench.device("phone", of: "anna")
        let successor = try await bench.gate.exchange(copied, device: "phone").token
        #expect(try await bench.user(successor) == "anna")
        bench.advance(by: TokenState.grace + 1)
        await #expect(throws: TidemarkError.self) { try await bench.gate.exchange(copied, device: "phone") }
        #expect(try await bench.user(successor) == nil)
        #expect(try await bench.audit().last == "tokenReused")
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `twenty exchanges at once leave one new token, and the old one`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        let other = bench.node(try await place.open())
        try await bench.add("anna")
        let old = try await bench.device("phone", of: "anna")
        #expect(try await bench.user(old) == "anna")
        let new = try await withThrowingTaskGroup(of: String.self, returning: [String].self) { group in
            for number in 0..<20 {
                let gate = number.isMultiple(of: 2) ? bench.gate : other.gate
                group.addTask { try await gate.exchange(old, device: "phone").token }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(new).count == 20)
        #expect(try await bench.user(old) == "anna")
        var users: [String] = []
        for token in new { if let user = try await bench.user(token) { users.append(user) } }
        #expect(users == ["anna"])
        #expect(try await bench.user(old) == nil)
    }

    @Test(arguments: Store.all) func `of two devices with one sign-in token, one gets in`(store: Store) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        let other = bench.node(try await place.open())
        try await bench.add("anna")
        let signIn = try await bench.issue(.signIn, to: "anna")
        async let first = bench.gate.exchange(signIn, device: "phone").token
        async let second = other.gate.exchange(signIn, device: "laptop").token
        let tokens = try await [first, second]
        var users: [String?] = []
        for token in tokens { users.append(try await bench.user(token)) }
        #expect(users.compactMap(\.self) == ["anna"])
        await #expect(throws: TidemarkError.self) { try await other.gate.exchange(signIn, device: "third") }
    }

    @Test(arguments: Store.all) func `tokens end by the clock, also those that the gate remembers`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna")
        let signIn = try await bench.issue(.signIn, to: "anna")
        let phone = try await bench.device("phone", of: "anna")
        #expect(try await bench.user(phone) == "anna")
        bench.advance(by: 7 * Self.day - 1)
        _ = try await bench.gate.exchange(signIn, device: "laptop")
        bench.advance(by: 1)
        await #expect(throws: TidemarkError.self) { try await bench.gate.exchange(signIn, device: "laptop") }
        bench.advance(by: 83 * Self.day - 1)
        #expect(try await bench.user(phone) == "anna")
        bench.advance(by: 1)
        #expect(try await bench.user(phone) == nil)
        await #expect(throws: TidemarkError.self) { try await bench.gate.exchange(phone, device: "phone") }
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `a device that renews its token for years leaves few rows behind`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna")
        var token = try await bench.device("phone", of: "anna")
        for _ in 0..<24 {
            #expect(try await bench.user(token) == "anna")
            bench.advance(by: 60 * Self.day)
            token = try await bench.gate.exchange(token, device: "phone").token
        }
        #expect(try await bench.user(token) == "anna")
        let rows = try await bench.database.read { try $0.rows("SELECT state FROM tidemark_token ORDER BY 1", []) }
        #expect(rows.map { $0.text(0) } == ["active", "retired"])
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `a sign-out ends the successor that a thief has not shown yet`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna")
        let phone = try await bench.device("phone", of: "anna")
        #expect(try await bench.user(phone) == "anna")
        let thief = try await bench.gate.exchange(phone, device: "phone").token
        try await bench.gate.revoke(phone)
        for token in [phone, thief] {
            #expect(try await bench.user(token) == nil)
            await #expect(throws: TidemarkError.self) { try await bench.gate.exchange(token, device: "phone") }
            await #expect(throws: TidemarkError.self) { try await bench.gate.revoke(token) }
        }
        #expect(try await bench.audit().suffix(2) == ["tokenExchanged", "tokenRevoked"])
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `the token of an administrator is not exchanged, and stays as it is`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("root")
        let token = try await bench.issue(.administrator, to: "root")
        for _ in 0..<2 {
            #expect(try await bench.gate.caller(token: token).isAdministrator)
            let error = await #expect(throws: TidemarkError.self) {
                try await bench.gate.exchange(token, device: "phone")
            }
            #expect(error?.code == .notAllowed)
        }
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `no token is issued to a user who is not there`(store: Store) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        let error = await #expect(throws: TidemarkError.self) { try await bench.issue(.signIn, to: "nobody") }
        #expect(error?.code == .invalidArgument)
        #expect(try await bench.content().allSatisfy(\.isEmpty))
        withExtendedLifetime(place) {}
    }
}
