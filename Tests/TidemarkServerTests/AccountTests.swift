import Foundation
import GRDB
import TidemarkCore
import Testing
import TidemarkTestSupport

@testable import Tidemark

/// B9: whose edits they are, before, during and after a sign-in, over HTTP.
@Suite struct AccountTests {
    private static func code(_ body: () async throws -> Void) async throws -> ErrorCode? {
        do {
            try await body()
            return nil
        } catch let error as TidemarkError { return error.code }
    }

    @Test func `edits before the first sign-in become the user's, in the same open file`() async throws {
        try await AccountWorld.run { world in
            let account = try await world.account("phone", try await world.credentials(of: "anna"))
            let zone = try await account.open()
            try await zone.note("before")
            #expect(try await Self.code { try await zone.sync.sync() } == .signInNeeded)
            #expect(try await zone.sync.status().user == nil)
            #expect(try await account.signIn() == "anna")
            try await zone.sync.sync()
            let status = try await zone.sync.status()
            #expect(status.user == "anna" && status.pendingChangeSets == 0)
            #expect(try await account.open().database === zone.database)
            #expect(try await world.notesOfNewDevice(of: "anna") == ["before"])
            #expect(try await world.notesOfNewDevice(of: "ben") == [])
        }
    }

    @Test
    func `rule 4 of the app's face: edits beside a file of the user are refused, set aside or adopted, and never lost`()
        async throws
    {
        try await AccountWorld.run { world in
            let person = try await world.person()
            let account = try await world.account("phone", person.credentials)
            try await account.signIn()
            var own = try await account.open()
            try await own.note("own")
            try await own.sync.sync()
            try await account.signOut(.stay)
            #expect(try await own.notes() == ["own"])
            try await person.passDevice(account)
            let nobodys = try await account.open()
            #expect(try await nobodys.notes() == [])
            try await nobodys.note("early")
            #expect(try await Self.code { try await account.signIn() } == .accountHasFile)
            #expect(await account.user == nil)
            try await account.signIn(earlierEdits: .setAside)
            own = try await account.open()
            #expect(try await own.notes() == ["own"])
            try await own.note("unsent")
            try await account.signOut(.stay, despiteWaitingChanges: true)
            #expect(try await Self.code { try await account.signIn(earlierEdits: .adopted) } == .changesWait)
            try await account.signIn(earlierEdits: .setAside)
            try await account.open().sync.sync()
            try await account.signIn(earlierEdits: .adopted)
            let merged = try await account.open()
            try await merged.sync.sync()
            #expect(try await merged.notes() == ["early", "own", "unsent"])
            #expect(try world.databases(of: "phone").count == 1)
            #expect(try await world.notesOfNewDevice(of: "anna") == ["early", "own", "unsent"])
        }
    }

    @Test
    func `rule 4 of the app's face: a sign-out is refused while edits wait; kept files go on, removed ones are gone`()
        async throws
    {
        try await AccountWorld.run { world in
            let account = try await world.account("phone", try await world.credentials(of: "anna"))
            try await account.signIn()
            var zone = try await account.open()
            try await zone.note("sent")
            try await zone.sync.sync()
            try await zone.note("waits")
            #expect(try await Self.code { try await account.signOut(.stay) } == .changesWait)
            #expect(try await Self.code { try await account.signOut(.remove) } == .changesWait)
            #expect(await account.isSignedIn)
            try await account.signOut(.stay, despiteWaitingChanges: true)
            try await zone.note("offline")
            #expect(try await Self.code { try await zone.sync.sync() } == .signInNeeded)
            try await account.signIn()
            try await zone.sync.sync()
            #expect(try await world.notesOfNewDevice(of: "anna") == ["offline", "sent", "waits"])
            try await account.signOut(.remove)
            #expect(try world.databases(of: "phone") == [])
            #expect(await account.user == nil)
            zone = try await account.open()
            #expect(try await zone.notes() == [])
        }
    }

