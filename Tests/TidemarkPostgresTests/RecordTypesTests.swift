import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkPostgres

/// Rows of an adopted database, as a client without an engine reads them: by PostgreSQL's types, and one zone's only.
@Suite struct RecordTypesTests {
    private static let first = "aafe5086-f9ad-4dd8-84d3-21a56909fa01"
    private static let second = "aafe5086-f9ad-4dd8-84d3-21a56909fa02"
    private static let third = "aafe5086-f9ad-4dd8-84d3-21a56909fa03"
    private static let tables = """
        CREATE TABLE reading (tenant text, id uuid, at timestamptz, value double precision, amount numeric(10, 2),
            detail jsonb, is_good boolean, PRIMARY KEY (tenant, id));
        INSERT INTO reading VALUES
            ('north', '\(first)', '2026-11-24 07:00:00+01', 1.5, 2.50, '{"b": 1, "a": 2}', true),
            ('north', '\(second)', '2026-11-24 08:00:00+01', 'NaN', NULL, NULL, false),
            ('north', '\(third)', NULL, 'Infinity', 10, '[]', NULL),
            ('south', '\(first)', '2020-01-01', 7, 7, '{}', true);
        """

    /// Questions, and the last characters of the keys that they select in the zone `north`.
    private static let questions = [
        ("", "123"), ("value=is.null", "2"), ("value=not.is.null", "13"), ("value=gt.1", "13"), ("value=lt.9", "1"),
        (#"value=eq.{"$real":"Infinity"}"#, "3"), ("order=value.desc,id", "312"), ("order=value,id", "213"),
        ("amount=eq.2.5", "1"), ("amount=gt.2.5", "3"), ("order=amount.desc,id", "312"), ("is_good=eq.1", "1"),
        (#"at=eq."2026-11-24 07:00:00%2B01""#, "1"), (#"at=gt."2026-11-24 06:30:00%2B00""#, "2"),
        ("order=at.desc,id", "213"), ("id=eq.\(second.uppercased())", "2"), ("id=in.(\(first),\(third))", "13"),
        ("id=gt.\(first)", "23"),
    ]

    private func run(_ body: (PostgresStore, TestDatabase) async throws -> Void) async throws {
        let database = try await TestDatabase()
        try await database.connect().execute(Self.tables)
        var options = PostgresStore.Options(address: database.address, newEpoch: UUID())
        options.adopts = true
        options.zoneColumn = "tenant"
        options.zones = ["north", "south"]
        let store = try await PostgresStore(options)
        let result: Result<Void, any Error>
        do { result = .success(try await body(store, database)) } catch { result = .failure(error) }
        await store.close()
        try result.get()
    }

    @Test func `a write to a key that no UUID column can read is refused, and the others of its commit are done`()
        async throws
    {
        try await run { store, _ in
            let requests = [Self.first, "abc", Self.second].map { key in
                WriteRequest(method: .patch, table: "reading", key: key, body: #"{"value":8}"#, precondition: .present)
            }
            let writes = requests.map { ClientWrites(id: UUID().uuidString.lowercased(), requests: [$0]) }
            let results = try await store.commit(
                "north", writes.map { ZoneRequest(.write($0), access: .local("north")) })
            let codes = results.map { result -> String in
                switch result {
                case .failure(let error): Problem(refusal: error, index: nil)?.error.code.rawValue ?? "\(error)"
                case .success(let answer):
                    if case .writes(.success(let answers)) = answer.content { "\(answers[0].status)" } else { "?" }
                }
            }
            #expect(codes == ["200", "invalidKey", "200"])
            let page = try RecordPage(try await store.recordJSON("tables/reading?value=eq.8", zone: "north"))
            #expect(page.keys.count == 2)
        }
    }

    @Test func `an adopted table with NaN, numbers, times and UUIDs is filtered and ordered by its types`() async throws
    {
        try await run { store, _ in
            for (question, keys) in Self.questions {
                for limit in [1, 100] {
                    var found = ""
                    var next: String?
                    repeat {
                        let after = next.map { "&after=\($0)" } ?? ""
                        let parts = [question, "limit=\(limit)\(after)"].filter { !$0.isEmpty }
                        let path = "tables/reading?\(parts.joined(separator: "&"))"
                        let page = try RecordPage(try await store.recordJSON(path, zone: "north"))
                        found += page.keys.compactMap { $0.last.map(String.init) }.joined()
                        next = page.next
                    } while next != nil
                    #expect(found == keys, "\(question), \(limit) a page")
                }
            }
        }
    }

    @Test func `a client of one zone sees neither another zone's row nor the zone column`() async throws {
        try await run { store, database in
            let record = try await store.recordJSON("tables/reading/\(Self.first.uppercased())", zone: "north")
            #expect(!record.contains("tenant"))
            #expect(record.contains(#""id":"\#(Self.first)""#))
            #expect(record.contains(#""value":1.5"#))
            let nan = try await store.recordJSON("tables/reading/\(Self.second)?select=value,amount", zone: "north")
            #expect(nan.contains(#""value":null,"amount":null"#))
            let south = try RecordPage(try await store.recordJSON("tables/reading?count=exact", zone: "south"))
            #expect(south.keys == [Self.first])
            await #expect(throws: TidemarkError.self) {
                try await store.recordJSON("tables/reading?tenant=eq.south", zone: "north")
            }
            try await database.writeOutside("DELETE FROM reading WHERE tenant = 'south'")
            try await store.look(zone: "south")
            let feed = { (zone: String) in
                try await store.read(
                    .local(zone),
                    ZoneQuestion { reader in
                        let query = try FeedQuery([ListQuery.Item(name: "since", value: "1")], schema: reader.schema)
                        let start = try reader.feedPosition(since: query.since)
                        return try ReadChanges(query, reader).page(after: start).json
                    }
                )
            }
            #expect(try await feed("south").contains(#""gone":true"#))
            #expect(try await feed("north").contains(#""changes":[]"#))
        }
    }

    @Test func `the document of an adopted database describes its types and hides the zone column`() async throws {
        try await run { store, _ in
            let json = try await store.read(
                .local("north"), ZoneQuestion { OpenAPIDocument($0.schema, prefix: "", routes: []).json })
            let document = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any]
            let components = document?["components"] as? [String: Any]
            let schemas = components?["schemas"] as? [String: [String: Any]] ?? [:]
            let properties = schemas["reading"]?["properties"] as? [String: Any] ?? [:]
            #expect(Set(["id", "at", "value", "amount", "detail", "is_good"]).isSubset(of: properties.keys))
            #expect(properties["tenant"] == nil)
        }
    }
}
