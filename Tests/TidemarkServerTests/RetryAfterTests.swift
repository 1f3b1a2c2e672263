import Foundation
import GRDB
import NIOConcurrencyHelpers
import Testing
import Tidemark
import TidemarkCore

/// D6: a device sends nothing before the time that the server named.
@Suite(.timeLimit(.minutes(30))) struct RetryAfterTests {
    private static let start = Date(timeIntervalSince1970: 1_800_000_000)

    private func answer(_ status: String, _ code: String) -> [UInt8] {
        let body = #"{"error":{"code":"\#(code)","message":"m","fix":"f","recovery":"retry"}}"#
        let head = [
            "HTTP/1.1 \(status)", "Content-Type: application/json", "Retry-After: 120", "Connection: close",
            "Content-Length: \(body.utf8.count)",
        ]
        return Array((head.joined(separator: "\r\n") + "\r\n\r\n" + body).utf8)
    }

    @Test(arguments: [("429 Too Many Requests", "rateLimited"), ("503 Service Unavailable", "unavailable")])
    func `the app's own sync waits as well, and says until when`(status: String, code: String) async throws {
        let clock = NIOLockedValueBox(Self.start)
        let requests = NIOLockedValueBox(0)
        let bytes = answer(status, code)
        try await CannedServer.run(
            inPiecesOf: .max,
            answer: { _ in
                requests.withLockedValue { $0 += 1 }
                return bytes
            }
        ) { server in
            let database = try DatabaseQueue()
            try await database.write { try $0.execute(sql: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)") }
            let engine = try await SyncEngine(
                database, server: server.url,
                environment: .init(now: { clock.withLockedValue { $0 } }, newID: { UUID() }))
            try await database.write { try $0.execute(sql: "INSERT INTO notes (text) VALUES ('mine')") }
            let first = await #expect(throws: TidemarkError.self) { try await engine.sync() }
            #expect(first?.code.rawValue == code)
            #expect(first?.retryAfterSeconds == 120)
            #expect(try await engine.status().obstacle == .pause(until: "2027-01-15T08:02:00Z"))
            clock.withLockedValue { $0 += 119.5 }
            for ask in [{ try await engine.sync() }, { _ = try await engine.verify() }] {
                let early = await #expect(throws: TidemarkError.self) { try await ask() }
                #expect(early?.code == .rateLimited)
                #expect(early?.recovery == .retry)
                #expect(early?.retryAfterSeconds == 1)
                #expect(early?.message.contains("2027-01-15T08:02:00Z") == true)
            }
            #expect(requests.withLockedValue { $0 } == 1)
            clock.withLockedValue { $0 += 0.5 }
            #expect(try await engine.status().obstacle == nil)
            await #expect(throws: TidemarkError.self) { try await engine.sync() }
            #expect(requests.withLockedValue { $0 } == 2)
            // A clock that was set back does not prolong the pause.
            clock.withLockedValue { $0 -= 3_600 }
            await #expect(throws: TidemarkError.self) { try await engine.sync() }
            #expect(requests.withLockedValue { $0 } == 3)
            #expect(try await engine.status().pendingChangeSets == 1)
        }
    }

    @Test func `the 429 of a proxy is understood by its status alone`() async throws {
        try await CannedServer.run(
            status: "429 Too Many Requests", headers: ["Content-Type: text/html", "Retry-After: 7"],
            content: "<h1>nginx</h1>"
        ) { server in
            let transport = try HTTPTransport(url: server.url)
            let error = await #expect(throws: TidemarkError.self) { _ = try await transport.digest(zone: "main") }
            #expect(error?.code == .rateLimited)
            #expect(error?.recovery == .retry)
            #expect(error?.retryAfterSeconds == 7)
        }
    }
}
