import Foundation
import Testing
import Tidemark
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// Rule 30, D2: a small change is part of its event, over real HTTP: a listener need not ask for
/// it.
@Suite(.timeLimit(.minutes(30))) struct ChangeEventTests {
    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"
    private static let seed = "INSERT INTO notes VALUES (1, 'first')"

    @Test func `a listener with a device id gets the change, unless it is the author`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        try await TestServer.run(cluster.service) { server in
            let anna = try await cluster.device("anna")
            let name = try await anna.rows("SELECT device FROM tidemark_device")[0]
            let listeners = [
                try await RawListener.open(server, path: "/events?device=ben"),
                try await RawListener.open(server, path: "/events?device=\(name)"), try await RawListener.open(server),
            ]
            for listener in listeners { #expect(await listener.revision() == 1) }
            try await anna.write("UPDATE notes SET text = 'new'")
            try await anna.engine.sync()
            #expect(await listeners[0].line("event: ") == "event: change")
            #expect(await listeners[0].revision() == 2)
            let tag = try #require(await listeners[0].line("data: "))
            #expect(tag.hasPrefix(#"data: "1-"#))
            let answer = try #require(await listeners[0].line("data: "))
            #expect(answer.contains(#""text":"new""#))
            for listener in listeners[1...] { #expect(await listener.line("event: ", "id: ")?.hasSuffix(":2") == true) }
        }
    }

    @Test func `a change too large for an event is announced without content`() async throws {
        var limits = Limits.standard
        limits.changeEventBytesMax = 1_000
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed, limits: limits)
        try await TestServer.run(cluster.service) { server in
            let anna = try await cluster.device("anna")
            let listener = try await RawListener.open(server, path: "/events?device=ben")
            #expect(await listener.revision() == 1)
            try await anna.write("UPDATE notes SET text = hex(zeroblob(1000))")
            try await anna.engine.sync()
            #expect(await listener.line("event: ", "id: ")?.hasPrefix("id: ") == true)
            try cluster.writeOutside("UPDATE notes SET text = 'by sqlite3'")
            #expect(await listener.line("event: ", "id: ") == "event: change")
        }
    }

    @Test func `a listening device applies pushed changes and sends no request`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        try await TestServer.run(cluster.service) { server in
            let anna = try await cluster.device("anna")
            let ben = try await cluster.device("ben", over: HTTPTransport(url: server.url))
            // Anna uses no network: all requests in the server's log are Ben's.
            let questions = { server.log.all.count { $0.contains("/sync") } }
            await ben.engine.start(every: .seconds(3_600))
            // Joins the first round, or follows it.
            try await ben.engine.sync()
            try await until { cluster.store.fanOut.listenerCount == 1 }
            var events = ben.engine.deviceEvents.makeAsyncIterator()
            let before = questions()
            #expect(before > 0)
            for number in 2...5 as ClosedRange<Int64> {
                try await anna.write("UPDATE notes SET text = 'number \(number)'")
                try await anna.engine.sync()
                while let event = await events.next() {
                    if case .changed(let changes) = event, changes.revision == number { break }
                }
            }
            #expect(questions() == before)
            #expect(try await ben.rows("SELECT text FROM notes") == ["number 5"])
            await ben.engine.stop()
            try await cluster.converge(anna, ben)
        }
    }
}
