import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// Users, their roles in zones, and the audit, on both stores.
@Suite(.serialized) struct MemberTests {
    @Test(arguments: Store.all) func `a zone keeps an owner, although all others leave`(store: Store) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna", "ben", role: .owner)
        try await bench.add("anna", role: .owner, zone: "other")
        try await bench.members { try $0.set(.writer, of: "anna", in: "main") }
        let content = try await bench.content()
        for role in [Role.writer, .reader, nil] {
            for (user, zone) in [("ben", "main"), ("anna", "other")] {
                let error = await #expect(throws: TidemarkError.self) {
                    try await bench.members { try $0.set(role, of: user, in: zone) }
                }
                #expect(error?.code == .lastOwner)
                #expect(error?.message.contains(user) == true)
            }
        }
        #expect(try await bench.content() == content)
        try await bench.members { members in
            try members.set(.owner, of: "anna", in: "main")
            try members.set(nil, of: "ben", in: "main")
        }
        #expect(try await bench.members { try $0.standing(of: "ben", in: "main") } == .former)
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all)
    func `a removed user is gone with all tokens, rights and own zones, and a namesake is another`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna", "ben", role: .owner)
        let phone = try await bench.device("phone", of: "anna")
        func zones<Success: Sendable>(_ body: @escaping @Sendable (Zones) throws -> Success) async throws -> Success {
            let now = bench.now
            return try await bench.database.transaction { try body(Zones($0, now: now)) }
        }
        func makeOwn(_ seed: UInt64) async throws -> Zones.Zone {
            try await zones { zones in
                var generator = SeededGenerator(seed: seed)
                return try zones.ownZone(of: "anna", using: &generator)
            }
        }
        let own = try await makeOwn(1)
        let shared = try await zones { zones in
            var generator = SeededGenerator(seed: 7)
            return try zones.make(.shared, title: nil, by: "anna", request: "1", using: &generator)
        }
        try await bench.members { try $0.set(.writer, of: "ben", in: shared.name) }
        // Ben would stay in a zone without an owner.
        let refusal = await #expect(throws: TidemarkError.self) { try await bench.members { try $0.remove("anna") } }
        #expect(refusal?.code == .lastOwner && refusal?.message.contains(shared.name) == true)
        #expect(try await bench.user(phone) == "anna")
        try await bench.members { try $0.set(.owner, of: "ben", in: shared.name) }
        #expect(try await bench.members { try $0.remove("anna") } == [own.name])
        #expect(try await bench.user(phone) == nil)
        #expect(try await bench.members { try $0.members(of: shared.name).map(\.user) } == ["ben"])
        #expect(try await bench.members { try $0.users().map(\.id) } == ["ben"])
        #expect(try await bench.audit().last == "userRemoved")
        let unknown = await #expect(throws: TidemarkError.self) { try await bench.members { try $0.remove("anna") } }
        #expect(unknown?.code == .invalidArgument)
        try await bench.add("anna", role: nil)
        #expect(try await makeOwn(2).name != own.name)
        #expect(try await bench.members { try $0.standing(of: "anna", in: shared.name) } == .stranger)
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `the removal of a stranger leaves no trace of the zone`(store: Store) async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna", role: nil)
        #expect(try await bench.members { try $0.standing(of: "anna", in: "main") } == .stranger)
        let phone = try await bench.device("phone", of: "anna")
        #expect(try await bench.refusal(of: phone) == .unknownZone)
        #expect(try await bench.audit().contains("roleChanged") == false)
        let error = await #expect(throws: TidemarkError.self) {
            try await bench.members { try $0.set(.reader, of: "nobody", in: "main") }
        }
        #expect(error?.code == .invalidArgument)
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `names are compared byte for byte, however alike they look`(store: Store)
        async throws
    {
        let composed = "caf\u{E9}"
        let decomposed = "cafe\u{301}"
        #expect(composed == decomposed, "Swift's texts are equal")
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add(composed, role: .owner, zone: composed)
        let phone = try await bench.device("phone", of: composed)
        for _ in 0..<2 {
            #expect(try await bench.refusal(of: phone, to: composed) == nil)
            #expect(try await bench.refusal(of: phone, to: decomposed) == .unknownZone)
        }
        try await bench.add(decomposed, role: .reader, zone: decomposed)
        let users = try await bench.members { try $0.users() }
        #expect(users.map(\.roles.count) == [1, 1])
        #expect(Set(users.flatMap(\.roles.values)) == [.owner, .reader])
        withExtendedLifetime(place) {}
    }

    @Test(
        arguments: Store.all, ["", "\0", "main\0", "ma\u{301}in", "Main", "main ", "'; DROP TABLE tidemark_user; --"])
    func `a zone of another name is unknown, whatever its bytes`(store: Store, zone: String) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna")
        let phone = try await bench.device("phone", of: "anna")
        #expect(try await bench.refusal(of: phone, to: "main") == nil)
        #expect(try await bench.refusal(of: phone, to: zone) == .unknownZone)
        #expect(try await bench.refusal(of: nil, to: zone) == .signInNeeded)
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all, ["", "~", "a\0b", "a\nb", "\u{7F}", String(repeating: "é", count: 128)])
    func `a user's name that no list can show is refused`(store: Store, name: String) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        let error = await #expect(throws: TidemarkError.self) { try await bench.members { try $0.add(name) } }
        #expect(error?.code == .invalidArgument)
        #expect(try await bench.content().allSatisfy(\.isEmpty))
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `users are listed by name, with their roles, and added once`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("ben", "Zoe", "anna", "10", "9", "acme|248289", String(repeating: "é", count: 127))
        try await bench.add("anna", role: .owner, zone: "10")
        try await bench.members { try $0.set("ben", isDisabled: true) }
        let users = try await bench.members { try $0.users() }
        #expect(users.map(\.id).prefix(6) == ["10", "9", "Zoe", "acme|248289", "anna", "ben"])
        #expect(users.map(\.isDisabled) == [false, false, false, false, false, true, false])
        #expect(users[4].roles == ["main": .writer, "10": .owner])
        #expect(users.allSatisfy { $0.created == bench.now })
        #expect(try await bench.audit().count { $0 == "userAdded" } == 7)
        withExtendedLifetime(place) {}
    }

    // MARK: The audit

    @Test(arguments: Store.all) func `the audit tells every change once, in order, and no secret`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna", role: .owner)
        try await bench.members { try $0.set(.owner, of: "anna", in: "main", by: "anna") }
        let signIn = try await bench.issue(.signIn, to: "anna")
        let phone = try await bench.gate.exchange(signIn, device: "phone").token
        #expect(try await bench.user(phone) == "anna")
        bench.advance(by: 1_000)
        try await bench.gate.revoke(phone)
        let signInID = try #require(Token(signIn)).id
        let phoneID = try #require(Token(phone)).id
        let entries = try await bench.database.read { try Audit($0, now: 0).entries(since: 0) }
        #expect(
            entries.map { "\($0.action) \($0.user ?? "-") \($0.subject ?? "-") \($0.zone ?? "-") \($0.detail ?? "-")" }
                == [
                    "userAdded - anna - -", "roleChanged - anna main owner", "tokenIssued - \(signInID) - tmu for anna",
                    "tokenExchanged anna \(phoneID) - for \(signInID)", "tokenRevoked anna \(phoneID) - -",
                ]
        )
        let later = try await bench.database.read { [now = bench.now] in try Audit($0, now: 0).entries(since: now) }
        #expect(later.map(\.action) == ["tokenRevoked"])
        let text = "\(try await bench.content())"
        for token in [signIn, phone] {
            #expect(text.contains(try #require(Token(token)).hash))
            #expect(!text.contains(try #require(token.split(separator: "_").last)))
        }
        withExtendedLifetime(place) {}
    }

    @Test(arguments: Store.all) func `an entry of the audit goes after 400 days, with the next entry`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.members { try $0.add("anna") }
        bench.advance(by: 400 * 86_400_000)
        try await bench.members { try $0.add("ben") }
        #expect(try await bench.audit() == ["userAdded", "userAdded"])
        bench.advance(by: 1)
        try await bench.members { try $0.add("cleo") }
        let entries = try await bench.database.read { try Audit($0, now: 0).entries(since: 0) }
        #expect(entries.map(\.subject) == ["ben", "cleo"])
        withExtendedLifetime(place) {}
    }
}
