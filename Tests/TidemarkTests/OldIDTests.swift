import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Cases 39 and 40: temporary ids are unique whichever program draws them, and still work after the
/// permanent ones came.
@Suite struct OldIDTests {
    private struct Note: Codable, FetchableRecord, SyncedRecord {
        static let databaseTableName = "notes"
        var id: Int64?
        var text: String
    }

    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"

    @Test func `case 40: a screen with the old id reads, updates and deletes the record`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: "INSERT INTO notes VALUES (7, 'x')")
        let anna = try await cluster.device("anna")
        let inserted = try await anna.database.write { db in
            var note = Note(text: "milk")
            try note.insert(db)
            return note
        }
        #expect(inserted.id == -1)
        try await anna.engine.sync()
        let resolved = try await anna.database.read { try Note.fetchResolved($0, id: -1) }
        #expect(resolved?.id == 8)
        try await anna.database.write { db in
            var note = inserted
            note.text = "oat milk"
            try note.updateResolved(db)
            #expect(note.id == 8)
        }
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 8") == ["oat milk"])
        // Any program can do the same in SQL.
        try anna.writeOutside(
            """
            UPDATE notes SET text = text || '!' WHERE id = coalesce(
                (SELECT permanent FROM tidemark_idmap WHERE tbl = 'notes' AND temporary = -1), -1)
            """
        )
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 8") == ["oat milk!"])
        let isGone = try await anna.database.write { db in
            var note = inserted
            return try note.deleteResolved(db)
        }
        #expect(isGone)
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT id FROM notes") == ["7"])
    }

    @Test func `case 39: two programs that create at once never draw the same id`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        let path = anna.path
        try await withThrowingTaskGroup(of: Void.self) { group in
            for name in ["one", "two"] {
                group.addTask {
                    var configuration = Configuration()
                    configuration.busyMode = .timeout(60)
                    let file = try DatabaseQueue(path: path, configuration: configuration)
                    for part in 0..<20 {
                        try await file.write { db in
                            for number in 0..<250 {
                                try db.execute(
                                    sql: "INSERT INTO notes (text) VALUES (?)",
                                    arguments: ["\(name) plain \(part) \(number)"])
                                var note = Note(text: "\(name) drawn \(part) \(number)")
                                try note.insert(db)
                            }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT count(*), count(DISTINCT text) FROM notes") == ["20000|20000"])
    }

    private static let teams = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT, over INTEGER REFERENCES team);
        CREATE TABLE player (id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL
            REFERENCES team ON DELETE CASCADE ON UPDATE RESTRICT);
        CREATE TABLE badge (team_id INTEGER REFERENCES team, name TEXT, PRIMARY KEY (team_id, name))
            WITHOUT ROWID;
        """

    @Test func `an explicit id used a second time is replaced, and its children follow`() async throws {
        let cluster = try Cluster(schema: Self.teams, seed: "INSERT INTO team VALUES (1, 'a', NULL)")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try anna.writeOutside("INSERT INTO team VALUES (-5, 'first', NULL)")
        try await anna.engine.sync()
        try anna.writeOutside(
            """
            INSERT INTO team VALUES (-5, 'second', NULL), (-6, 'below', -5);
            INSERT INTO player VALUES (-5, -5), (-9, -6); INSERT INTO badge VALUES (-5, 'x');
            UPDATE team SET over = -5 WHERE id = 1;
            """
        )
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        try await cluster.converge(anna, ben)
        let second = try await ben.rows("SELECT id FROM team WHERE name = 'second'").first
        #expect(
            try await ben.rows(
                """
                SELECT (SELECT over FROM team WHERE name = 'below'), (SELECT over FROM team WHERE id = 1),
                    (SELECT team_id FROM player WHERE team_id = (SELECT id FROM team WHERE name = 'second')), (SELECT team_id FROM badge)
                """
            ).first?.split(separator: "|").map(String.init) == Array(repeating: second ?? "", count: 4)
        )
        // A reference to the first one's id finds the first one.
        #expect(try await anna.engine.permanentID(for: -5, in: "team") == 2)
        // A third and a fourth time, beside ids drawn meanwhile.
        for name in ["third", "fourth"] {
            try anna.writeOutside("INSERT INTO team VALUES (-5, '\(name)', NULL)")
            try await anna.engine.sync()
        }
        #expect(try await anna.engine.conflicts().isEmpty)
        try await cluster.converge(anna, ben)
    }

    @Test func `a conflict that an older version parked for a reused id is written again`() async throws {
        let cluster = try Cluster(schema: Self.teams)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try anna.writeOutside("INSERT INTO team VALUES (-5, 'first', NULL)")
        try await anna.engine.sync()
        let reason = """
            [{"type":"team","key":-5,"columns":[],"rule":"identity","message":"A temporary id was used."}]
            """
        try anna.writeOutside(
            """
            INSERT INTO tidemark_conflict (id, parked, reasons)
                VALUES ('00000000-0000-4000-8000-000000000001', '2026-11-01T00:00:00Z', '\(reason)');
            INSERT INTO tidemark_conflict_record (id, tbl, key, operation, mine) VALUES
                ('00000000-0000-4000-8000-000000000001', 'team', '-5', 'create', '{"name":"second","over":null}'),
                ('00000000-0000-4000-8000-000000000001', 'player', '-1', 'create', '{"team_id":-5}');
            """
        )
        try await anna.engine.resolve("1", with: .retry)
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT name FROM team JOIN player ON team_id = team.id") == ["second"])
    }
}
