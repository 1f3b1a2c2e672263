import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Programs that write strings in double quotes, as the `sqlite3` shell accepts them.
@Suite struct QuotedStringTests {
    private static let counting = """
        CREATE TRIGGER IF NOT EXISTS counting AFTER INSERT ON cache BEGIN
            UPDATE settings SET value = value + 1 WHERE "key" = "count"; END
        """
    private static let file = """
        CREATE TABLE cache (id INTEGER PRIMARY KEY, name TEXT CHECK (name <> "it's bad"));
        CREATE TABLE settings ("key" TEXT PRIMARY KEY, value INTEGER);
        INSERT INTO settings VALUES ('count', 0);
        CREATE VIEW found AS SELECT "name", "cache" AS origin FROM cache;
        """

    private static func cluster(_ more: String) throws -> Cluster {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("quoted-\(UUID()).sqlite")
        defer { try? FileManager.default.removeItem(at: path) }  // a file left behind harms no other test
        var configuration = Configuration()
        configuration.acceptsDoubleQuotedStringLiterals = true
        try DatabaseQueue(path: path.path, configuration: configuration).write { try $0.execute(sql: file + more) }
        return try Cluster(adopting: path)
    }

    private static func edit(_ cluster: Cluster) async throws {
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        // The program makes its trigger where it finds none.
        for device in [anna, ben] {
            try await device.write(counting + "; INSERT INTO cache (name) VALUES ('made')")
        }
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT value FROM settings") == ["2"])
        #expect(try await anna.rows("SELECT DISTINCT name, origin FROM found") == ["made|cache"])
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
        await #expect(throws: DatabaseError.self) {
            try await anna.write("INSERT INTO cache (name) VALUES ('it''s bad')")
        }
    }

    @Test func `a counter that a trigger finds by a string in double quotes counts each edit once`() async throws {
        let cluster = try Self.cluster(Self.counting)
        try await Self.edit(cluster)
        let sql = try await cluster.rows("SELECT sql FROM sqlite_master WHERE name = 'counting'")
        #expect(sql.joined(separator: "\n").contains("WHERE \"key\" = 'count'"))
    }

    @Test func `such a trigger that a program makes while the file is served counts, too`() async throws {
        let cluster = try Self.cluster("")
        try cluster.writeOutside(Self.counting)
        try await Self.edit(cluster)
    }

    @Test func `a file with another fault is refused with the trigger's name`() throws {
        #expect {
            try Self.cluster(Self.counting + "; CREATE VIEW broken AS SELECT missing FROM cache")
        } throws: { error in
            let text = (error as? UnsyncableSchema)?.description ?? ""
            return text.contains("counting") && text.contains("'single quotes'")
        }
    }
}
