import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// Two connections to one database of users: the gate of one server honours each change of the other.
@Suite(.serialized) struct RevocationTests {
    @Test(arguments: Store.all) func `a revocation through one connection counts for the next request of the other`(
        store: Store
    ) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        let operator2 = bench.node(try await place.open())
        try await bench.add("anna")
        let phone = try await bench.device("phone", of: "anna")
        for _ in 0..<3 { #expect(try await bench.refusal(of: phone) == nil) }
        let id = try #require(Token(phone)).id
        #expect(try await operator2.tokens { try $0.revoke(id: id) })
        #expect(try await bench.refusal(of: phone) == .signInNeeded)
        await #expect(throws: TidemarkError.self) { try await bench.gate.exchange(phone, device: "phone") }
        #expect(try await operator2.tokens { try $0.revoke(id: id) }, "it is there, and has ended")
        #expect(try await operator2.tokens { try $0.revoke(id: "23456789") } == false)
        #expect(try await bench.audit().count { $0 == "tokenRevoked" } == 1)
    }

    @Test(arguments: Store.all) func `a disabled user is refused at once, with every token, until enabled`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        let command = bench.node(try await place.open())
        try await bench.add("anna", "ben")
        let phone = try await bench.device("phone", of: "anna")
        let signIn = try await bench.issue(.signIn, to: "anna")
        let root = try await bench.issue(.administrator, to: "anna")
        let other = try await bench.device("phone", of: "ben")
        #expect(try await bench.refusal(of: phone) == nil)
        #expect(try await command.members { try $0.set("anna", isDisabled: true) })
        for token in [phone, signIn, root] {
            #expect(try await bench.user(token) == nil)
            await #expect(throws: TidemarkError.self) { try await bench.gate.exchange(token, device: "phone") }
        }
        #expect(try await bench.refusal(of: other) == nil)
        #expect(try await command.members { try $0.set("anna", isDisabled: true) })
        #expect(try await command.members { try $0.set("anna", isDisabled: false) })
        #expect(try await bench.refusal(of: phone) == nil)
        #expect(try await command.members { try $0.set("nobody", isDisabled: true) } == false)
        #expect(try await bench.audit().filter { $0.hasPrefix("user") }.suffix(2) == ["userDisabled", "userEnabled"])
    }

    @Test(arguments: Store.all) func `a role counts for the next request, and a removed member is a former one`(
        store: Store
    ) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        let command = bench.node(try await place.open())
        try await bench.add("anna", role: .reader)
        let phone = try await bench.device("phone", of: "anna")
        for role in [Role.reader, .writer, .owner] {
            try await command.members { try $0.set(role, of: "anna", in: "main") }
            #expect(try await bench.gate.access(to: "main", token: phone) { _ in }.role == role)
        }
        try await command.add("ben", role: .owner)
        try await command.members { try $0.set(nil, of: "anna", in: "main") }
        #expect(try await bench.refusal(of: phone) == .accessRevoked)
        #expect(try await bench.refusal(of: phone, to: "other") == .unknownZone)
        try await command.members { try $0.set(.reader, of: "anna", in: "main") }
        #expect(try await bench.refusal(of: phone) == nil)
    }

    @Test(arguments: Store.all) func `a transaction that throws changes nothing, for no connection`(store: Store)
        async throws
    {
        struct Abort: Error {}
        let (bench, place) = try await AccessPlace.bench(store)
        let other = bench.node(try await place.open())
        try await bench.add("anna")
        let phone = try await bench.device("phone", of: "anna")
        #expect(try await other.refusal(of: phone) == nil)
        let content = try await bench.content()
        let versions = try await [bench.database.version(), other.database.version()]
        await #expect(throws: Abort.self) {
            try await bench.tokens { tokens in
                try tokens.revoke(id: phone.split(separator: "_").map(String.init)[1])
                throw Abort()
            }
        }
        await #expect(throws: Abort.self) {
            try await bench.members { members in
                try members.set("anna", isDisabled: true)
                try members.set(.owner, of: "anna", in: "main")
                throw Abort()
            }
        }
        #expect(try await other.content() == content)
        #expect(try await [bench.database.version(), other.database.version()] == versions)
        #expect(try await bench.refusal(of: phone) == nil)
        #expect(try await other.refusal(of: phone) == nil)
    }

    @Test(arguments: Store.all) func `every change raises the version for all connections, and a look raises none`(
        store: Store
    ) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        let other = try await place.open()
        for _ in 0..<3 {
            let before = try await [bench.database.version(), other.version()]
            #expect(try await [bench.database.version(), other.version()] == before)
            _ = try await other.read { try Members($0, now: 0).users() }
            #expect(try await [bench.database.version(), other.version()] == before)
            try await bench.members { try $0.add("user \(before)") }
            let after = try await [bench.database.version(), other.version()]
            #expect(zip(before, after).allSatisfy { $0 != $1 })
        }
    }

    @Test(arguments: Store.all) func `a look waits for no writer`(store: Store) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        let other = bench.node(try await place.open())
        try await bench.add("anna")
        let phone = try await bench.device("phone", of: "anna")
        #expect(try await bench.user(phone) == "anna")
        let latch = Latch()
        latch.close()
        async let writing: Void = other.members { members in
            try members.add("ben")
            _ = latch.passing()
        }
        // A look that fails must not leave the writer waiting, which this scope waits for at its end.
        defer { latch.open() }
        await latch.somebodyWaits()
        let stranger = "tmd_23456789_\(String(repeating: "z", count: 52))"
        #expect(try await bench.user(stranger) == nil)
        #expect(try await bench.refusal(of: phone) == nil)
        latch.open()
        try await writing
    }

    @Test(arguments: Store.all) func `a token that ends while its exchange is on the way has no successor`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        let command = bench.node(try await place.open())
        try await bench.add("anna", "ben")
        let revoked = try await bench.device("phone", of: "anna")
        let retired = try await bench.issue(.signIn, to: "anna")
        let disabled = try await bench.device("phone", of: "ben")
        let thief = try await command.gate.exchange(retired, device: "laptop").token
        let id = try #require(Token(revoked)).id
        let endings: [(String, @Sendable () async throws -> Void)] = [
            (revoked, { try await command.tokens { _ = try $0.revoke(id: id) } }),
            (retired, { _ = try await command.user(thief) }),
            (disabled, { try await command.members { _ = try $0.set("ben", isDisabled: true) } }),
        ]
        for (token, ending) in endings {
            let database = CountedDatabase(bench.database)
            let node = bench.node(database)
            // The gate knows the token, and the change comes right before its next transaction.
            try await node.gate.check(token)
            database.beforeTransaction(ending)
            let tokens = try await bench.content()[1].count
            await #expect(throws: TidemarkError.self) { try await node.gate.exchange(token, device: "other") }
            #expect(try await bench.content()[1].count == tokens)
        }
    }

    // MARK: The cost of strangers

    @Test(arguments: Store.all) func `a token that nobody issued costs one look, however often it comes`(store: Store)
        async throws
    {
        let (bench, place) = try await AccessPlace.bench(store)
        let counted = CountedDatabase(bench.database)
        let node = bench.node(counted)
        try await bench.add("anna")
        let phone = try await bench.device("phone", of: "anna")
        #expect(try await node.refusal(of: phone) == nil)
        #expect(try await node.refusal(of: phone) == nil)
        let content = try await bench.content()
        counted.reset()
        for number in 0..<3 {
            let letter = ["a", "b", "c"][number]
            let unknown = "tmd_23456789_\(String(repeating: letter, count: 52))"
            for _ in 0..<2 { #expect(try await node.user(unknown) == nil) }
        }
        #expect(counted.counts == .init(looks: 6, transactions: 0, versions: 6))
        counted.reset()
        for _ in 0..<4 { #expect(try await node.refusal(of: phone) == nil) }
        #expect(counted.counts == .init(looks: 0, transactions: 0, versions: 4), "a known token is remembered")
        counted.reset()
        for _ in 0..<4 { #expect(try await node.refusal(of: phone, to: "elsewhere") == .unknownZone) }
        #expect(counted.counts == .init(looks: 4, transactions: 0, versions: 4), "no refusal is remembered")
        #expect(try await bench.content() == content)
        withExtendedLifetime(place) {}
    }

    @Test(arguments: [
        "", "x", "tmd", "tmd__", "tmd_23456789_", "tmd_23456789_zz", "tmi_23456789_\(secret)", "TMD_23456789_\(secret)",
        "tmd_2345678_\(secret)", "tmd_23456789_\(secret)z", "tmd_23456789_\(secret)_", "tmd_2345678O_\(secret)",
        "tmd_23456789_\(secret.dropLast())1", "tmd_23456789_\(secret.dropLast())é", " tmd_23456789_\(secret)",
        "tmd_23456789_\(secret.dropLast())\0", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm5hIn0.", "tmu_23456789_\(secret)",
    ]) func `a malformed token, and one that opens nothing, cost no look`(token: String) async throws {
        let (bench, place) = try await AccessPlace.bench(.embedded)
        let counted = CountedDatabase(bench.database)
        #expect(try await bench.node(counted).refusal(of: token) == .signInNeeded)
        #expect(counted.counts == .init())
        withExtendedLifetime(place) {}
    }

    private static let secret = String(repeating: "z", count: 52)
}
