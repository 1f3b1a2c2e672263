import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
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

        /// Serves an empty table; the server looks at the rights by itself at each tick.
        init(tickMilliseconds: Int = 20) throws {
            var limits = Limits.standard
            limits.listenerTickMilliseconds = tickMilliseconds
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

        /// Ends or narrows what a user may do; returns when the change is acknowledged.
        func end(_ user: String, by change: String, token: String) async throws {
            try await administer { administration in
                switch change {
                case "disabled": try administration.set(user, isDisabled: true)
                case "removed": try Members(administration.session).set(nil, of: user, in: "main")
                case "reader": try Members(administration.session).set(.reader, of: user, in: "main")
                default: try administration.revokeToken(String(token.split(separator: "_")[1]))
                }
            }
        }

        /// Writes a row, which is committed when this returns.
        func post(_ text: String, _ server: TestServer, token: String) async throws {
            let headers: HTTPHeaders = ["Authorization": "Bearer \(token)", "Content-Type": "application/json"]
            let body = HTTPClientRequest.Body.bytes(ByteBuffer(string: #"{"text":"\#(text)"}"#))
            #expect(try await server.send(.POST, "/tables/notes", headers: headers, body: body).status == 201)
        }

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
            try await site.end("anna", by: change, token: anna)
            #expect(await ending.line("event:", "id:") == "event: bye")
            #expect(await ending.line("event:", "id:", "0") == "0", "the last chunk ends the answer")
            try site.commit()
            #expect(await staying.revision() == 1)
        }
    }

    /// A server that never looks at the rights by itself, so that only the commit can tell it to.
    private static let never = 3_600_000

    @Test(arguments: ["disabled", "removed", "revoked"], ["/events", "/events?device=d", "/changes"])
    func `nothing that is committed after the acknowledged end of a right reaches an open stream`(
        change: String, path: String
    ) async throws {
        let site = try Site(tickMilliseconds: Self.never)
        let anna = try await site.add("anna")
        let ben = try await site.add("ben")
        try await TestServer.run(site.cluster.service, gate: site.gate) { server in
            let ending = try await RawListener.open(server, path: path, token: anna)
            let staying = try await RawListener.open(server, path: path, token: ben)
            for listener in [ending, staying] { #expect(await listener.line("id: ") != nil) }
            try await site.post("before", server, token: ben)
            for listener in [ending, staying] { #expect(await listener.line("data: ") != nil) }
            for listener in [ending, staying] { #expect(await listener.line("id: ") != nil) }
            try await site.end("anna", by: change, token: anna)
            try await site.post("secret", server, token: ben)
            while let line = await ending.line("event:", "id:", "data:") {
                #expect(!line.contains("secret") && !line.hasPrefix("id:"), "\(line)")
                if line == "event: bye" { break }
            }
            #expect(await staying.line("id: ") != nil, "another listener goes on")
        }
    }

    @Test func `a stream for another user's device is refused, and its own user's is not`() async throws {
        let site = try Site()
        let anna = try await site.add("anna")
        let ben = try await site.add("ben")
        try await TestServer.run(site.cluster.service, gate: site.gate) { server in
            let lap = #"{"last":null,"open":[],"next":"11111111-0000-4000-8000-000000000001"}"#
            let body = #"{"maxRevision":0,"device":"d","lap":\#(lap),"changeSets":[]}"#
            let headers: HTTPHeaders = ["Authorization": "Bearer \(anna)"]
            let sync = try await server.send(.POST, "/sync", headers: headers, body: .bytes(ByteBuffer(string: body)))
            #expect(sync.status == 200)
            let foreign = try await server.send(.GET, "/events?device=d", headers: ["Authorization": "Bearer \(ben)"])
            #expect(foreign.status == 403)
            #expect(try foreign.error.code == .deviceTaken)
            let own = try await RawListener.open(server, path: "/events?device=d", token: anna)
            #expect(await own.revision() == 0)
        }
    }

    @Test func `a former member who reads a stream slowly gets no page that was read after the removal`() async throws {
        let site = try Site(tickMilliseconds: Self.never)
        let anna = try await site.add("anna")
        let ben = try await site.add("ben")
        // Far more than the buffers of two sockets hold.
        try site.cluster.writeOutside(
            """
            WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 200)
            INSERT INTO notes (text) SELECT hex(zeroblob(20000)) FROM number
            """
        )
        try await TestServer.run(site.cluster.service, gate: site.gate) { server in
            try await site.post("after the backlog", server, token: ben)
            let slow = try await RawListener.open(server, path: "/changes?since=0&limit=1", token: anna, reads: false)
            try await until { site.cluster.store.fanOut.listenerCount == 1 }
            try await site.end("anna", by: "removed", token: anna)
            try await site.post("secret", server, token: ben)
            try await slow.read()
            var last = ""
            while let line = await slow.line("event:", "data:") {
                #expect(!line.contains("secret"))
                last = line
                if line.hasPrefix("event: bye") { break }
            }
            // A server under load may have closed the stalled connection before.
            #expect(last == "event: bye" || last.isEmpty)
        }
    }

    @Test func `a request whose body arrives after the removal of its sender writes and reads nothing`() async throws {
        let site = try Site()
        let anna = try await site.add("anna")
        let ben = try await site.add("ben")
        try await TestServer.run(site.cluster.service, gate: site.gate) { server in
            let body =
                #"{"maxRevision":0,"changeSets":[{"notes":{"create":[-1],"attributes":{"-1":{"text":"late"}}}}]}"#
            let request = try await RawListener.connect(
                server,
                sending: "POST /sync HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(anna)\r\n"
                    + "Content-Length: \(body.utf8.count)\r\nExpect: 100-continue\r\n\r\n")
            // The server has admitted the sender.
            #expect(await request.line("HTTP/1.1") == "HTTP/1.1 100 Continue")
            try await site.end("anna", by: "removed", token: anna)
            try await site.post("secret", server, token: ben)
            try await request.send(body)
            #expect(await request.line("HTTP/1.1") == "HTTP/1.1 403 Forbidden")
            let answer = try #require(await request.line("{"))
            #expect(answer.contains("accessRevoked") && !answer.contains("secret"))
            #expect(try await site.cluster.rows("SELECT text FROM notes") == ["secret"])
        }
    }

    @Test func `an answer that was made while its reader was removed does not go out`() async throws {
        let site = try Site()
        let anna = try await site.add("anna")
        let service = ScriptedService { _, _ in
            try await site.end("anna", by: "removed", token: anna)
            return Array(#"{"text":"secret"}"#.utf8)
        }
        try await TestServer.run(service, gate: site.gate) { server in
            let headers: HTTPHeaders = ["Authorization": "Bearer \(anna)"]
            let answer = try await server.send(.POST, "/sync", headers: headers, body: .bytes(ByteBuffer(string: "{}")))
            #expect(answer.status == 403 && !answer.text.contains("secret"))
            #expect(try answer.error.code == .accessRevoked)
        }
    }

    @Test func `a commit costs one question to the database of users, however many listen`() async throws {
        final class CountedGate: AccessGate {
            let moments = Mutex(0)
            func caller(token: String?) async throws -> Caller { .local }
            func access(to zone: String, token: String?, admitting admit: @Sendable (Caller) throws -> Void)
                async throws -> ZoneAccess
            { .local(zone) }
            func moment() async throws -> AccessMoment {
                moments.withLock { $0 += 1 }
                await Task.yield()
                return AccessMoment(time: 0, version: 1)
            }
            func confirm(_ access: ZoneAccess, token: String?) async throws {}
        }
        let gate = CountedGate()
        let watch = AccessWatch(gate)
        func tell(_ zone: String, _ epoch: String, _ revision: Int64) async throws {
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<100 {
                    group.addTask {
                        var rights = ListenerRights(of: .local)
                        let commit = ZoneRevision(zone: zone, epoch: epoch, revision: revision)
                        return try await watch.admits(&rights, access: .local(zone), token: nil, to: commit)
                    }
                }
                for try await isAdmitted in group { #expect(isAdmitted) }
            }
        }
        for revision in 1...3 as ClosedRange<Int64> { try await tell("main", "e", revision) }
        #expect(gate.moments.withLock { $0 } == 3)
        // An earlier revision is older than the last answer; another history and another zone are not.
        try await tell("main", "e", 2)
        #expect(gate.moments.withLock { $0 } == 3)
        try await tell("main", "f", 1)
        try await tell("other", "e", 1)
        #expect(gate.moments.withLock { $0 } == 5)
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
