import Foundation
import GRDB
import NIOConcurrencyHelpers
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// D6: a token ends at any step of a round, and nothing is lost or doubled.
@Suite(.timeLimit(.minutes(30))) struct RefreshTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT);
        INSERT INTO notes (text) VALUES ('first'), ('second');
        """

    /// The small requests that divide a push into several.
    private static var limits: Limits {
        var limits = Limits.standard
        limits.changeSetsPerRequestMax = 2
        return limits
    }

    /// Opens a file of a device that has joined the server.
    private static func join(_ server: MemberServer, _ name: String, _ credentials: Credentials) async throws
        -> (database: DatabasePool, engine: SyncEngine)
    {
        let path = server.folder.appending(path: "\(name).sqlite").path
        let transport = try HTTPTransport(url: server.url, limits: limits, credentials: credentials)
        _ = try await DeviceFileJoin(transport: transport, server: server.url).join(path: path)
        let database = try DatabasePool(path: path)
        let engine = try await SyncEngine(database, server: server.url, transport: transport, limits: limits)
        return (database, engine)
    }

    private static func insert(_ texts: [String], into database: DatabasePool) async throws {
        for text in texts {
            try await database.write { try $0.execute(sql: "INSERT INTO notes (text) VALUES (?)", arguments: [text]) }
        }
    }

    private static let edits = (1...7).map { "edit \($0)" }

    @Test func `a token that ends at any request of a round is replaced, and the same bytes are sent again`()
        async throws
    {
        var wasReached = true
        var number = 0
        while wasReached {
            number += 1
            wasReached = try await refusalIsReached(atRequest: number)
        }
        // A join, the first sync, and a push in four requests.
        #expect(number > 5)
    }

    /// Joins and syncs while the n-th request is refused; returns whether there was an n-th request.
    private func refusalIsReached(atRequest number: Int) async throws -> Bool {
        let control = RefusingGate.Switch()
        let refusals = NIOLockedValueBox(0)
        try await MemberServer.run(schema: Self.schema, gate: { RefusingGate($0, controlledBy: control) }) { server in
            let old = try await server.deviceToken(of: "anna")
            let new = try await server.deviceToken(of: "anna")
            let token = NIOLockedValueBox(old)
            control.refuse(request: number)
            let credentials = Credentials.provider { need in
                if need == .refused {
                    refusals.withLockedValue { $0 += 1 }
                    token.withLockedValue { $0 = new }
                }
                return token.withLockedValue { $0 }
            }
            let device = try await Self.join(server, "anna", credentials)
            try await device.engine.sync()
            try await Self.insert(Self.edits, into: device.database)
            try await device.engine.sync()
            #expect(
                try await server.rows("SELECT text FROM notes ORDER BY text") == Self.edits + ["first", "second"],
                "request \(number)")
            #expect(try await device.engine.conflicts().isEmpty)
            #expect(try await device.engine.status().pendingChangeSets == 0)
            #expect(refusals.withLockedValue { $0 } <= 1, "the credentials are asked once")
            try device.database.close()
        }
        return refusals.withLockedValue { $0 } == 1
    }

    @Test func `without another token a push stops in the middle, parks nothing and goes on after a sign-in`()
        async throws
    {
        let control = RefusingGate.Switch()
        try await MemberServer.run(schema: Self.schema, gate: { RefusingGate($0, controlledBy: control) }) { server in
            let token = try await server.deviceToken(of: "anna")
            let device = try await Self.join(server, "anna", .token(token))
            try await device.engine.sync()
            try await Self.insert(Self.edits, into: device.database)
            // The second request of the push is refused.
            control.refuse(request: 2)
            let events = device.engine.deviceEvents
            let error = await #expect(throws: TidemarkError.self) { try await device.engine.sync() }
            #expect(error?.code == .signInNeeded)
            #expect(control.tokens == [token, token])
            let status = try await device.engine.status()
            #expect(status.obstacle == .signInNeeded)
            #expect(status.conflicts == 0)
            #expect(status.pendingChangeSets == Self.edits.count - 2)
            await device.engine.finishEvents()
            #expect(await events.contains(.signInNeeded))
            try await device.engine.sync()
            #expect(try await device.engine.status().obstacle == nil)
            #expect(try await server.rows("SELECT text FROM notes ORDER BY text") == Self.edits + ["first", "second"])
            try device.database.close()
        }
    }

    @Test func `the background sync of a signed-out device goes on when the app has signed in`() async throws {
        try await MemberServer.run(schema: Self.schema) { server in
            let token = NIOLockedValueBox(try await server.deviceToken(of: "anna"))
            let device = try await Self.join(server, "anna", .provider { _ in token.withLockedValue { $0 } })
            try await device.engine.sync()
            token.withLockedValue { $0 = "a-token-of-another-server" }
            var events = device.engine.deviceEvents.makeAsyncIterator()
            await device.engine.start()
            while let event = await events.next(), event != .signInNeeded {}
            try await Self.insert(["offline"], into: device.database)
            token.withLockedValue { $0 = "" }
            let fresh = try await server.deviceToken(of: "anna")
            token.withLockedValue { $0 = fresh }
            await device.engine.credentialsChanged()
            while let event = await events.next(), event != .sent(changeSets: 1) {}
            await device.engine.stop()
            #expect(try await server.rows("SELECT count(*) FROM notes WHERE text = 'offline'") == ["1"])
        }
    }

    @Test func `a device whose user is a member no longer leaves, and comes back with the next invitation`()
        async throws
    {
        try await MemberServer.run(schema: Self.schema) { server in
            let token = try await server.deviceToken(of: "anna")
            let device = try await Self.join(server, "anna", .token(token))
            try await device.engine.sync()
            try await Self.insert(["unsent"], into: device.database)
            try await server.set(nil, of: "anna")
            let error = await #expect(throws: TidemarkError.self) { try await device.engine.sync() }
            #expect(error?.code == .accessRevoked)
            #expect(error?.recovery == .leave)
            #expect(try await device.engine.status().obstacle == .accessEnded)
            let count = "SELECT count(*) FROM notes"
            #expect(try await device.database.read { try Int.fetchOne($0, sql: count) } == 0)
            let conflict = try #require(try await device.engine.conflicts().first)
            #expect(conflict.reasons.map(\.rule) == ["forbidden"])
            #expect(conflict.records.first?.mine?.contains("unsent") == true)
            try await server.set(.writer, of: "anna")
            try await device.engine.sync()
            try await device.engine.resolve(conflict.id, with: .retry)
            try await device.engine.sync()
            #expect(try await server.rows("SELECT text FROM notes ORDER BY id") == ["first", "second", "unsent"])
            #expect(try await device.database.read { try Int.fetchOne($0, sql: count) } == 3)
        }
    }

    @Test func `a device that the zone is hidden from stops, says so, and removes nothing`() async throws {
        try await MemberServer.run(schema: Self.schema) { server in
            let token = NIOLockedValueBox(try await server.deviceToken(of: "anna"))
            let device = try await Self.join(server, "anna", .provider { _ in token.withLockedValue { $0 } })
            try await device.engine.sync()
            try await Self.insert(["unsent"], into: device.database)
            // A user who never was a member.
            let stranger = try await server.strangerToken(of: "eve")
            token.withLockedValue { $0 = stranger }
            let error = await #expect(throws: TidemarkError.self) { try await device.engine.sync() }
            #expect(error?.code == .unknownZone)
            #expect(error?.message.contains("any more") == true)
            let status = try await device.engine.status()
            #expect(status.obstacle == .zoneUnknown)
            #expect(status.pendingChangeSets == 1)
            #expect(try await device.database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM notes") } == 3)
        }
    }
}
