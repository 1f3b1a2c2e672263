import Foundation
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

@testable import TidemarkServer

/// `GET /openapi.json`: programs learn a zone's interface from its schema.
@Suite(.timeLimit(.minutes(30))) struct OpenAPITests {
    private static let nasty = """
        CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT NOT NULL CHECK (length(name) > 1), goals INT DEFAULT 0);
        CREATE TABLE "pl/ayer" (id INTEGER PRIMARY KEY);
        CREATE TABLE "pl ayer" (id INTEGER PRIMARY KEY, player_id INTEGER REFERENCES player ON DELETE CASCADE);
        CREATE TABLE "pl_ayer" (id INTEGER PRIMARY KEY);
        CREATE TABLE "{id}~1'ü%2F" ("first,key" TEXT NOT NULL, "first.key" TEXT NOT NULL, "$ref" TEXT, "limit" ANY,
            PRIMARY KEY ("first,key", "first.key")) WITHOUT ROWID, STRICT;
        CREATE TABLE "tidemark" (id INTEGER PRIMARY KEY, "Problem" TEXT);
        CREATE TABLE "The zone" (id TEXT PRIMARY KEY NOT NULL);
        CREATE TABLE "{{version}}" (id INTEGER PRIMARY KEY, "{{table}}" TEXT);
        """

    /// Fetches the document as a client does.
    private func document(_ server: TestServer, _ path: String = "/openapi.json") async throws -> [String: Any] {
        let answer = try await server.send(.GET, path)
        #expect(answer.status == 200)
        return try Self.parse(answer.text)
    }

    private func object(_ document: [String: Any], _ names: String...) throws -> [String: Any] {
        var value = document
        for name in names { value = try #require(value[name] as? [String: Any], "\(name)") }
        return value
    }

    /// Every `$ref` in a document, wherever it stands.
    private func references(_ value: Any) -> [String] {
        switch value {
        case let members as [String: Any]:
            (members["$ref"] as? String).map { [$0] } ?? members.values.flatMap(references)
        case let elements as [Any]: elements.flatMap(references)
        default: []
        }
    }

    private func resolves(_ reference: String, in document: [String: Any]) -> Bool {
        var value: Any? = document
        for name in reference.dropFirst(2).split(separator: "/") { value = (value as? [String: Any])?[String(name)] }
        return reference.hasPrefix("#/") && value is [String: Any]
    }

    @Test func `a client of tables with nasty names finds a path for each, and every reference leads somewhere`()
        async throws
    {
        let cluster = try Cluster(schema: Self.nasty)
        try await TestServer.run(cluster.service) { server in
            let document = try await document(server)
            let paths = try object(document, "paths")
            for table in ["player", "pl%2Fayer", "pl%20ayer", "pl_ayer", "tidemark", "The%20zone"] {
                #expect(paths["/tables/\(table)"] != nil, "\(table)")
            }
            let odd = "/tables/%7Bid%7D~1%27%C3%BC%252F"
            #expect(paths[odd] != nil)
            #expect(paths["\(odd)/{first_key},{first_key-2}"] != nil)
            let references = references(document).filter { !$0.isEmpty }
            #expect(references.count > 100)
            #expect(references.allSatisfy { resolves($0, in: document) })

            let schemas = try object(document, "components", "schemas")
            #expect(schemas.keys.allSatisfy { $0.wholeMatch(of: /[A-Za-z0-9._-]+/) != nil })
            let records = schemas.values.compactMap { ($0 as? [String: Any])?["title"] as? String }
            #expect(Set(["player", "pl/ayer", "pl ayer", "pl_ayer"]).isSubset(of: records))
            let operations = paths.values.flatMap { ($0 as? [String: [String: Any]])?.values.map { $0 } ?? [] }
            let ids = operations.compactMap { $0["operationId"] as? String }
            #expect(ids.count == operations.count)
            #expect(Set(ids).count == ids.count)
        }
    }

    @Test func `a table named like a hole of the document keeps its name, and no hole is left open`() async throws {
        let cluster = try Cluster(schema: Self.nasty)
        try await TestServer.run(cluster.service) { server in
            let answer = try await server.send(.GET, "/openapi.json")
            let record = try object(try Self.parse(answer.text), "components", "schemas", "__version__")
            #expect(record["title"] as? String == "{{version}}")
            #expect(try object(record, "properties").keys.contains("{{table}}"))
            let holes = answer.text.matches(of: /{{(.*?)}}/).map { String($0.1) }
            #expect(Set(holes) == ["version", "table"])
        }
    }

    @Test func `the document says which columns a new record needs, and has the table's CHECK`() async throws {
        let cluster = try Cluster(schema: Self.nasty, policies: ["player.goals": .add])
        try await TestServer.run(cluster.service) { server in
            let document = try await document(server)
            let new = try object(document, "components", "schemas", "player.new")
            #expect(new["required"] as? [String] == ["name"])
            let record = try object(document, "components", "schemas", "player")
            #expect(record["required"] as? [String] == ["id", "name", "goals", "$revision"])
            let text = try #require(record["description"] as? String)
            #expect(text.contains("CHECK (length(name) > 1)"))
            #expect(text.contains("A deletion meets pl ayer (player_id): ON DELETE CASCADE."))
            let goals = try object(record, "properties", "goals")
            #expect(goals["description"] as? String == "INT. Default: 0. Conflict policy: add.")

            let odd = try object(document, "components", "schemas", "_id__1___2F")
            #expect(try object(odd, "properties").keys.contains("$$ref"))
            let exact = try object(odd, "properties", "first,key")
            #expect(exact["$ref"] as? String == "#/components/schemas/tidemark.Text")
        }
    }

    @Test func `a client that has the document gets 304 until the tables change`() async throws {
        let cluster = try Cluster(schema: Self.nasty)
        try await TestServer.run(cluster.service) { server in
            let first = try await server.send(.GET, "/openapi.json")
            let tag = try #require(first.headers.first(name: "ETag"))
            #expect(first.headers.first(name: "Cache-Control") == "private, no-cache")
            let known = try await server.send(.GET, "/openapi.json", headers: ["If-None-Match": tag])
            #expect(known.status == 304)
            #expect(known.body.isEmpty)
            try cluster.writeOutside("ALTER TABLE player ADD COLUMN assists INTEGER")
            let altered = try await server.send(.GET, "/openapi.json", headers: ["If-None-Match": tag])
            #expect(altered.status == 200)
            #expect(altered.text.contains("assists"))
        }
    }

    @Test func `the document of a zone under its name leads to paths under this name`() async throws {
        let cluster = try Cluster(schema: Self.nasty)
        try await TestServer.run(cluster.service) { server in
            let own = try await document(server, "/zones/main/openapi.json")
            #expect((own["servers"] as? [[String: String]])?.first?["url"] == "/zones/main")
            let short = try await document(server)
            #expect((short["servers"] as? [[String: String]])?.first?["url"] == "/")
        }
    }

    @Test func `the document has every route for clients without rows, and none that the server lacks`() async throws {
        let guarded = try await GuardedServer()
        let routes = guarded.routes().filter { route in
            RouteTable.isAboutRecords(route.path) && !route.path.hasPrefix("/zones/")
        }
        let served = Set(routes.map { "\($0.method.rawValue) \($0.path)" })
        let json = OpenAPIDocument(SyncSchema(tables: []), prefix: "", routes: served).json
        let paths = try object(try Self.parse(json), "paths")
        let zone = routes.filter { !$0.path.contains("{table}") }
        for route in zone {
            let methods = try object(paths, route.path)
            #expect(methods[route.method.rawValue.lowercased()] != nil, "\(route.method) \(route.path)")
        }
        #expect(paths.count == Set(zone.map(\.path)).count)
    }

    @Test func `a hundred tables are one document, rendered once`() throws {
        let tables = (1...100).map { number in
            let columns = (1...20).map {
                SyncedTable.Column(name: "c\($0)", type: "TEXT", isNotNull: false, defaultSQL: nil)
            }
            let id = SyncedTable.Column(name: "id", type: "INTEGER", isNotNull: true, defaultSQL: nil)
            return SyncedTable(
                name: "t\(number)", columns: [id] + columns, key: ["id"], keyKind: .integer, isAutoincrement: false,
                references: [], uniques: [], sql: "CREATE TABLE t\(number) (id INTEGER PRIMARY KEY)", indexSQL: [])
        }
        let schema = SyncSchema(tables: tables)
        let documents = OpenAPIDocuments()
        var count = 0
        for _ in 1...3 {
            let key = OpenAPIDocuments.Key(schema: "hash", prefix: "")
            let json = documents.json(of: key) {
                count += 1
                return OpenAPIDocument(schema, prefix: "", routes: ["GET /tables/{table}"]).json
            }
            let paths = try object(try Self.parse(String(decoding: json, as: UTF8.self)), "paths")
            #expect(paths.count == 100)
        }
        #expect(count == 1)
    }

    private static func parse(_ json: String) throws -> [String: Any] {
        let value = try JSONSerialization.jsonObject(with: Data(json.utf8))
        return try #require(value as? [String: Any])
    }
}
