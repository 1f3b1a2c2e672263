import Foundation
import Synchronization
import Testing
import TidemarkCore
import TidemarkEmbedded
import TidemarkEngine
import TidemarkTestSupport

@testable import TidemarkServer

/// Rule 30: events over real HTTP for users who may lose their access meanwhile.
@Suite(.timeLimit(.minutes(30))) struct ListenerAccessTests {
    /// The time, in milliseconds since 1970.
    private final class Clock: Sendable {
        private let time = Mutex<Int64>(1_000_000)

        var now: Int64 { time.withLock { $0 } }

        func pass(_ milliseconds: Int64) { time.withLock { $0 += milliseconds } }
    }

    /// A served zone with users, and a clock that the test moves.
    private final class Site: Sendable {
        let cluster: Cluster
        let gate: MemberGate
        private let file: AccessFile
        private let folder: URL
        private let clock = Clock()

        init() throws {
            var limits = Limits.standard
            limits.listenerTickMilliseconds = 20
            limits.heartbeatMilliseconds = 100
            cluster = try Cluster(schema: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)", limits: limits)
            folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            file = try AccessFile(path: folder.appending(path: "access.sqlite").path)
            gate = MemberGate(file, now: { [clock] in clock.now })
        }

        deinit {
            do { try FileManager.default.removeItem(at: folder) } catch {
                // A folder left behind in the system's temporary folder harms no other test.
                return
            }
        }

        /// Adds a user, and returns the token of one of the user's devices.
        func add(_ user: String, days: Int64 = 90) async throws -> String {
            try await administer { administration in
                var generator = SystemRandomNumberGenerator()
                _ = try administration.addUser(user, role: .writer, in: "main", using: &generator)
                return try administration.addToken(to: user, days: days, isAdministrator: false, using: &generator)
                    .token.text
            }
        }

        @discardableResult func administer<Success: Sendable>(
            _ body: @escaping @Sendable (Administration) throws -> Success
        ) async throws -> Success {
            let now = clock.now
            return try await file.transaction { try body(Administration($0, now: now)) }
        }

        func pass(days: Int64) { clock.pass(days * 86_400_000) }

        func commit() throws { try cluster.writeOutside("INSERT INTO notes (text) VALUES ('new')") }
    }

    @Test(arguments: ["disabled", "removed", "reader", "revoked"])
    func `a listener whose access changes receives bye, and another one goes on`(change: String) async throws {
        let site = try Site()
        let anna = try await site.add("anna")
        let ben = try await site.add("ben")
        try await TestServer.run(site.cluster.service, gate: site.gate) { server in
            let ending = try await RawListener.open(server, token: anna)
            let staying = try await RawListener.open(server, token: ben)
            for listener in [ending, staying] { #expect(await listener.revision() == 0) }
            try await site.administer { administration in
                switch change {
                case "disabled": try administration.set("anna", isDisabled: true)
                case "removed": try administration.set(nil, of: "anna", in: "main")
                case "reader": try administration.set(.reader, of: "anna", in: "main")
                default: try administration.revokeToken(String(anna.split(separator: "_")[1]))
                }
            }
            #expect(await ending.line("event:", "id:") == "event: bye")
            #expect(await ending.line("event:", "id:", "0") == "0", "the last chunk ends the answer")
            try site.commit()
            #expect(await staying.revision() == 1)
        }
    }

    @Test func `a listener ends when its token's time is over`() async throws {
        let site = try Site()
        let short = try await site.add("anna", days: 1)
        let long = try await site.add("ben", days: 10)
        try await TestServer.run(site.cluster.service, gate: site.gate) { server in
            let ending = try await RawListener.open(server, token: short)
            let staying = try await RawListener.open(server, token: long)
            for listener in [ending, staying] { #expect(await listener.revision() == 0) }
            site.pass(days: 2)
            #expect(await ending.line("event:", "id:") == "event: bye")
            try site.commit()
            #expect(await staying.revision() == 1)
        }
    }

    @Test func `a listener with a replaced token ends, and the device's new token stays good`() async throws {
        let site = try Site()
        let old = try await site.add("anna")
        try await TestServer.run(site.cluster.service, gate: site.gate) { server in
            let ending = try await RawListener.open(server, token: old)
            #expect(await ending.revision() == 0)
            let new = try await site.gate.exchange(old, device: "phone").token
            // The first use of the new token replaces the old one.
            let staying = try await RawListener.open(server, token: new)
            #expect(await staying.revision() == 0)
            #expect(await ending.line("event:", "id:") == "event: bye")
            // The look at the old token was no use of it, which would have revoked both.
            #expect(try await site.gate.caller(token: new).userID == "anna")
            try site.commit()
            #expect(await staying.revision() == 1)
        }
    }
}
