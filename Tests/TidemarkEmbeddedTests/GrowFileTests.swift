import Foundation
import GRDB
import Testing
import TidemarkCore

@testable import TidemarkEmbedded

/// `serve --schema` on a folder that has a file already.
@Suite struct GrowFileTests {
    private static let first = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL, UNIQUE (name));
        CREATE TABLE player (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team, nick TEXT);
        INSERT INTO team VALUES (1, 'Kiel');
        """

    /// Opens a file with one schema after another, and returns what each opening added and ignored.
    private static func open(
        _ schemas: [String], renames: [ColumnRename] = [], _ check: (Database) throws -> Void = { _ in }
    ) async throws -> (additions: [String], ignored: [String]) {
        let folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        // A folder left behind in the system's temporary folder harms no other test.
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "main.sqlite").path
        var last: (additions: [String], ignored: [String]) = ([], [])
        for (index, schema) in schemas.enumerated() {
            let renames = index == schemas.count - 1 ? renames : []
            let store = try EmbeddedStore(path: path, schemaSQL: schema, newEpoch: UUID(), renames: renames)
            last = (store.additions, store.ignoredDifferences)
            try await store.close()
        }
        try read(path, check)
        return last
    }

    private static func read(_ path: String, _ check: (Database) throws -> Void) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.read(check)
        try queue.close()
    }

    @Test func `a longer schema makes its tables, columns, indexes and rows, wherever they stand in it`() async throws {
        let second = """
            -- the second version
            CREATE TABLE team (id INTEGER PRIMARY KEY, town TEXT DEFAULT 'nowhere', name TEXT NOT NULL, UNIQUE (name));
            CREATE TABLE player (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team, "nick" TEXT, born INTEGER);
            CREATE TABLE kind (name TEXT PRIMARY KEY);
            INSERT INTO kind VALUES ('gold');
            INSERT INTO team VALUES (2, 'Ulm', 'nobody wants this row twice');
            CREATE INDEX player_team ON player (team_id);
            """
        let grown = try await Self.open([Self.first, second]) { db in
            let towns = try String.fetchAll(db, sql: "SELECT town || name FROM team")
            let kinds = try String.fetchAll(db, sql: "SELECT name FROM kind")
            #expect(towns == ["nowhereKiel"] && kinds == ["gold"])
        }
        #expect(grown.additions == ["column team.town", "column player.born", "table kind", "index player_team"])
        #expect(grown.ignored == [])
        #expect(try await Self.open([Self.first, second, second]).additions == [])
    }

    @Test func `what it cannot do is named exactly, and the file stays as it is`() async throws {
        let second = """
            CREATE TABLE team (id INTEGER PRIMARY KEY, name VARCHAR(9) NOT NULL, made TEXT NOT NULL, UNIQUE (name));
            CREATE TABLE player (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team, alias TEXT) STRICT;
            """
        let grown = try await Self.open([Self.first, second]) { db in
            let sql = try String.fetchAll(db, sql: "SELECT sql FROM sqlite_master WHERE name IN ('team', 'player')")
            #expect(sql.joined().contains("made") == false && sql.joined().contains("alias") == false)
        }
        #expect(grown.additions == [])
        #expect(grown.ignored.contains("team: name VARCHAR(9) NOT NULL; the file has name TEXT NOT NULL"))
        #expect(grown.ignored.contains("team.made is NOT NULL without a default; give it one"))
        #expect(grown.ignored.contains { $0.contains("--rename player.nick=player.alias") })
        #expect(grown.ignored.contains("player: STRICT at its end"))
    }

    @Test(arguments: [
        ("req TEXT NOT NULL", "player.req is NOT NULL without a default; give it one"),
        ("req TEXT NOT NULL DEFAULT NULL", "player.req is NOT NULL without a default; give it one"),
        ("req TEXT UNIQUE", "player.req: SQLite cannot add it to a table with rows: Cannot add a UNIQUE column"),
        ("req TEXT DEFAULT CURRENT_TIMESTAMP", "player.req: SQLite cannot add it to a table with rows: "),
        ("req INTEGER DEFAULT 1 REFERENCES team", "player.req: SQLite cannot add it to a table with rows: "),
        ("req INTEGER DEFAULT 0 CHECK (req > 0)", "player.req: SQLite cannot add it to a table with rows: CHECK"),
        ("req TEXT AS (nick || 'x') STORED", "player.req: SQLite cannot add it to a table with rows: "),
        ("req TEXT NOT NULL DEFAULT 'none'", nil), ("req INTEGER REFERENCES team", nil),
        ("req INTEGER DEFAULT 1 CHECK (req > 0 AND req > team_id)", nil), ("req TEXT AS (nick || 'x')", nil),
    ])
    func `a column that no table with rows can get is not made in an empty one either`(column: String, reason: String?)
        async throws
    {
        let second = Self.first.replacing("nick TEXT", with: "nick TEXT, \(column)")
        let grown = try await Self.open([Self.first, second]) { db in
            let sql = try #require(try String.fetchOne(db, sql: "SELECT sql FROM sqlite_master WHERE name = 'player'"))
            #expect(sql.contains("req") == (reason == nil))
        }
        #expect(grown.additions == (reason == nil ? ["column player.req"] : []))
        #expect(grown.ignored.count == (reason == nil ? 0 : 1))
        #expect(grown.ignored.allSatisfy { $0.hasPrefix(reason ?? "") }, "\(grown.ignored)")
    }

    @Test func `a declared rename is made in the file, and the former name comes never back`() async throws {
        let second = Self.first.replacing("nick TEXT", with: "alias TEXT").replacing("INSERT", with: "-- INSERT")
        let rename = try ColumnRename("player.nick", to: "player.alias")
        let renamed = try await Self.open([Self.first, second], renames: [rename])
        #expect(renamed.additions == ["column player.alias out of nick"] && renamed.ignored == [])
    }

    @Test func `a schema with the former name of a declared rename adds no column, and the server names it`()
        async throws
    {
        let first = Self.first.replacing("nick TEXT", with: "alias TEXT")
        let rename = try ColumnRename("player.nick", to: "player.alias")
        let grown = try await Self.open([first, Self.first], renames: [rename])
        #expect(grown.additions == [])
        #expect(
            grown.ignored.first == "player.nick: the schema still has the former name of player.alias; change it there")
    }
}
