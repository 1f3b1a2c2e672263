import Foundation
import Testing

extension IntegrationTests {
    /// The article's exchange typed by hand: files of JSON, real curl, a real server.
    @Suite struct CurlTests {
        private static let schema = """
            CREATE TABLE screens (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
            CREATE TABLE screen_instances (
                id INTEGER PRIMARY KEY, screen_id INTEGER NOT NULL REFERENCES screens, date TEXT, comment TEXT);
            CREATE TABLE screen_instance_items (
                id INTEGER PRIMARY KEY, screen_instance_id INTEGER NOT NULL REFERENCES screen_instances,
                numeric_value INTEGER);
            """

        private static func request(maxRevision: Int) -> String {
            """
            { "maxRevision": \(maxRevision),
              "changeSets": [ { "types": [ "screen_instances", "screen_instance_items" ],
                "screen_instances": { "create": [ -10 ], "update": [], "delete": [],
                  "attributes": { "-10": { "screen_id": 749, "date": "2014-02-01 13:15:23.487+01", "comment": "" } } },
                "screen_instance_items": { "create": [ -11, -12 ], "update": [], "delete": [],
                  "attributes": { "-11": { "screen_instance_id": -10, "numeric_value": 2 },
                                  "-12": { "screen_instance_id": -10, "numeric_value": 3 } } } } ] }
            """
        }

        /// Serves a zone at revision 1000 whose next ids are the article's.
        private static func serve(_ workshop: Workshop) async throws -> Server {
            try workshop.write(schema, to: "schema.sql")
            let new = ["serve", "--schema", workshop.path("schema.sql"), "--data", workshop.path("data")]
            try await workshop.serve(new + ["--listen", "127.0.0.1:0"]).stopped()
            try await workshop.sqlite3(
                "data/main.sqlite",
                """
                UPDATE tidemark_zone SET revision = 990, horizon = 990, adopted = 990;
                INSERT INTO tidemark_identity VALUES ('screen_instances', 321), ('screen_instance_items', 412);
                """
            )
            let server = try await workshop.serve("data/main.sqlite")
            for number in 991...1000 {
                try await workshop.sqlite3(
                    "data/main.sqlite",
                    number == 991
                        ? "INSERT INTO screens VALUES (749, 'Board 991')"
                        : "UPDATE screens SET name = 'Board \(number)'")
                _ = try await curl(workshop, server, "-d", #"{"maxRevision":990}"#)
            }
            return server
        }

        private static func curl(_ workshop: Workshop, _ server: Server, _ arguments: String...) async throws
            -> [String: Any]
        {
            let result = try await workshop.start(
                "curl", ["-sS", "--max-time", "20"] + arguments + ["\(server.url)/sync"]
            ).finished()
            try #require(result.status == 0, "\(result.errors)")
            let parsed = try JSONSerialization.jsonObject(with: Data(result.output.utf8))
            return try #require(parsed as? [String: Any])
        }

        private static func check(_ answer: [String: Any], revisions: [Int]) throws {
            let sets = try #require(answer["changeSets"] as? [[String: Any]])
            #expect(answer["maxRevision"] as? Int == revisions.last)
            #expect(sets.map { $0["revision"] as? Int } == revisions)
            #expect(sets.allSatisfy { $0["conflict"] as? Bool == false })
            let own = try #require(sets.last)
            let instances = try #require(own["screen_instances"] as? [String: Any])
            #expect(instances["create"] as? [Int] == [321])
            let instance = (instances["attributes"] as? [String: [String: Any]])?["321"]
            #expect(instance?["__oldId__"] as? Int == -10)
            #expect(instance?["date"] as? String == "2014-02-01 13:15:23.487+01")
            let items = try #require(own["screen_instance_items"] as? [String: Any])
            #expect(items["create"] as? [Int] == [412, 413])
            let attributes = try #require(items["attributes"] as? [String: [String: Any]])
            #expect(attributes["412"]?["screen_instance_id"] as? Int == 321)
            #expect(attributes["413"]?["__oldId__"] as? Int == -12)
        }

        @Test func `A2 A3 A4 A5: the article's JSON in a file, sent by curl, is answered with 1001`() async throws {
            let workshop = try Workshop()
            let server = try await Self.serve(workshop)
            let file = try workshop.write(Self.request(maxRevision: 995), to: "request.json")
            let answer = try await Self.curl(workshop, server, "-d", "@\(file)")
            try Self.check(answer, revisions: Array(996...1001))
            // The next request gets the same records, without the temporary ids.
            let next = try await Self.curl(workshop, server, "-d", #"{"maxRevision":1000}"#)
            let sets = try #require(next["changeSets"] as? [[String: Any]])
            #expect(sets.count == 1)
            #expect(!"\(sets)".contains("__oldId__"))
            try await server.stopped()
        }

        @Test func `A14: the article's JSON is compressed by gzip in both directions`() async throws {
            let workshop = try Workshop()
            let server = try await Self.serve(workshop)
            let file = try workshop.write(Self.request(maxRevision: 990), to: "request.json")
            try await workshop.run("gzip", "-9", file)
            let answer = try await Self.curl(
                workshop, server, "--data-binary", "@\(file).gz", "-H", "Content-Encoding: gzip", "--compressed", "-D",
                workshop.path("headers"))
            try Self.check(answer, revisions: Array(991...1001))
            let headers = try String(contentsOfFile: workshop.path("headers"), encoding: .utf8)
            #expect(headers.lowercased().contains("content-encoding: gzip"))
            #expect(headers.hasPrefix("HTTP/1.1 200"))
            try await server.stopped()
        }

        @Test func `Rule 9: malformed requests from curl get a 4xx JSON answer with advice`() async throws {
            let workshop = try Workshop()
            let server = try await Self.serve(workshop)
            let before = try await workshop.digest(server.url)
            for (body, status, code) in [
                ("", "400", "malformedRequest"), ("{", "400", "malformedRequest"),
                (#"{"maxRevision":-1}"#, "400", "malformedRequest"), (#"{"maxRevision":5000}"#, "409", "revisionAhead"),
                (#"{"maxRevision":7}"#, "410", "snapshotRequired"),
                (#"{"maxRevision":1000,"changeSets":[{"walls":{}}]}"#, "400", "unknownTable"),
                (#"{"maxRevision":1000,"changeSets":[{"screens":{"create":[-1]}}]}"#, "422", "constraintViolated"),
            ] {
                let error = try await Self.curl(workshop, server, "-d", body, "-D", workshop.path("headers"))["error"]
                let headers = try String(contentsOfFile: workshop.path("headers"), encoding: .utf8)
                #expect(headers.contains(" \(status) "), "\(body)")
                let content = try #require(error as? [String: Any])
                #expect(content["code"] as? String == code, "\(body)")
                #expect((content["fix"] as? String)?.isEmpty == false)
            }
            #expect(try await workshop.digest(server.url) == before)
            try await server.stopped()
        }
    }
}
