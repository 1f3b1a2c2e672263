import Foundation
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

extension IntegrationTests {
    /// Temporary errors at each step of a device's life drop and park nothing.
    @Suite struct RecoveryTests {
        private static let schema = """
            CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT);
            INSERT INTO notes (text) VALUES ('first');
            """

        private static let statuses = [
            "401 Unauthorized", "403 Forbidden", "404 Not Found", "407 Proxy Authentication Required",
            "408 Request Timeout", "421 Misdirected Request", "425 Too Early", "429 Too Many Requests",
            "500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout",
            "507 Insufficient Storage", "511 Network Authentication Required",
        ]

        /// The answer of a Tidemark server that demands a snapshot.
        private static func resync(_ status: String, _ code: String) -> RelayPlan.Fault {
            let error = #"{"error":{"code":"\#(code)","message":"m","fix":"f","recovery":"resync"}}"#
            return .reply(
                CannedReply(status: status, headers: ["Content-Type: application/json"], body: Array(error.utf8)))
        }

        /// The step before the error: none, a comparison of the history, a snapshot.
        private static let steps: [[RelayPlan.Fault]] = [
            [], [resync("409 Conflict", "epochMismatch")], [resync("410 Gone", "snapshotRequired")],
        ]

        /// Without a valid token a retry fails alike; other errors may be temporary.
        private static func recovery(from status: String) -> TidemarkError.Recovery {
            ["401", "403"].contains(status.prefix(3)) ? .signIn : .retry
        }

        private static func reply(_ status: String) -> CannedReply {
            CannedReply(
                status: status, headers: ["Content-Type: text/plain", "Retry-After: 17"], body: Array("no".utf8))
        }

        @Test func `rule 20, case 45: no HTTP status in answer to a sync or snapshot empties the outbox`() async throws
        {
            let link = try await BrokenLink(schema: Self.schema)
            try await link.edit("INSERT INTO notes (text) VALUES ('mine')")
            _ = try await link.sync(.reply(.nothing))
            let before = try await link.waiting()
            for status in Self.statuses {
                for step in Self.steps {
                    link.relay.hangUp()
                    link.relay.follow(RelayPlan(step + [.reply(Self.reply(status))]))
                    // An engine would send nothing until the end of the pause that the last answer asked for.
                    let engine = try await SyncEngine(link.device, server: link.brokenURL)
                    let error = await #expect(throws: TidemarkError.self) { try await engine.sync() }
                    #expect(error?.recovery == Self.recovery(from: status), "\(status): \(error?.description ?? "")")
                    #expect(error?.retryAfterSeconds == 17, "\(status)")
                    #expect(try await link.waiting() == before, "\(status)")
                }
            }
            try await link.whole.sync()
            #expect(try await link.served("SELECT text FROM notes WHERE text = 'mine'") == "mine")
            try await link.finish()
        }

        @Test func `rule 20, case 45: no failure of DNS, TLS or connection empties the outbox`() async throws {
            let link = try await BrokenLink(schema: Self.schema)
            try await link.edit("INSERT INTO notes (text) VALUES ('mine')")
            _ = try await link.sync(.reply(.nothing))
            let before = try await link.waiting()
            try await link.relay.stop()
            for url in [
                link.brokenURL, "http://no-such-host.invalid",
                link.server.url.replacingOccurrences(of: "http:", with: "https:"),
            ] {
                let engine = try await SyncEngine(link.device, server: url)
                let error = await #expect(throws: TidemarkError.self) { try await engine.sync() }
                #expect(error?.code == .unreachable, "\(url): \(error?.description ?? "")")
                #expect(try await link.waiting() == before, "\(url)")
            }
            let again = try await SyncEngine(link.device, server: link.server.url)
            try await again.sync()
            #expect(try await link.served("SELECT text FROM notes WHERE text = 'mine'") == "mine")
            try await link.finish()
        }

        @Test func `case 45: a failed join leaves no file, and says whether a retry makes sense`() async throws {
            let link = try await BrokenLink(schema: Self.schema)
            let path = link.workshop.path("new.sqlite")
            for status in Self.statuses {
                link.relay.hangUp()
                link.relay.follow(RelayPlan([.reply(Self.reply(status))]))
                let join = DeviceFileJoin(transport: try HTTPTransport(url: link.brokenURL), server: link.brokenURL)
                let error = await #expect(throws: TidemarkError.self) { _ = try await join.join(path: path) }
                #expect(error?.recovery == Self.recovery(from: status), "\(status)")
                #expect(try link.workshop.files(with: "new.sqlite") == [], "\(status)")
            }
            try await link.finish()
        }
    }
}
