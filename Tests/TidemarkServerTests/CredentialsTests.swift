import Foundation
import GRDB
import NIOConcurrencyHelpers
import Testing
import Tidemark
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// Rule 33: the token of a device, and its behaviour when the token is refused.
@Suite(.timeLimit(.minutes(30))) struct CredentialsTests {
    private static let secret = "hunter2.of-the_device~1+/=="
    private static let tag = ZoneTag(revision: 1, hash: "0123456789abcdef")

    /// The kinds of requests from a device to its server.
    private static let questions: [(path: String, ask: @Sendable (HTTPTransport) async throws -> Void)] = [
        ("/sync", { _ = try await $0.sync(zone: "main", body: Array("{}".utf8)) }),
        ("/sync", { _ = try await $0.news(zone: "main", device: "d", since: tag) }),
        ("/fingerprints", { _ = try await $0.fingerprints(zone: "main", body: Array("{}".utf8)) }),
        ("/schema", { _ = try await $0.schema(zone: "main") }), ("/digest", { _ = try await $0.digest(zone: "main") }),
        ("/events", { try await $0.listen(zone: "main", device: "d", from: nil) { _ in } }),
        (
            "/snapshot",
            { transport in
                let file = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).sqlite")
                try await transport.snapshot(zone: "main", to: file.path) { _, _ in }
            }
        ),
    ]

    private func failure(_ work: () async throws -> Void) async -> TidemarkError? {
        await #expect(throws: TidemarkError.self) { try await work() }
    }

    @Test func `every request carries the token, and its refusal is an error of its own`() async throws {
        try await Gate.run(token: nil) { gate in
            let transport = try HTTPTransport(url: gate.url, credentials: .token(Self.secret))
            for (_, ask) in Self.questions {
                let error = await failure { try await ask(transport) }
                #expect(error?.code == .signInNeeded)
                #expect(error?.recovery == .signIn)
                #expect(error?.message.contains("127.0.0.1:\(gate.port)") == true)
                #expect(error?.fix.contains("kept") == true)
                #expect("\(error.debugDescription)".contains(Self.secret) == false)
            }
            // Requested once each: the same token would be refused again.
            #expect(gate.visits.map(\.path) == Self.questions.map(\.path))
            #expect(gate.visits.allSatisfy { $0.authorization == "Bearer \(Self.secret)" })
            #expect(!"\(transport)".contains(Self.secret))
            var dumped = ""
            dump(transport, to: &dumped)
            #expect(!dumped.contains(Self.secret))
        }
    }

    @Test func `without credentials no token is sent, and the refusal says that none was set`() async throws {
        try await Gate.run(token: Self.secret) { gate in
            let transport = try HTTPTransport(url: gate.url)
            let error = await failure { _ = try await transport.digest(zone: "main") }
            #expect(error?.code == .signInNeeded)
            #expect(error?.message.contains("has none") == true)
            #expect(error?.fix.contains("TIDEMARK_TOKEN") == true)
            #expect(gate.visits.map(\.authorization) == [nil])
        }
    }

    @Test(arguments: [
        (401, "Basic realm=\"x\"", ErrorCode.signInNeeded, "It asks for Basic"),
        (401, "bearer", .signInNeeded, "does not accept the token"),
        (403, "", .notAllowed, "does not let this device in"),
    ]) func `401 and 403 of any proxy are distinguished, and pages for browsers are ignored`(
        status: Int, challenge: String, code: ErrorCode, words: String
    ) async throws {
        let dismissal = Gate.Dismissal(
            status: .init(code: status), headers: challenge.isEmpty ? [:] : [.wwwAuthenticate: challenge])
        try await Gate.run(token: nil, otherwise: dismissal) { gate in
            let transport = try HTTPTransport(url: gate.url, credentials: .token(Self.secret))
            let error = await failure { _ = try await transport.digest(zone: "main") }
            #expect(error?.code == code)
            #expect(error?.recovery == .signIn)
            #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
            #expect(error?.description.contains("browser") == false)
        }
    }

    @Test func `a refusal by Tidemark itself is passed on, whatever its status`() async throws {
        let origin = #"{"error":{"code":"originRefused","message":"m","fix":"f","recovery":"permanent"}}"#
        let later = #"{"error":{"code":"accountClosed","message":"m","fix":"f","recovery":"permanent"}}"#
        for (status, text, code) in [(403, origin, "originRefused"), (401, later, "accountClosed")] {
            let dismissal = Gate.Dismissal(status: .init(code: status), text: text)
            try await Gate.run(token: nil, otherwise: dismissal) { gate in
                let transport = try HTTPTransport(url: gate.url)
                let error = await failure { _ = try await transport.digest(zone: "main") }
                #expect(error?.code.rawValue == code)
                #expect(error?.recovery == .permanent)
            }
        }
    }

    @Test func `an expired token is fetched anew, and the request is sent again once`() async throws {
        let body = Array(#"{"note":"\#(String(repeating: "tide", count: 200))"}"#.utf8)
        try await Gate.run(token: "new") { gate in
            let needs = NIOLockedValueBox<[Credentials.Need]>([])
            let transport = try HTTPTransport(
                url: gate.url,
                credentials: .provider { need in
                    needs.withLockedValue { $0.append(need) }
                    return need == .refused ? "new" : "old"
                }
            )
            _ = try await transport.sync(zone: "main", body: body)
            #expect(needs.withLockedValue { $0 } == [.request, .refused])
            #expect(gate.visits.map(\.authorization) == ["Bearer old", "Bearer new"])
            #expect(Set(gate.visits.map(\.bodyBytes)) == [body.count])
        }
    }

    @Test(arguments: ["old", "other", nil]) func `a token refused twice is not retried`(fresh: String?) async throws {
        try await Gate.run(token: "right") { gate in
            let transport = try HTTPTransport(url: gate.url, credentials: .provider { $0 == .refused ? fresh : "old" })
            let error = await failure { _ = try await transport.digest(zone: "main") }
            #expect(error?.code == .signInNeeded)
            #expect(gate.visits.count == (fresh == "other" ? 2 : 1))
        }
    }

    @Test func `failing credentials send nothing, and their error text is not repeated`() async throws {
        struct Failure: Error { let password = "hunter2" }
        try await Gate.run(token: "right") { gate in
            let failing = try HTTPTransport(url: gate.url, credentials: .provider { _ in throw Failure() })
            let error = await failure { _ = try await failing.digest(zone: "main") }
            #expect(error?.code == .signInNeeded)
            #expect(error?.message.contains("Failure") == true)
            #expect(error?.description.contains("hunter2") == false)
            let providerError = TidemarkError(.unreachable, "The provider is down.", fix: "Wait.")
            let offline = try HTTPTransport(url: gate.url, credentials: .provider { _ in throw providerError })
            #expect(await failure { _ = try await offline.digest(zone: "main") } == providerError)
            let forging = try HTTPTransport(url: gate.url, credentials: .provider { _ in "hunter2\r\nX-Admin: yes" })
            let forged = await failure { _ = try await forging.digest(zone: "main") }
            #expect(forged?.code == .invalidArgument)
            #expect(forged?.description.contains("hunter2") == false)
            #expect(gate.visits.isEmpty)
        }
    }

    @Test func `no token is sent to a redirect's target`() async throws {
        try await Gate.run(token: Self.secret) { thief in
            let away = Gate.Dismissal(status: .found, headers: [.location: "\(thief.url)/digest"])
            try await Gate.run(token: nil, otherwise: away) { gate in
                let transport = try HTTPTransport(url: gate.url, credentials: .token(Self.secret))
                let error = await failure { _ = try await transport.digest(zone: "main") }
                #expect(error?.code == .invalidResponse)
                #expect(error?.description.contains(Self.secret) == false)
            }
            #expect(thief.visits.isEmpty)
        }
    }

    @Test(arguments: ["", "two words", "line\n", "tab\t", "nul\0", "naïve", "line\r\nCookie: a=b"])
    func `a token that is no header value is refused and not repeated`(token: String) {
        let error = #expect(throws: TidemarkError.self) { try Credentials.token(token) }
        #expect(error?.code == .invalidArgument)
        #expect(token.isEmpty || error?.description.contains(token) == false)
        #expect(throws: TidemarkError.self) { try Credentials.token(String(repeating: "a", count: 8 << 10 + 1)) }
    }

    @Test(arguments: [
        ("http://sync.example.org", false), ("http://192.168.1.7:8080", false),
        ("http://127.0.0.1.evil.example", false), ("http://localhost.evil.example", false),
        ("https://sync.example.org", true), ("http://127.0.0.1:8080", true), ("http://[::1]:8080", true),
        ("http://LOCALHOST", true),
    ]) func `a token is sent over TLS or to this machine only`(url: String, isFine: Bool) throws {
        let credentials = try Credentials.token(Self.secret)
        #expect(throws: Never.self) { try HTTPTransport(url: url) }
        guard !isFine else {
            #expect(throws: Never.self) { try HTTPTransport(url: url, credentials: credentials) }
            return
        }
        let error = #expect(throws: TidemarkError.self) { try HTTPTransport(url: url, credentials: credentials) }
        #expect(error?.code == .invalidArgument)
        #expect(error?.fix.contains("https://") == true)
        #expect(error?.description.contains(Self.secret) == false)
    }

    @Test func `an unauthorised engine keeps its outbox and writes no token to the file or log`() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).sqlite")
        let database = try DatabasePool(path: file.path)
        try await database.write {
            try $0.execute(sql: "CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT)")
        }
        try await Gate.run(token: nil) { gate in
            let engine = try await SyncEngine(database, server: gate.url, credentials: .token(Self.secret))
            try await database.write { try $0.execute(sql: "INSERT INTO notes (text) VALUES ('mine')") }
            let error = await failure { try await engine.sync() }
            #expect(error?.code == .signInNeeded)
            #expect(gate.visits.isEmpty == false)
            #expect(gate.visits.allSatisfy { $0.authorization == "Bearer \(Self.secret)" })
            let edits = try await database.read { try String.fetchAll($0, sql: "SELECT text FROM notes") }
            #expect(edits == ["mine"])
            #expect(try await engine.conflicts().isEmpty)
        }
        for suffix in ["", "-wal"] {
            let bytes = try Data(contentsOf: URL(filePath: file.path + suffix))
            #expect(bytes.range(of: Data(Self.secret.utf8)) == nil)
        }
        try database.close()
    }
}