    @Test
    func
        `rule 4 of the app's face: another user's sign-in is refused while edits wait, and sees nothing of theirs`()
        async throws
    {
        try await AccountWorld.run { world in
            let person = try await world.person()
            let account = try await world.account("phone", person.credentials)
            try await account.signIn()
            let annas = try await account.open()
            try await annas.note("anna's")
            person.is("ben")
            // The provider's user has changed under the app: the server takes nothing of Anna's file.
            #expect(try await Self.code { try await annas.sync.sync() } == .accountMismatch)
            #expect(try await annas.sync.status().obstacle == .signInNeeded)
            #expect(try await Self.code { try await account.signIn() } == .changesWait)
            try await account.signIn(despiteWaitingChanges: true)
            let bens = try await account.open()
            #expect(try await bens.notes() == [])
            try await bens.note("ben's")
            try await bens.sync.sync()
            #expect(try await Self.code { try await annas.sync.sync() } == .signInNeeded)
            person.is("anna")
            try await account.signIn()
            #expect(try await Self.code { try await bens.sync.sync() } == .signInNeeded)
            try await annas.sync.sync()
            #expect(try await world.notesOfNewDevice(of: "anna") == ["anna's"])
            #expect(try await world.notesOfNewDevice(of: "ben") == ["ben's"])
        }
    }

    @Test func `a file stays its user's when another user opens it`() async throws {
        try await AccountWorld.run { world in
            let account = try await world.account("phone", try await world.credentials(of: "anna"))
            try await account.signIn()
            let zone = try await account.open()
            try await zone.note("anna's")
            let ben = try await world.credentials(of: "ben")
            let refusal = try await Self.code {
                _ = try await SyncEngine(zone.database, server: world.server.url, credentials: ben, user: "ben")
            }
            #expect(refusal == .accountMismatch)
            #expect(try await zone.sync.status().user == "anna")
        }
    }

    @Test func `edits in a file of one user are refused with another one's token, also if the app names no user`()
        async throws
    {
        try await MemberServer.run(schema: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)") { server in
            let tokens = try await [server.deviceToken(of: "anna"), server.deviceToken(of: "ben")]
            let database = try DatabaseQueue(path: server.folder.appending(path: "device.sqlite").path)
            try await database.write { try $0.execute(sql: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)") }
            let credentials = try tokens.map { try Credentials.token($0) }
            let annas = try await SyncEngine(database, server: server.url, credentials: credentials[0], user: "anna")
            try await annas.sync()
            try await database.write { try $0.execute(sql: "INSERT INTO notes (text) VALUES ('anna''s')") }
            // Neither the caller nor the transport names a user.
            for transport in [nil, try HTTPTransport(url: server.url, credentials: credentials[1])] {
                let engine = try await SyncEngine(
                    database, server: server.url, credentials: credentials[1], transport: transport)
                #expect(try await Self.code { try await engine.sync() } == .accountMismatch)
                #expect(try await engine.status().pendingChangeSets == 1)
            }
            try await annas.sync()
            #expect(try await annas.status().pendingChangeSets == 0)
        }
    }

    @Test func `a stored token ends with the sign-out, there and here`() async throws {
        try await AccountWorld.run { world in
            let path = world.folder("tokens").appending(path: "tokens.json").path
            let store = FileTokenStore(path: path)
            let signIn = try await world.guarded.bench.issue(.signIn, to: "anna")
            let account = try await world.account("phone", .stored(in: store) { _ in signIn })
            let origin = try ServerAddress(world.server.url).origin
            try await account.signIn()
            let token = try #require(try store.token(of: origin)).token
            #expect(try await world.guarded.bench.user(token) == "anna")
            try await account.signOut(.stay)
            #expect(try store.token(of: origin) == nil)
            #expect(try await world.guarded.bench.user(token) == nil)
            #expect(try await Self.code { try await account.signIn() } == .signInNeeded)
        }
    }
}
