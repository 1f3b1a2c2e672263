import Foundation
import GRDB
import Testing
import TidemarkCore
import TidemarkSQLiteStore

/// The exchange that the protocol comes from, with its very shapes: screens in a sports hall, a device at
/// revision 1000, its new records -10, -11 and -12.
@Suite struct ArticleTests {
    @Test func `A3 A4: the article's request is answered with 321, 412, 413 and revision 1001`() async throws {
        let zone = try await ArticleZone()
        let answer = try await zone.sync(ArticleZone.request(maxRevision: 1000))
        #expect(answer["maxRevision"] as? Int == 1001)
        let sets = try #require(answer["changeSets"] as? [[String: Any]])
        #expect(sets.count == 1)
        let set = try #require(sets.first)
        #expect(set["conflict"] as? Bool == false)
        #expect(set["types"] as? [String] == ["screen_instances", "screen_instance_items"])
        let instances = try #require(set["screen_instances"] as? [String: Any])
        #expect(instances["create"] as? [Int] == [321])
        let instance = try #require((instances["attributes"] as? [String: [String: Any]])?["321"])
        #expect(instance["__oldId__"] as? Int == -10)
        #expect(instance["revision"] as? Int == 1001)
        #expect(instance["screen_id"] as? Int == 749)
        #expect(instance["date"] as? String == "2014-02-01 13:15:23.487+01")
        #expect(instance["comment"] as? String == "")
        let items = try #require(set["screen_instance_items"] as? [String: Any])
        #expect(items["create"] as? [Int] == [412, 413])
        let attributes = try #require(items["attributes"] as? [String: [String: Any]])
        #expect(attributes["412"]?["__oldId__"] as? Int == -11)
        #expect(attributes["413"]?["__oldId__"] as? Int == -12)
        #expect(attributes["412"]?["screen_instance_id"] as? Int == 321)
        #expect(attributes["413"]?["screen_instance_id"] as? Int == 321)
    }

    @Test func `A5: a device at 995 gets 996 to 1000 and its own 1001 in one answer`() async throws {
        let zone = try await ArticleZone()
        let answer = try await zone.sync(ArticleZone.request(maxRevision: 995))
        let sets = try #require(answer["changeSets"] as? [[String: Any]])
        #expect(sets.map { $0["revision"] as? Int } == [996, 997, 998, 999, 1000, 1001])
        #expect(answer["maxRevision"] as? Int == 1001)
    }
}

/// A zone at revision 1000 whose next ids are the article's.
final class ArticleZone {
    let folder: URL
    let store: EmbeddedStore

    init() async throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "article-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let path = folder.appending(path: "zone.sqlite").path
        store = try EmbeddedStore(path: path, schemaSQL: Self.schema, newEpoch: UUID())
        let file = try DatabaseQueue(path: path)
        try await file.write { db in
            try db.execute(sql: "UPDATE tidemark_zone SET revision = 990, horizon = 990, adopted = 990")
            try db.execute(sql: "INSERT INTO tidemark_identity VALUES ('screen_instances', 321), ('screen_instance_items', 412)")
        }
        for number in 991...1000 {
            let statement = number == 991
                ? "INSERT INTO screens VALUES (749, 'Board 0')"
                : "UPDATE screens SET name = 'Board \(number)' WHERE id = 749"
            try await file.write { try $0.execute(sql: statement) }
            _ = try await store.sync(zone: "main", body: Array(#"{"maxRevision":990}"#.utf8))
        }
    }

    deinit { try? FileManager.default.removeItem(at: folder) }  // a leftover folder in /tmp harms nobody

    func sync(_ body: String) async throws -> [String: Any] {
        let answer = try await store.sync(zone: "main", body: Array(body.utf8))
        return try JSONSerialization.jsonObject(with: Data(answer)) as? [String: Any] ?? [:]
    }

    static let schema = """
        CREATE TABLE screens (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE screen_instances (
            id INTEGER PRIMARY KEY, screen_id INTEGER NOT NULL REFERENCES screens, date TEXT, comment TEXT);
        CREATE TABLE screen_instance_items (
            id INTEGER PRIMARY KEY, screen_instance_id INTEGER NOT NULL REFERENCES screen_instances,
            numeric_value INTEGER);
        """

    static func request(maxRevision: Int) -> String {
        """
        {
            "maxRevision": \(maxRevision),
            "changeSets": [
                {
                    "types": [ "screen_instances", "screen_instance_items" ],
                    "screen_instances": {
                        "create": [ -10 ],
                        "update": [],
                        "delete": [],
                        "attributes": {
                            "-10": {
                                "screen_id": 749,
                                "date": "2014-02-01 13:15:23.487+01",
                                "comment": ""
                            }
                        }
                    },
                    "screen_instance_items": {
                        "create": [ -11, -12 ],
                        "update": [],
                        "delete": [],
                        "attributes": {
                            "-11": { "screen_instance_id": -10, "numeric_value": 2 },
                            "-12": { "screen_instance_id": -10, "numeric_value": 3 }
                        }
                    }
                }
            ]
        }
        """
    }
}
