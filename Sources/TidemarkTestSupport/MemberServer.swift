public import Foundation
import GRDB
package import Logging
import Synchronization
import Tidemark
package import TidemarkCore
public import TidemarkEmbedded
package import TidemarkEngine
import TidemarkServer

/// A real server with users and members, over HTTP in the process of the test.
public final class MemberServer: Sendable {
    /// The folder of all files, removed at the end of the run.
    public let folder: URL
    /// The store of the zone `main`.
    public let store: EmbeddedStore
    /// The gate that decides about each request.
    package let gate: MemberGate
    private let access: AccessFile
    private let now: @Sendable () -> Int64
    private let port: Int
    /// The number of tokens that the test has issued.
    private let issuedCount = Atomic(0)

    /// Returns the system's time, in milliseconds since 1970.
    package static let systemTime: @Sendable () -> Int64 = {
        Int64(SyncEngine.Environment.system.now().timeIntervalSince1970 * 1_000)
    }

    /// The server's URL.
    public var url: String { "http://127.0.0.1:\(port)" }

    /// Serves a zone with the given tables and rows, and runs `body` meanwhile.
    ///
    /// - Parameters:
    ///   - schema: The SQL of the zone's file.
    ///   - now: The server's clock, in milliseconds since 1970.
    ///   - logger: Receives the server's log.
    ///   - wrap: Puts another gate before the server's own.
    ///   - body: The test.
    /// - Throws: The error of `body`, or of the server.
    package static func run(
        schema: String, now: @escaping @Sendable () -> Int64 = MemberServer.systemTime,
        logger: Logger = Logger(label: "members") { _ in SwiftLogNoOpLogHandler() },
        gate wrap: @Sendable (MemberGate) -> any AccessGate = { $0 },
        body: @Sendable (MemberServer) async throws -> Void
    ) async throws {
        let newID = SyncEngine.Environment.system.newID
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("tidemark-\(newID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let zone = folder.appendingPathComponent("zone.sqlite").path
        try await DatabaseQueue(path: zone).write { try $0.execute(sql: schema) }
        let access = try AccessFile(path: folder.appendingPathComponent("access.sqlite").path)
        let gate = MemberGate(access, now: now)
        let store = try EmbeddedStore(path: zone, newEpoch: newID())
        let application = TidemarkServerApplication(service: store, gate: wrap(gate), port: 0, logger: logger)
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let running = Task {
            defer { listening.finish() }
            try await application.run(stopsOnSignals: false) { listening.yield($0) }
        }
        let result: Result<Void, any Error>
        do {
            for await port in ports {
                try await body(
                    MemberServer(folder: folder, store: store, gate: gate, access: access, now: now, port: port))
                break
            }
            result = .success(())
        } catch { result = .failure(error) }
        running.cancel()
        _ = await running.result
        try await store.close()
        try access.close()
        try FileManager.default.removeItem(at: folder)
        try result.get()
    }

    private init(
        folder: URL, store: EmbeddedStore, gate: MemberGate, access: AccessFile, now: @escaping @Sendable () -> Int64,
        port: Int
    ) {
        self.folder = folder
        self.store = store
        self.gate = gate
        self.access = access
        self.now = now
        self.port = port
    }

    /// Adds a writer of the zone, and returns a sign-in token.
    package func invite(_ user: String, role: Role = .writer) async throws -> String {
        try await issue(.signIn, to: user, role: role)
    }

    /// Adds a writer of the zone, and returns a token of a device.
    package func deviceToken(of user: String, role: Role = .writer) async throws -> String {
        try await issue(.device, to: user, role: role)
    }

    /// Adds a user without any right, and returns a token of a device.
    package func strangerToken(of user: String) async throws -> String { try await issue(.device, to: user, role: nil) }

    private func issue(_ kind: Token.Kind, to user: String, role: Role?) async throws -> String {
        let time = now()
        let seed = UInt64(issuedCount.add(1, ordering: .relaxed).newValue)
        return try await access.transaction { statements in
            var generator = SeededGenerator(seed: seed)
            try Members(statements, now: time).add(user)
            if let role { try Members(statements, now: time).set(role, of: user, in: EmbeddedStore.zoneName) }
            return try Tokens(statements, now: time).issue(
                kind, to: user, duration: Tokens.signInDuration, using: &generator
            ).text
        }
    }

    /// Changes the rights of a user in the zone; nil takes them.
    package func set(_ role: Role?, of user: String) async throws {
        let time = now()
        try await access.transaction { try Members($0, now: time).set(role, of: user, in: EmbeddedStore.zoneName) }
    }

    /// Refuses all tokens of a user, or accepts them again.
    package func set(_ user: String, isDisabled: Bool) async throws {
        let time = now()
        _ = try await access.transaction { try Members($0, now: time).set(user, isDisabled: isDisabled) }
    }

    /// Returns the actions of the audit so far, oldest first.
    package func audit() async throws -> [String] {
        let time = now()
        return try await access.transaction { try Audit($0, now: time).entries(since: 0).map(\.action) }
    }

    /// Runs a query in the server's file, and returns each row as text joined by `|`.
    public func rows(_ sql: String) async throws -> [String] {
        try await DatabaseQueue(path: folder.appendingPathComponent("zone.sqlite").path).read { try $0.textRows(sql) }
    }
}
