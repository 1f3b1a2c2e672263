import Testing
import Tidemark
import TidemarkTestSupport

/// Rule 23: many devices of different people on one dataset of a dozen related tables.
@Suite struct FleetTests {
    /// Names of tables, each with the tables that it references.
    private static let tables: [(name: String, parents: [String])] = [
        ("regions", []), ("clubs", ["regions"]), ("halls", ["regions"]), ("seasons", []),
        ("leagues", ["seasons", "regions"]), ("teams", ["clubs", "leagues"]), ("people", ["clubs"]),
        ("players", ["people", "teams"]), ("coaches", ["people", "teams"]), ("matches", ["teams", "halls"]),
        ("goals", ["matches", "players"]), ("reports", ["matches", "people"]),
    ]

    private static var schema: String {
        tables.map { table in
            let references = table.parents.map { ", \($0)_id INTEGER REFERENCES \($0) ON DELETE CASCADE" }
            let indexes = table.parents.map { "CREATE INDEX \(table.name)_\($0) ON \(table.name) (\($0)_id);" }
            return """
                CREATE TABLE \(table.name) (id INTEGER PRIMARY KEY, name TEXT NOT NULL,
                    rank INTEGER DEFAULT 0, share REAL\(references.joined()));
                \(indexes.joined(separator: "\n"))
                """
        }.joined(separator: "\n")
    }

    /// 100 rows in each table.
    private static var seed: String {
        tables.map { table in
            let columns = ["name", "share"] + table.parents.map { "\($0)_id" }
            let values = ["'\(table.name) ' || i", "i / 7.0"] + table.parents.map { _ in "i" }
            return """
                WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 100)
                INSERT INTO \(table.name) (\(columns.joined(separator: ", ")))
                SELECT \(values.joined(separator: ", ")) FROM n
                """
        }.joined(separator: ";")
    }

    @Test func `A1: fifty devices edit a dozen tables offline, and all end up equal`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var devices: [TestDevice] = []
        for number in 1...50 { devices.append(try await cluster.device("device\(number)")) }
        for (index, device) in devices.enumerated() {
            try await device.database.write { try $0.execute(sql: Self.edits(of: index)) }
        }
        try await cluster.converge(devices)
        let edited = Self.tables.map { "SELECT rank FROM \($0.name)" }.joined(separator: " UNION ALL ")
        #expect(try await cluster.rows("SELECT sum(rank) FROM (\(edited))") == ["150"])
        #expect(try await cluster.rows("SELECT count(*) FROM goals WHERE name LIKE 'new%'") == ["50"])
        #expect(try await cluster.rows("SELECT count(*) FROM reports") == ["50"])
        for device in devices { #expect(try await device.engine.conflicts().isEmpty) }
    }

    /// An edit of a row in three of the tables, a new match with a goal in it, and a deletion: rows
    /// that no other device touches.
    private static func edits(of index: Int) -> String {
        let updates = tables.enumerated().filter { ($0.offset + index).isMultiple(of: 4) }.map {
            "UPDATE \($0.element.name) SET rank = 1 WHERE id = \(index + 1)"
        }
        let number = index + 1
        return
            (updates + [
                "INSERT INTO matches (id, name, teams_id) VALUES (-1, 'new', \(number))",
                "INSERT INTO goals (name, matches_id, players_id) VALUES ('new', -1, \(number))",
                "DELETE FROM reports WHERE id = \(index + 51)",
            ]).joined(separator: ";")
    }
}
