import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

/// Private and shared zones, made and deleted while the server runs, on each store.
@Suite(.serialized) struct ZoneLifeTests {
    private static let schema = """
        CREATE TABLE list (id INTEGER PRIMARY KEY, title TEXT NOT NULL);
        CREATE TABLE item (id INTEGER PRIMARY KEY, list_id INTEGER NOT NULL REFERENCES list (id), text TEXT);
        """

    private static func place(_ store: Store) async throws -> ZonePlace {
        let place = try await ZonePlace(store, schema)
        for user in ["anna", "ben", "cleo"] { try await place.add(user) }
        return place
    }

    private static func write(_ title: String, as access: ZoneAccess, _ place: ZonePlace) async throws -> Answer {
        let body =
            #"{"maxRevision":0,"changeSets":[{"list":{"create":[-1],"#
            + #""attributes":{"-1":{"title":"\#(title)"}}}}]}"#
        return try Answer(try await place.service.sync(access, body: Array(body.utf8)))
    }

    private static func code(_ body: () async throws -> Void) async -> ErrorCode? {
        do {
            try await body()
            return nil
        } catch { return (error as? TidemarkError)?.code }
    }

    private static func shared(_ place: ZonePlace, by user: String = "anna", request: String = "r1") async throws
        -> ZoneAccess
    {
        let zone = try await place.registry.make(.shared, title: "Shopping", by: user, request: request)
        return try #require(try await place.access(user, to: zone.name))
    }

