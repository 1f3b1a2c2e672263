import Foundation
import NIOCore
import NIOHTTP1
import Testing
import Tidemark
import TidemarkCore
import TidemarkGzip
import TidemarkTestSupport

/// Rule 35: `GET /sync` on real connections: few bytes without news, one request with news, and
/// never a 304 where the full request would get another answer.
@Suite(.timeLimit(.minutes(30))) struct NewsTests {
    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"
    private static let seed = """
        WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 100)
        INSERT INTO notes SELECT i, 'note ' || i FROM n
        """

    /// A server with two devices; only Ben's traffic is counted.
    private struct Place {
        let cluster: Cluster
        let server: TestServer
        let relay: TCPRelay
        let anna: TestDevice
        let ben: TestDevice

        /// The cost of Ben's sync: the requests, by method and status, and the bytes.
        func sync() async throws -> (requests: [String], up: Int64, down: Int64) {
            let traffic = relay.traffic
            let lines = server.log.all.count
            try await ben.engine.sync()
            let requests = server.log.all.dropFirst(lines).compactMap { line in
                line.firstMatch(of: /method=(\w+) .* status=(\d+)/).map { "\($0.1) \($0.2)" }
            }
            let up = relay.traffic.bytesUp - traffic.bytesUp
            let down = relay.traffic.bytesDown - traffic.bytesDown
            return (requests, up, down)
        }
    }

    private func place(_ cluster: Cluster, _ body: @Sendable @escaping (Place) async throws -> Void) async throws {
        try await TestServer.run(cluster.service) { server in
            let relay = TCPRelay(targetPort: server.port)
            let url = "http://127.0.0.1:\(try await relay.start())"
            let anna = try await cluster.device("anna")
            let ben = try await cluster.device("ben", over: HTTPTransport(url: url))
            // The first sync of a device asks for ids, so it is a full request.
            for device in [anna, ben] { try await device.engine.sync() }
            try await body(Place(cluster: cluster, server: server, relay: relay, anna: anna, ben: ben))
            try await relay.stop()
        }
    }

    // MARK: Bytes and requests

    @Test(arguments: [1, 1_000_000])
    func `F5: a sync without news is one request of at most 300 bytes in both directions`(revision: Int) async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        try cluster.writeOutside(
            "UPDATE tidemark_zone SET revision = \(revision), horizon = \(revision), adopted = \(revision)")
        try await place(cluster) { place in
            for _ in 0..<3 {
                let cost = try await place.sync()
                #expect(cost.requests == ["GET 304"])
                #expect(cost.up + cost.down <= 300, "\(cost.up) up, \(cost.down) down")
            }
            #expect(place.relay.traffic.connections == 1)
        }
    }

    @Test func `E2: a device ten revisions behind needs one request`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        try await place(cluster) { place in
            for number in 1...10 {
                try await place.anna.write("UPDATE notes SET text = 'x' WHERE id = \(number)")
                try await place.anna.engine.sync()
            }
            let cost = try await place.sync()
            #expect(cost.requests == ["GET 200"])
            #expect(try await place.ben.rows("SELECT count(*) FROM notes WHERE text = 'x'") == ["10"])
            #expect(try await place.sync().requests == ["GET 304"])
            try await place.cluster.converge(place.anna, place.ben)
        }
    }

    @Test func `a device with edits sends a full request, and a conditional GET after the answer`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        try await place(cluster) { place in
            try await place.ben.write("UPDATE notes SET text = 'mine' WHERE id = 1")
            #expect(try await place.sync().requests == ["POST 200"])
            #expect(try await place.sync().requests == ["GET 304"])
        }
    }

    @Test func `rule 16: a commit by sqlite3 into the served file is in the next answer`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        try await place(cluster) { place in
            #expect(try await place.sync().requests == ["GET 304"])
            try place.cluster.writeOutside("UPDATE notes SET text = 'outside' WHERE id = 3")
            #expect(try await place.sync().requests == ["GET 412", "POST 200"])
            #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 3") == ["outside"])
            #expect(try await place.sync().requests == ["GET 304"])
        }
    }

    // MARK: No false 304

    @Test(arguments: [false, true]) func `A10: a server restored from a backup never answers 304`(isSaid: Bool)
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        try await place(cluster) { place in
            let backup = try await place.cluster.backUp()
            try await place.anna.write("UPDATE notes SET text = 'forgotten' WHERE id = 1")
            try await place.anna.engine.sync()
            #expect(try await place.sync().requests == ["GET 200"])
            try await place.cluster.restore(backup, isSaid: isSaid)
            // Other devices reach Ben's revision again, with other rows.
            let carl = try await place.cluster.device("carl")
            try await carl.write("UPDATE notes SET text = 'other' WHERE id = 2")
            try await carl.engine.sync()
            let requests = try await place.sync().requests
            #expect(requests.first == "GET 412")
            #expect(requests.dropFirst().first == "POST 409")
            try await place.cluster.converge(carl, place.anna, place.ben)
            #expect(try await place.ben.rows("SELECT text FROM notes WHERE id < 3").last == "other")
        }
    }

    @Test func `B8: an overruled value reaches its author`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed, policies: ["notes": .lastWriter])
        try await place(cluster) { place in
            try await place.anna.write("UPDATE notes SET text = 'later' WHERE id = 1")
            try await place.ben.write("UPDATE notes SET text = 'mine' WHERE id = 1")
            #expect(try await place.sync().requests == ["POST 200"])
            try await place.anna.engine.sync()
            #expect(try await place.sync().requests == ["GET 412", "POST 200"])
            #expect(try await place.ben.engine.conflicts().count == 1)
            // The server keeps the overruled value until Ben's full request confirms it.
            #expect(try await place.sync().requests == ["GET 412", "POST 200"])
            #expect(try await place.cluster.rows("SELECT count(*) FROM tidemark_overruled") == ["0"])
        }
    }

    @Test func `rule 17: a device with damaged rows never gets a 304`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        try await place(cluster) { place in
            #expect(try await place.sync().requests == ["GET 304"])
            try await place.ben.write("UPDATE tidemark_device SET fingerprint = NULL")
            try await place.ben.write(
                """
                UPDATE tidemark_state SET applying = 1;
                UPDATE notes SET text = 'rotten' WHERE id = 9;
                UPDATE tidemark_state SET applying = 0
                """
            )
            let requests = try await place.sync().requests
            #expect(requests.prefix(2) == ["GET 412", "POST 409"])
            #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 9") == ["note 9"])
        }
    }

    // MARK: The form of the request

    @Test func `a conditional GET has the full request's answer, with the tag for the next one`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        try await TestServer.run(cluster.service) { server in
            let anna = try await cluster.device("anna")
            // The first sync asks for ids, the second one for news only.
            for _ in 1...2 { try await anna.engine.sync() }
            let first = try #require(anna.transport.faults.questions.last)
            let device = try #require(try await anna.rows("SELECT device FROM tidemark_device").first)
            // Long enough for gzip to pay off.
            try await anna.write("UPDATE notes SET text = text || ' is longer now'")
            try await anna.engine.sync()
            let ask = HTTPHeaders([("If-None-Match", first.entityTag), ("Accept-Encoding", "gzip")])
            let short = try await server.send(.GET, "/sync?device=other", headers: ask)
            #expect(short.status == 200)
            #expect(short.headers.first(name: "Content-Encoding") == "gzip")
            #expect(short.headers.first(name: "Content-Type") == "application/json")
            #expect(short.headers.first(name: "Cache-Control") == "no-store")
            let body = #"{"maxRevision":\#(first.revision),"device":"other","settled":true}"#
            let full = try await server.send(
                .POST, "/sync", headers: ["Accept-Encoding": "gzip"], body: .bytes(ByteBuffer(string: body)))
            #expect(short.body == full.body)
            let tag = try #require(short.headers.first(name: "ETag"))
            try await anna.engine.sync()
            #expect(anna.transport.faults.questions.last?.entityTag == tag)
            // To a copy of the author's file, its own revision is a warning.
            let own = try await server.send(.GET, "/sync?device=\(device)", headers: ask)
            #expect(own.status == 412)
            let head = "Host: localhost\r\nIf-None-Match: \(tag)\r\n\r\n"
            for method in ["GET", "HEAD"] {
                let text = try await server.exchange(
                    "\(method) /zones/main/sync?device=o%20ther HTTP/1.1\r\n\(head)", until: "\r\n\r\n")
                let lines = text.split(separator: "\r\n").map(String.init)
                #expect(lines.first == "HTTP/1.1 304 Not Modified")
                #expect(
                    lines.dropFirst().map { $0.lowercased().prefix { $0 != ":" } }.sorted() == [
                        "cache-control", "date", "etag",
                    ]
                )
                #expect(lines.contains { $0.hasSuffix(": \(tag)") })
            }
        }
    }

    @Test(arguments: [
        "/sync", "/sync?device=", "/sync?device", "/sync?device=%00", "/sync?device=a%00b", "/sync?device=a&wait=1000",
        "/sync?wait=1000&device=a", "/sync?device=a&device=b", "/sync?colour=red", "/zones/main/sync",
    ]) func `rule 21: a conditional GET of an unknown form requires a full request`(path: String) async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        try await TestServer.run(cluster.service) { server in
            let anna = try await cluster.device("anna")
            // The first sync asks for ids, the second one for news only.
            for _ in 1...2 { try await anna.engine.sync() }
            let tag = try #require(anna.transport.faults.questions.last).entityTag
            let right = try await server.send(.GET, "/sync?device=a", headers: ["If-None-Match": tag])
            #expect(right.status == 304)
            let answer = try await server.send(.GET, path, headers: ["If-None-Match": tag])
            #expect(answer.status == 412)
            #expect(try answer.error.code == .fullRequestRequired)
        }
    }

    @Test(arguments: ["", "*", "\"\"", "nonsense", "\"1-short\"", "W/\"1-\""])
    func `rule 21: a tag that no server issued requires a full request`(tag: String) async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        try await TestServer.run(cluster.service) { server in
            let headers: HTTPHeaders = tag.isEmpty ? [:] : ["If-None-Match": tag]
            let answer = try await server.send(.GET, "/sync?device=a", headers: headers)
            #expect(answer.status == 412)
            let none = try await server.send(.GET, "/zones/none/sync?device=a", headers: headers)
            #expect([404, 412].contains(none.status))
        }
    }

    @Test func `an unknown zone gets no 304`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        try await TestServer.run(cluster.service) { server in
            let transport = try HTTPTransport(url: server.url)
            let tag = ZoneTag(revision: 1, hash: "kY2fW0v9-3nBq_7d")
            let error = await #expect(throws: TidemarkError.self) {
                try await transport.news(zone: "none", device: "a", since: tag)
            }
            #expect(error?.code == .unknownZone)
        }
    }

    @Test(arguments: [[], ["ETag: \"1-kY2fW0v9-3nBq_7x\""], ["ETag: \"other\""]])
    func `rule 21: a 304 of another program is ignored`(headers: [String]) async throws {
        let tag = ZoneTag(revision: 1, hash: "kY2fW0v9-3nBq_7d")
        try await CannedServer.run(status: "304 Not Modified", headers: headers, content: "") {
            let transport = try HTTPTransport(url: $0.url)
            let error = await #expect(throws: TidemarkError.self) {
                try await transport.news(zone: "main", device: "a", since: tag)
            }
            #expect(error?.code == .invalidResponse)
        }
    }
}
