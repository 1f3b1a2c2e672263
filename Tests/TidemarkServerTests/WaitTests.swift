import Foundation
import Testing
import Tidemark
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// Rule 30: long polling: a waiting request is held until there is news, and handled once.
@Suite(.timeLimit(.minutes(30))) struct WaitTests {
    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"
    private static let lap = "6f6d3a4e-0000-4000-8000-000000000001"

    private func cluster() throws -> Cluster {
        try Cluster(schema: Self.schema, seed: "INSERT INTO notes VALUES (1, 'first')")
    }

    private func request(wait: Int) -> [UInt8] {
        Array(
            #"""
            {"maxRevision":1,"device":"d","wait":\#(wait),
             "lap":{"last":null,"open":[],"next":"\#(Self.lap)"}}
            """#.utf8
        )
    }

    private func revision(of answer: [UInt8]) throws -> Int? {
        let json = try JSONSerialization.jsonObject(with: Data(answer)) as? [String: Any]
        return json?["maxRevision"] as? Int
    }

    @Test func `D2: a held request is answered at a commit`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            let transport = try HTTPTransport(url: server.url)
            async let answer = transport.sync(zone: "main", body: request(wait: 50_000))
            try await until { cluster.store.fanOut.listenerCount == 1 }
            // Held outside any transaction: others commit, and nothing was counted.
            #expect(try await cluster.rows("SELECT count(*) FROM tidemark_lap") == ["0"])
            let body = #"{"maxRevision":1,"changeSets":[{"notes":{"update":[1],"attributes":{"1":{"text":"new"}}}}]}"#
            _ = try await transport.sync(zone: "main", body: Array(body.utf8))
            #expect(try revision(of: await answer) == 2)
            #expect(try await cluster.rows("SELECT lap, revision FROM tidemark_lap") == ["\(Self.lap)|2"])
            #expect(cluster.store.fanOut.listenerCount == 0)
        }
    }

    @Test func `D2, F5: a held request is answered at a commit by sqlite3`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            let transport = try HTTPTransport(url: server.url)
            async let answer = transport.sync(zone: "main", body: request(wait: 50_000))
            try await until { cluster.store.fanOut.listenerCount == 1 }
            try cluster.writeOutside("UPDATE notes SET text = 'outside'")
            #expect(try revision(of: await answer) == 2)
        }
    }

    @Test func `a held request is answered without news at the end of its time, also in a retry`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            let transport = try HTTPTransport(url: server.url)
            for _ in 0..<3 {
                let answer = try await transport.sync(zone: "main", body: request(wait: 10))
                #expect(try revision(of: answer) == 1)
            }
            #expect(try await cluster.rows("SELECT lap FROM tidemark_lap") == [Self.lap])
        }
    }

    @Test func `a client that disconnects during the wait is not answered or counted`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            let transport = try HTTPTransport(url: server.url)
            let waiting = Task { [body = request(wait: 50_000)] in try await transport.sync(zone: "main", body: body) }
            try await until { cluster.store.fanOut.listenerCount == 1 }
            waiting.cancel()
            _ = await waiting.result
            try await until { cluster.store.fanOut.listenerCount == 0 }
        }
    }

    @Test func `a held request is answered at once when the server stops`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            let transport = try HTTPTransport(url: server.url)
            async let answer = transport.sync(zone: "main", body: request(wait: 50_000))
            try await until { cluster.store.fanOut.listenerCount == 1 }
            cluster.store.fanOut.close()
            #expect(try revision(of: await answer) == 1)
        }
    }

    @Test func `rule 9: a malformed request is refused before the wait`() async throws {
        let cluster = try cluster()
        try await TestServer.run(cluster.service) { server in
            for (body, code) in [
                (#"{"maxRevision":1,"wait":"long"}"#, ErrorCode.malformedRequest),
                (#"{"maxRevision":1,"wait":50000,"colour":1}"#, .malformedRequest),
                (#"{"maxRevision":9,"wait":50000}"#, .revisionAhead),
                (#"{"maxRevision":1,"epoch":"x","wait":50000}"#, .epochMismatch),
                (#"{"maxRevision":1,"wait":50000"#, .malformedRequest),
            ] {
                let answer = try await server.send(.POST, "/sync", body: .bytes(Array(body.utf8)))
                #expect(try answer.error.code == code, "\(body)")
            }
        }
    }
}
