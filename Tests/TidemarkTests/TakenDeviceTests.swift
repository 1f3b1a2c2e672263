import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Hole 1.2: the id of a device belongs to one user, and a file that another user opens takes a new one.
@Suite struct TakenDeviceTests {
    /// A server that knows some device ids as other users'.
    private struct OwnedDevices: ForwardingTransport {
        let real: InProcessTransport
        /// The ids; nil for all.
        let taken: [String]?

        func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
            let text = String(decoding: body, as: UTF8.self)
            let isTaken = taken?.contains { text.contains(#""device":"\#($0)""#) } ?? true
            guard !isTaken else {
                throw TidemarkError(.deviceTaken, "The device is another user's.", fix: "Take a new identity.")
            }
            return try await real.sync(zone: zone, body: body)
        }
    }

    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT);
        INSERT INTO notes (text) VALUES ('one'), ('two');
        """

    @Test func `the device takes a new identity at once, and its pending changes go along`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        // An acknowledged change, which is the former user's.
        try await anna.write("UPDATE notes SET text = 'acknowledged' WHERE id = 1")
        try await anna.engine.sync()
        try await anna.write("UPDATE notes SET text = 'pending' WHERE id = 2")
        try await anna.write("INSERT INTO notes (text) VALUES ('new')")
        let before = try await anna.engine.status().device
        let transport = OwnedDevices(real: anna.transport, taken: [before])
        let engine = try await SyncEngine(
            anna.database, server: "http://cluster.test", user: "anna", transport: transport)
        try await engine.sync()
        let status = try await engine.status()
        #expect(status.device != before)
        #expect(status.pendingChangeSets == 0)
        #expect(status.conflicts == 0)
        let rows = "SELECT text FROM notes ORDER BY id"
        #expect(try await cluster.rows(rows) == ["acknowledged", "pending", "new"])
        #expect(try await anna.rows(rows) == ["acknowledged", "pending", "new"])
    }

    @Test func `edits that wait in a file without a user are not sent by another user than its device's`() async throws
    {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        try await anna.engine.sync()
        let before = try await anna.engine.status().device
        try await anna.write("UPDATE notes SET text = 'pending' WHERE id = 2")
        let bens = OwnedDevices(real: anna.transport, taken: [before])
        let engine = try await SyncEngine(anna.database, server: "http://cluster.test", transport: bens)
        for _ in 0..<2 {
            let error = await #expect(throws: TidemarkError.self) { try await engine.sync() }
            #expect(error?.code == .accountMismatch)
            #expect(try await engine.status().pendingChangeSets == 1)
            #expect(try await engine.status().device == before)
        }
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["one", "two"])
        // Sent by their own user, they are in nobody's way, and the file takes a new identity.
        try await anna.engine.sync()
        try await engine.sync()
        #expect(try await engine.status().device != before)
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["one", "pending"])
    }

    @Test func `a file of an older version names no user until it is opened for one`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        try await anna.write("ALTER TABLE tidemark_device DROP COLUMN user")
        #expect(try await anna.database.read { try SyncEngine.status(in: $0) }.user == nil)
        let server = "http://cluster.test"
        let engine = try await SyncEngine(anna.database, server: server, user: "anna", transport: anna.transport)
        try await engine.sync()
        #expect(try await engine.status().user == "anna")
        do {
            _ = try await SyncEngine(anna.database, server: server, user: "ben", transport: anna.transport)
            Issue.record("the file of one user was opened for another one")
        } catch let error as TidemarkError { #expect(error.code == .accountMismatch) }
    }

    @Test func `a server that refuses every identity ends the sync, and the outbox stays`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        try await anna.engine.sync()
        try await anna.write("UPDATE notes SET text = 'pending' WHERE id = 2")
        let engine = try await SyncEngine(
            anna.database, server: "http://cluster.test", user: "anna",
            transport: OwnedDevices(real: anna.transport, taken: nil))
        let error = await #expect(throws: TidemarkError.self) { try await engine.sync() }
        #expect(error?.code == .deviceTaken)
        #expect(try await engine.status().pendingChangeSets == 1)
        #expect(try await engine.status().conflicts == 0)
        try await anna.engine.sync()
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["one", "pending"])
    }
}