    @Test(arguments: Store.all)
    func `two users' private zones have the same tables and no row in common`(store: Store) async throws {
        let place = try await Self.place(store)
        let anna = try await place.registry.ownZone(of: "anna")
        let ben = try await place.registry.ownZone(of: "ben")
        #expect(anna.name != ben.name && ZoneName.isValid(anna.name))
        #expect(try await place.registry.ownZone(of: "anna").name == anna.name)
        for zone in [anna, ben] { try await place.registry.prepare(zone) }
        let annas = try #require(try await place.access("anna", to: anna.name))
        let bens = try #require(try await place.access("ben", to: ben.name))
        #expect(try await place.access("ben", to: anna.name) == nil)
        #expect(try await Self.write("anna's", as: annas, place).revisions == [1])
        let answer = try await place.service.sync(bens, body: Array(#"{"maxRevision":0}"#.utf8))
        #expect(try Answer(answer).maxRevision == 0)
        #expect(try await place.service.schema(annas).json.isEmpty == false)
        let digests = try await [place.service.digest(annas), place.service.digest(bens)]
        #expect(digests[0].tables.map(\.rows).reduce(0, +) == 1 && digests[1].tables.map(\.rows).reduce(0, +) == 0)
    }

    @Test(arguments: Store.all)
    func `a zone that the operator names is made once, and keeps its rows when it is named again`(store: Store)
        async throws
    {
        let place = try await Self.place(store)
        for name in ["main", "news", "news"] { try await place.host.makeZone(name) }
        #expect(try await Self.write("one", as: .local("news"), place).revisions == [1])
        try await place.host.makeZone("news")
        #expect(try await place.service.latest(.local("news")).revision == 1)
        #expect(try await place.service.latest(.local("main")).revision == 0)
    }

    @Test(arguments: Store.all)
    func `zones of everybody stand in the list after the own ones, with the stronger role, unless they are deleted`(
        store: Store
    ) async throws {
        let place = try await Self.place(store)
        let access = try await Self.shared(place)
        try await place.host.makeZone("news")
        let gone = try await Self.shared(place, by: "ben", request: "r2")
        try await place.registry.delete(gone)
        let roles: [String: Role] = ["news": .reader, access.zone: .writer, gone.zone: .writer, "main": .reader]
        let clock = place.clock
        let registry = ZoneRegistry(place.database, host: place.host, openZones: { roles }, now: { clock.now })
        let now = clock.now
        try await place.database.transaction { try Members($0, now: now).set(.writer, of: "ben", in: "news") }
        let annas = try await registry.memberships(of: "anna")
        #expect(annas.map(\.zone.name) == [access.zone, "main", "news"])
        #expect(annas.map(\.zone.kind) == [.shared, .public, .public])
        #expect(annas.map(\.role) == [.owner, .reader, .reader] && annas.map(\.members) == [1, nil, nil])
        let bens = try await registry.memberships(of: "ben")
        #expect(bens.map(\.zone.name) == ["main", "news", access.zone])
        #expect(bens.map(\.role) == [.reader, .writer, .writer] && bens.map(\.members) == [nil, 1, nil])
        #expect(bens.last?.zone.title == "Shopping")
    }

    @Test(arguments: Store.all)
    func `the same request for a zone makes it once, also after a server was killed in between`(store: Store)
        async throws
    {
        let place = try await Self.place(store)
        let now = place.clock.now
        // The server is killed after it has planned the zone.
        let planned = try await place.database.transaction { statements in
            var generator = SystemRandomNumberGenerator()
            return try Zones(statements, now: now)
                .make(.shared, title: "Shopping", by: "anna", request: "r1", using: &generator)
        }
        #expect(planned.life == .planned)
        let made = try await place.registry.make(.shared, title: "Shopping", by: "anna", request: "r1")
        #expect(made.name == planned.name)
        let access = try #require(try await place.access("anna", to: made.name))
        #expect(try await Self.write("one", as: access, place).revisions == [1])
        let again = try await place.registry.make(.shared, title: "Shopping", by: "anna", request: "r1")
        #expect(again.name == made.name && again.life == .ready)
        #expect(try await place.registry.make(.shared, title: nil, by: "ben", request: "r1").name != made.name)
        #expect(try await place.registry.memberships(of: "anna").map(\.zone.name) == [made.name])
    }

    @Test(arguments: Store.all)
    func `an invitation is accepted once for each use, and by the same user again without one`(store: Store)
        async throws
    {
        let place = try await Self.place(store)
        let access = try await Self.shared(place)
        let secret = try await place.registry.invite(access, as: .writer, uses: 1, days: 7)
        #expect(try await place.registry.accept(secret, by: "ben").role == .writer)
        #expect(try await place.registry.accept(secret, by: "ben").role == .writer)
        #expect(await Self.code { _ = try await place.registry.accept(secret, by: "cleo") } == .invitationInvalid)
        // The owner who opens the own link stays the owner.
        #expect(try await place.registry.accept(secret, by: "anna").role == .owner)
        let members = try await place.registry.members(access)
        #expect(members.map(\.user) == ["anna", "ben"] && members.map(\.role) == [.owner, .writer])
    }

    @Test(arguments: Store.all)
    func `an invitation that is late, revoked, unknown, or of a deleted zone, gets one and the same error`(store: Store)
        async throws
    {
        let place = try await Self.place(store)
        let access = try await Self.shared(place)
        let late = try await place.registry.invite(access, as: .reader, uses: 1, days: 1)
        place.clock.advance(days: 2)
        let revoked = try await place.registry.invite(access, as: .reader, uses: 1, days: 1)
        let id = try #require(try await place.registry.invitations(access).first?.id)
        try await place.registry.revokeInvitation(id, access)
        let gone = try await Self.shared(place, request: "r2")
        let ofDeleted = try await place.registry.invite(gone, as: .reader, uses: 1, days: 1)
        try await place.registry.delete(gone)
        var errors: Set<TidemarkError> = []
        for secret in [late, revoked, ofDeleted, "tmi_aaaaaaaa_" + String(repeating: "a", count: 52), "", "tmi_"] {
            do {
                _ = try await place.registry.accept(secret, by: "ben")
                Issue.record("accepted")
            } catch let error as TidemarkError { errors.insert(error) }
        }
        #expect(errors.map(\.code) == [.invitationInvalid])
        #expect(try await place.access("ben", to: access.zone) == nil)
    }

    @Test(arguments: Store.all)
    func `of two people who accept the last use at once, one becomes a member`(store: Store) async throws {
        let place = try await Self.place(store)
        let access = try await Self.shared(place)
        for _ in 0..<5 {
            let secret = try await place.registry.invite(access, as: .reader, uses: 1, days: 1)
            async let ben = Self.code { _ = try await place.registry.accept(secret, by: "ben") }
            async let cleo = Self.code { _ = try await place.registry.accept(secret, by: "cleo") }
            let codes = await [ben, cleo]
            #expect(codes.count { $0 == nil } == 1, "\(codes)")
            for user in ["ben", "cleo"] { try await place.registry.remove(user, access) }
        }
    }

    @Test(arguments: Store.all)
    func `a zone keeps an owner: the last one can neither leave nor step down, but hand over`(store: Store) async throws
    {
        let place = try await Self.place(store)
        let access = try await Self.shared(place)
        #expect(await Self.code { try await place.registry.remove("anna", access) } == .lastOwner)
        #expect(await Self.code { try await place.registry.set(.writer, of: "anna", access) } == .lastOwner)
        let secret = try await place.registry.invite(access, as: .reader, uses: 1, days: 1)
        _ = try await place.registry.accept(secret, by: "ben")
        try await place.registry.set(.owner, of: "ben", access)
        try await place.registry.remove("anna", access)
        #expect(try await place.access("anna", to: access.zone) == nil)
        #expect(try await place.access("ben", to: access.zone)?.role == .owner)
    }

    @Test(arguments: Store.all)
    func `writers and readers change no members, and a private zone gets none`(store: Store) async throws {
        let place = try await Self.place(store)
        let access = try await Self.shared(place)
        let secret = try await place.registry.invite(access, as: .reader, uses: 1, days: 1)
        _ = try await place.registry.accept(secret, by: "ben")
        for role in [Role.writer, .reader] {
            try await place.registry.set(role, of: "ben", access)
            let bens = try #require(try await place.access("ben", to: access.zone))
            let attempts: [() async throws -> Void] = [
                { try await place.registry.set(.owner, of: "ben", bens) },
                { try await place.registry.remove("anna", bens) },
                { _ = try await place.registry.invite(bens, as: .reader, uses: 1, days: 1) },
                { _ = try await place.registry.invitations(bens) }, { try await place.registry.delete(bens) },
                { try await place.registry.retitle(bens, "mine") },
            ]
            for attempt in attempts { #expect(await Self.code(attempt) == .notAllowed) }
            #expect(try await place.registry.members(bens).count == 2)
        }
        let own = try await place.registry.ownZone(of: "anna")
        let annas = try #require(try await place.access("anna", to: own.name))
        #expect(
            await Self.code { _ = try await place.registry.invite(annas, as: .reader, uses: 1, days: 1) } == .notAllowed
        )
        #expect(await Self.code { try await place.registry.set(.reader, of: "ben", annas) } == .notAllowed)
        #expect(await Self.code { try await place.registry.delete(annas) } == .notAllowed, "it would be gone for days")
        #expect(try await place.registry.ownZone(of: "anna").name == own.name)
    }

    @Test(arguments: Store.all)
    func `a deleted zone can be restored with its rows for thirty days, then it is gone for good`(store: Store)
        async throws
    {
        let place = try await Self.place(store)
        let access = try await Self.shared(place)
        _ = try await Self.write("kept", as: access, place)
        try await place.registry.delete(access)
        #expect(try await place.registry.memberships(of: "anna").isEmpty)
        place.clock.advance(days: 29)
        #expect(try await place.registry.purge().isEmpty)
        #expect(try await place.restore(access.zone) == .planned)
        #expect(try await place.restore(access.zone) == nil)
        #expect(try await place.service.latest(access).revision == 1)
        try await place.registry.delete(access)
        place.clock.advance(days: 31)
        #expect(try await place.registry.purge() == [access.zone])
        #expect(try await place.registry.purge().isEmpty)
        await #expect(throws: TidemarkError.self) { _ = try await place.service.latest(access) }
        #expect(try await place.access("anna", to: access.zone) == nil)
    }

    @Test(arguments: ZoneLife.allCases, ZoneLife.Event.allCases)
    func `each event in each state of a zone`(life: ZoneLife, event: ZoneLife.Event) {
        let expected: ZoneLife? =
            switch (life, event) {
            case (.planned, .made), (.ready, .made): .ready
            case (.planned, .deleted), (.ready, .deleted), (.deleted, .deleted): .deleted
            case (.deleted, .restored): .planned
            case (.deleted, .made), (.planned, .restored), (.ready, .restored): nil
            }
        #expect(life.after(event) == expected)
    }
}
