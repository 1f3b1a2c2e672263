import Foundation
import GRDB
import NIOConcurrencyHelpers
import TidemarkCore
import TidemarkTestSupport

@testable import Tidemark

/// A server with users over HTTP, and the folders of people's devices.
final class AccountWorld: Sendable {
    /// The end of a process at a durable step.
    struct Killed: Error {}

    let guarded: GuardedServer
    let server: TestServer
    private let folder: URL

    /// Runs `body` with the users anna and ben, who are members of no zone.
    static func run(_ body: @escaping @Sendable (AccountWorld) async throws -> Void) async throws {
        let guarded = try await GuardedServer()
        try await guarded.bench.add("anna", "ben", role: nil)
        try await TestServer.run(guarded.service, gate: guarded.bench.gate) { server in
            try await body(AccountWorld(guarded, server))
        }
    }

    private init(_ guarded: GuardedServer, _ server: TestServer) {
        self.guarded = guarded
        self.server = server
        folder = guarded.cluster.folder.appending(path: "devices")
    }

    /// The folder of a device.
    func folder(_ device: String) -> URL { folder.appending(path: device) }

    /// The names of the databases in a device's folder.
    func databases(of device: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder(device).path).filter { $0.hasSuffix(".sqlite") }
    }

    /// Credentials with a device token of a user.
    func credentials(of user: String) async throws -> Credentials {
        try .token(try await guarded.bench.device("token of \(user)", of: user))
    }

    /// The person who uses a device: Anna, until she passes it on.
    struct Person: Sendable {
        let credentials: Credentials
        private let name: NIOLockedValueBox<String>

        fileprivate init(tokens: [String: String]) {
            let name = NIOLockedValueBox("anna")
            self.name = name
            credentials = .provider { _ in tokens[name.withLockedValue { $0 }] }
        }

        /// The credentials are another user's from now on.
        func `is`(_ user: String) { name.withLockedValue { $0 = user } }

        /// Ben signs in on Anna's device, and out again without leaving a file; then nobody is signed in.
        func passDevice(_ account: SyncAccount) async throws {
            self.is("ben")
            try await account.signIn()
            try await account.signOut(.remove)
            self.is("anna")
        }
    }

    /// A person with tokens of Anna and of Ben.
    func person() async throws -> Person {
        Person(tokens: [
            "anna": try await guarded.bench.device("device of anna", of: "anna"),
            "ben": try await guarded.bench.device("device of ben", of: "ben"),
        ])
    }

    /// Opens the account of a device, as after each start of its app; the process ends at the step `kill`.
    func account(_ device: String, _ credentials: Credentials, kill: Int? = nil) async throws -> SyncAccount {
        let steps = NIOLockedValueBox(0)
        var environment = SyncEngine.Environment.system
        environment.checkpoint = {
            guard let kill else { return }
            let step = steps.withLockedValue { steps in
                steps += 1
                return steps
            }
            if step == kill { throw Killed() }
        }
        return try await SyncAccount(
            server: server.url, folder: folder(device), credentials: credentials, environment: environment
        ) {
            try $0.write { db in
                try db.execute(sql: "CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT)")
            }
        }
    }

    /// The notes in the private zone of a user, as a new device receives them.
    func notesOfNewDevice(of user: String) async throws -> [String] {
        let account = try await account("new \(UUID())", try await credentials(of: user))
        try await account.signIn()
        let zone = try await account.open()
        try await zone.sync.sync()
        return try await zone.notes()
    }
}

extension AccountZone {
    /// Writes a note.
    func note(_ text: String) async throws {
        try await database.write { try $0.execute(sql: "INSERT INTO notes (text) VALUES (?)", arguments: [text]) }
    }

    /// The texts of all notes, ordered.
    func notes() async throws -> [String] {
        try await database.read { try String.fetchAll($0, sql: "SELECT text FROM notes ORDER BY text") }
    }
}
