import Testing
import TidemarkCore
import TidemarkEmbedded
import TidemarkEngine

@testable import TidemarkIdentity

/// The gate before a zone, for users of a provider: real tokens, a real file of members.
@Suite struct ProviderUserTests {
    private static let key = SigningKey.es256()

    /// A gate, and the file that an operator's commands open at the same time.
    private struct Entrance {
        let gate: MemberGate
        let members: AccessFile
        /// Keeps the folder of the file.
        let place: Place

        init(_ place: Place, zones: [String: AccessPolicy.ZoneRights] = [:], hasOwnUsers: Bool = false) async throws {
            self.place = place
            let verifier = try await place.verifier(of: [key])
            let path = place.path("access.sqlite")
            members = try AccessFile(path: path)
            gate = MemberGate(
                try AccessFile(path: path),
                policy: AccessPolicy(hasOwnUsers: hasOwnUsers, verifier: verifier, zones: zones), now: { TestToken.now }
            )
        }

        func access(_ token: String?, to zone: String = "main") async throws -> Role {
            try await gate.access(to: zone, token: token) { _ in }.role
        }

        func code(_ token: String?, to zone: String = "main") async -> ErrorCode? {
            do {
                _ = try await access(token, to: zone)
                return nil
            } catch { return (error as? TidemarkError)?.code }
        }

        func change(_ body: @escaping @Sendable (Members) throws -> Void) async throws {
            try await members.transaction { try body(Members($0, now: TestToken.now)) }
        }

        var users: [Members.User] {
            get async throws { try await members.transaction { try Members($0, now: 0).users() } }
        }

        var additions: Int {
            get async throws {
                try await members.transaction { try Audit($0, now: 0).entries(since: 0) }.filter {
                    $0.action == "userAdded"
                }.count
            }
        }
    }

    @Test func `a provider's user is recorded once, at first sight`() async throws {
        let entrance = try await Entrance(try Place())
        let token = try TestToken().text(by: Self.key)
        for _ in 1...3 { #expect(await entrance.code(token) == .unknownZone) }
        #expect(try await entrance.users.map(\.id) == ["acme|248289"])
        #expect(try await entrance.additions == 1)
        let other = try TestToken().text(by: .es256())
        #expect(await entrance.code(other) == .signInNeeded)
        #expect(try await entrance.users.count == 1)
    }

    @Test func `memberships and a ban count at the next request, whatever the token says`() async throws {
        let entrance = try await Entrance(try Place())
        let token = try TestToken().text(by: Self.key)
        #expect(await entrance.code(token) == .unknownZone)
        try await entrance.change { try $0.set(.owner, of: "acme|248289", in: "main") }
        #expect(try await entrance.access(token) == .owner)
        try await entrance.change { _ = try $0.set("acme|248289", isDisabled: true) }
        #expect(await entrance.code(token) == .signInNeeded)
        try await entrance.change { _ = try $0.set("acme|248289", isDisabled: false) }
        #expect(try await entrance.access(token) == .owner)
        #expect(await entrance.code(token, to: "other") == .unknownZone)
    }

    @Test func `the stronger one of membership and the rights of everybody counts`() async throws {
        let rights = [
            "all": AccessPolicy.ZoneRights(everybody: .writer),
            "news": AccessPolicy.ZoneRights(isOpenToAnonymous: true),
        ]
        let entrance = try await Entrance(try Place(), zones: rights)
        let token = try TestToken().text(by: Self.key)
        #expect(try await entrance.access(token, to: "all") == .writer)
        #expect(try await entrance.access(token, to: "news") == .reader)
        try await entrance.change { members in
            try members.set(.reader, of: "acme|248289", in: "all")
            try members.set(.owner, of: "acme|248289", in: "news")
        }
        #expect(try await entrance.access(token, to: "all") == .writer)
        #expect(try await entrance.access(token, to: "news") == .owner)
        // A former member has the rights of everybody, and no others.
        try await entrance.change { members in
            try members.set(nil, of: "acme|248289", in: "all")
            try members.set(.reader, of: "acme|248289", in: "main")
            try members.set(nil, of: "acme|248289", in: "main")
        }
        #expect(try await entrance.access(token, to: "all") == .writer)
        #expect(await entrance.code(token) == .accessRevoked)
    }

    @Test func `a sender without a token reads an open zone, and a bad token is no way in`() async throws {
        let rights = ["news": AccessPolicy.ZoneRights(isOpenToAnonymous: true)]
        let entrance = try await Entrance(try Place(), zones: rights)
        #expect(try await entrance.access(nil, to: "news") == .reader)
        #expect(await entrance.code(nil, to: "main") == .signInNeeded)
        #expect(await entrance.code("nonsense", to: "news") == .signInNeeded)
        #expect(await entrance.code("tmd_nonsense", to: "news") == .signInNeeded)
    }

    @Test func `own tokens work beside a provider's only if the configuration says so`() async throws {
        for hasOwnUsers in [true, false] {
            let entrance = try await Entrance(try Place(), hasOwnUsers: hasOwnUsers)
            let texts = try await entrance.members.transaction { statements in
                try Members(statements, now: TestToken.now).add("anna")
                var generator = SystemRandomNumberGenerator()
                let tokens = Tokens(statements, now: TestToken.now)
                let signIn = try tokens.issue(.signIn, to: "anna", duration: 1_000, using: &generator)
                let device = try tokens.exchange(signIn, device: "d1", using: &generator)
                let administrator = try tokens.issue(.administrator, to: "anna", duration: 1_000, using: &generator)
                return [device?.token ?? "", administrator.text]
            }
            #expect(await entrance.code(texts[0]) == (hasOwnUsers ? .unknownZone : .signInNeeded))
            #expect(try await entrance.gate.caller(token: texts[1]).isAdministrator)
            let exchange = { try await entrance.gate.exchange(texts[0], device: "d1").user }
            if hasOwnUsers {
                #expect(try await exchange() == "anna")
            } else {
                await #expect(throws: TidemarkError.self) { try await exchange() }
            }
            guard hasOwnUsers, case .user(let user) = try await entrance.gate.caller(token: texts[0]) else { continue }
            #expect(user.device == "d1")
        }
    }

    @Test func `another policy counts from the next request on`() async throws {
        let entrance = try await Entrance(try Place())
        let token = try TestToken().text(by: Self.key)
        #expect(await entrance.code(token) == .unknownZone)
        entrance.gate.follow(.ownUsers)
        #expect(await entrance.code(token) == .signInNeeded)
    }
}
