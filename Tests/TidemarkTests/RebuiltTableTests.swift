import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Programs alter a table by making it again.
///
/// They create a new one, copy the rows, drop the old one, and rename the new one. The triggers go with the old
/// table, so only a comparison finds the next writes.
@Suite struct RebuiltTableTests {
    private static let schema = """
        CREATE TABLE club (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT, club_id INTEGER REFERENCES club);
        CREATE TABLE player (id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team, name TEXT);
        """
    private static let seed = "INSERT INTO team (name) VALUES ('Kiel'), ('Bonn')"
    /// Another program's connection does not enforce references while it rebuilds.
    private static let rebuild = """
        CREATE TABLE fresh (id INTEGER PRIMARY KEY, name TEXT, club_id INTEGER REFERENCES club);
        INSERT INTO fresh SELECT id, name, club_id FROM team;
        DROP TABLE team; ALTER TABLE fresh RENAME TO team;
        """
    private static let players = """
        SELECT team.name, player.name FROM player LEFT JOIN team ON team.id = team_id ORDER BY player.name
        """

    private func rebuild(_ device: TestDevice, then sql: String) throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        try DatabaseQueue(path: device.path, configuration: configuration).write { db in
            try db.execute(sql: Self.rebuild + sql)
        }
    }

    @Test func `rule 7: a parent that no trigger captured is sent with its child`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try rebuild(
            anna,
            then: """
                INSERT INTO team (name) VALUES ('Jena');
                INSERT INTO player (team_id, name) SELECT max(id), 'Jo' FROM team;
                """
        )
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows(Self.players) == ["Jena|Jo"])
    }

    @Test func `rule 1: a child of an uncaptured parent does not move to another device's row with its id`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await ben.write("INSERT INTO team (name) VALUES ('Ulm')")
        try await ben.engine.sync()
        try rebuild(
            anna,
            then: """
                INSERT INTO team (name) VALUES ('Jena');
                INSERT INTO player (team_id, name) SELECT max(id), 'Jo' FROM team;
                """
        )
        let id = "SELECT id FROM team WHERE name IN ('Ulm', 'Jena')"
        #expect(try await anna.rows(id) == ben.rows(id), "the devices have given the same id")
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows(Self.players) == ["Jena|Jo"])
        #expect(try await ben.rows("SELECT name FROM team ORDER BY id") == ["Kiel", "Bonn", "Ulm", "Jena"])
    }

    @Test func `an uncaptured row between its new parent and its new child is sent with both`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        // The app's own connection: it knows where each transaction ends.
        try await anna.database.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA foreign_keys = OFF")
            try db.inTransaction {
                try db.execute(sql: Self.rebuild)
                return .commit
            }
            try db.execute(sql: "PRAGMA foreign_keys = ON")
        }
        try await anna.write("INSERT INTO team (name) VALUES ('Jena')")
        try await anna.write("INSERT INTO player (team_id, name) SELECT max(id), 'Jo' FROM team")
        try await anna.write("INSERT INTO club (name) VALUES ('Union')")
        try await anna.write("UPDATE team SET club_id = (SELECT max(id) FROM club) WHERE name = 'Jena'")
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows(Self.players) == ["Jena|Jo"])
        #expect(try await ben.rows("SELECT club.name FROM team JOIN club ON club.id = club_id") == ["Union"])
    }

    @Test func `rule 10: edits of an uncaptured row, made offline, follow its creation`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try rebuild(
            anna, then: "INSERT INTO team (name) VALUES ('Jena'), ('Gera'); UPDATE team SET name = 'KIEL' WHERE id = 1")
        anna = try await anna.reopened()
        anna.transport.faults.add(.requestLost)
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        try await anna.write("INSERT INTO player (team_id, name) SELECT max(id), 'Jo' FROM team WHERE name = 'Jena'")
        try await anna.write("UPDATE team SET name = 'JENA' WHERE name = 'Jena'; DELETE FROM team WHERE name = 'Gera'")
        try await anna.write("INSERT INTO club (name) VALUES ('Union'); UPDATE team SET club_id = last_insert_rowid()")
        try await ben.write("INSERT INTO team (name) VALUES ('Ulm')")
        try await ben.engine.sync()
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows(Self.players) == ["JENA|Jo"])
        #expect(
            try await ben.rows("SELECT name, club_id IS NULL FROM team ORDER BY name") == [
                "Bonn|0", "JENA|0", "KIEL|0", "Ulm|1",
            ]
        )
    }

    @Test func `a rebuilt table whose rows are the server's needs no comparison`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var anna = try await cluster.device("anna")
        try await anna.write("UPDATE team SET name = 'KIEL' WHERE id = 1")
        try rebuild(anna, then: "")
        anna = try await anna.reopened()
        #expect(try await anna.rows("SELECT rebuilt FROM tidemark_device") == [""])
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT name FROM team WHERE id = 1") == ["KIEL"])
    }

    @Test func `a table rebuilt by the same statement under a running engine is captured again`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let sql = try #require(try await anna.rows("SELECT sql FROM sqlite_master WHERE name = 'player'").first)
        try anna.writeOutside("DROP TABLE player; \(sql)")
        try await anna.engine.sync()
        try await anna.write("INSERT INTO player (name) VALUES ('Jo')")
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_capture") == ["1"])
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT name FROM player") == ["Jo"])
    }

    @Test func `rule 1: an uncaptured value that an answer replaces becomes a conflict, and no other value does`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try rebuild(anna, then: "UPDATE team SET name = 'KIEL' WHERE id = 1")
        try await ben.write("UPDATE team SET name = 'Bonn am Rhein' WHERE id = 2")
        try await ben.engine.sync()
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        try rebuild(anna, then: "UPDATE team SET name = 'KIEL (1)' WHERE id = 1")
        try await ben.engine.sync()
        try await ben.write("UPDATE team SET name = 'Kiel (2)' WHERE id = 1")
        try await ben.engine.sync()
        try await anna.engine.sync()
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.reasons.map(\.rule) == ["changed"])
        #expect(conflict.records.map(\.mine) == [#"{"name":"KIEL (1)"}"#])
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT name FROM team ORDER BY id") == ["Kiel (2)", "Bonn am Rhein"])
    }

    // MARK: Dropped columns and chosen ids

    private static let notes = "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL, old TEXT);"
    private static let notesSeed = "INSERT INTO note (body, old) VALUES ('one', 'o1'), ('two', 'o2'), ('three', 'o3')"
    /// A rebuild that leaves `old` out, and edits.
    private static let dropColumn = """
        CREATE TABLE fresh (id INTEGER PRIMARY KEY, body TEXT NOT NULL); INSERT INTO fresh SELECT id, body FROM note;
        DROP TABLE note; ALTER TABLE fresh RENAME TO note;
        DELETE FROM note WHERE id = 2; UPDATE note SET body = 'ONE' WHERE id = 1;
        """
    private static let allNotes = "SELECT * FROM note ORDER BY id"

    @Test(arguments: [true, false])
    func `C3: a migration that drops a column sends what it deletes, updates and inserts`(isAlone: Bool) async throws {
        let cluster = try Cluster(schema: Self.notes, seed: Self.notesSeed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try anna.writeOutside(
            Self.dropColumn + "INSERT INTO note (body) VALUES ('plain'); INSERT INTO note VALUES (77, 'chosen')")
        if !isAlone {
            try await ben.write("UPDATE note SET old = 'O3' WHERE id = 3; INSERT INTO note (body) VALUES ('ben')")
            try await ben.engine.sync()
        }
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        try await cluster.converge(ben)
        let rows = try await cluster.rows(Self.allNotes)
        #expect(rows.prefix(2) == ["1|ONE|o1", isAlone ? "3|three|o3" : "3|three|O3"])
        #expect(rows.last == "77|chosen|")
        #expect(rows.count { $0.hasSuffix("|plain|") } == 1)
        #expect(rows.count == (isAlone ? 4 : 5))
        // The dropped column's values wait beside the table, in case the app has it again.
        try anna.writeOutside("ALTER TABLE note ADD COLUMN old TEXT")
        try await anna.engine.sync()
        #expect(try await anna.rows(Self.allNotes) == cluster.rows(Self.allNotes))
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `rule 1: a column that an app drops and has again before the sync keeps the zone's values`() async throws
    {
        let cluster = try Cluster(schema: Self.notes, seed: Self.notesSeed)
        let anna = try await cluster.device("anna")
        try anna.writeOutside(Self.dropColumn)
        let later = try await anna.reopened()
        try later.writeOutside("ALTER TABLE note ADD COLUMN old TEXT")
        try await later.engine.sync()
        try await later.engine.sync()
        let old = ["o1", "o2", "o3"]
        #expect(try await cluster.rows("SELECT old FROM note ORDER BY id").allSatisfy(old.contains))
        #expect(try await later.rows(Self.allNotes) == cluster.rows(Self.allNotes))
    }

    @Test func `a migration's row is new under the id that SQLite draws, and keeps one that the migration chose`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try rebuild(
            anna,
            then: """
                INSERT INTO team (name) VALUES ('Jena'), ('Gera');
                INSERT INTO team (id, name) VALUES (100, 'Ulm'), (101, 'Hof');
                INSERT INTO player (team_id, name) VALUES (101, 'Jo'), (4, 'Al');
                """
        )
        try await anna.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT name FROM team WHERE id IN (100, 101) ORDER BY id") == ["Ulm", "Hof"])
        #expect(try await ben.rows(Self.players) == ["Gera|Al", "Hof|Jo"])
    }

    // MARK: Tables without a key

    private static let log = "CREATE TABLE log (at TEXT, note TEXT);"
    private static let logSeed = """
        INSERT INTO log (rowid, at, note) VALUES (1, 'mon', 'a'), (5, 'wed', 'c'), (9, 'x', 'same'), (12, 'x', 'same');
        """
    /// The copied rows are numbered from 1.
    private static let rebuildLog = """
        CREATE TABLE fresh (at TEXT, note TEXT); INSERT INTO fresh SELECT at, note FROM log;
        DROP TABLE log; ALTER TABLE fresh RENAME TO log;
        """
    private static let logRows = "SELECT rowid, at, note FROM log ORDER BY rowid"

    @Test func `a migration that does not copy the row numbers neither edits records nor doubles unsent ones`()
        async throws
    {
        let cluster = try Cluster(schema: Self.log, seed: Self.logSeed)
        var anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO log VALUES ('thu', 'unsent'); UPDATE log SET note = 'A' WHERE at = 'mon'")
        _ = try await anna.engine.status()
        try await anna.write("INSERT INTO log VALUES ('thu', 'unsent'); DELETE FROM log WHERE rowid = 12")
        try anna.writeOutside(Self.rebuildLog + "INSERT INTO log VALUES ('fri', 'uncaptured')")
        anna = try await anna.reopened()
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        try await cluster.converge(anna, ben)
        let rows = try await ben.rows(Self.logRows)
        #expect(rows.prefix(3) == ["1|mon|A", "5|wed|c", "9|x|same"])
        #expect(
            try await ben.rows("SELECT at, note FROM log WHERE rowid > 9 ORDER BY at") == [
                "fri|uncaptured", "thu|unsent", "thu|unsent",
            ]
        )
    }

    @Test func `a waiting addition stops every sync after such a migration`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE stock (name TEXT, count INTEGER)",
            seed: "INSERT INTO stock (rowid, name, count) VALUES (1, 'nails', 10), (5, 'screws', 20)",
            policies: ["stock.count": .add])
        var anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE stock SET count = count - 3 WHERE name = 'screws'")
        _ = try await anna.engine.checkRows()
        try anna.writeOutside(
            """
            CREATE TABLE fresh (name TEXT, count INTEGER); INSERT INTO fresh SELECT name, count FROM stock;
            DROP TABLE stock; ALTER TABLE fresh RENAME TO stock; INSERT INTO stock VALUES ('pins', 1);
            """)
        anna = try await anna.reopened()
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        try await cluster.converge(anna, ben)
        #expect(
            try await ben.rows("SELECT name, count FROM stock ORDER BY name") == ["nails|10", "pins|1", "screws|17"])
        #expect(try await ben.rows("SELECT rowid FROM stock WHERE name = 'screws'") == ["5"])
    }

    @Test func `rule 1: a waiting edit does not take a column from the zone that such a migration adds`() async throws {
        let cluster = try Cluster(
            schema: Self.log, seed: "INSERT INTO log VALUES ('mon', 'a'), ('wed', 'c'), ('fri', 'e')")
        var anna = try await cluster.device("anna")
        try cluster.writeOutside("ALTER TABLE log ADD COLUMN color TEXT; UPDATE log SET color = 'red'")
        try await anna.engine.sync()
        try await anna.write("UPDATE log SET note = 'mine' WHERE at = 'wed'")
        _ = try await anna.engine.checkRows()
        try anna.writeOutside(
            """
            CREATE TABLE fresh (at TEXT, note TEXT, color TEXT); INSERT INTO fresh SELECT at, note, NULL FROM log;
            DROP TABLE log; ALTER TABLE fresh RENAME TO log;
            UPDATE log SET note = 'uncaptured' WHERE at = 'fri';
            """)
        anna = try await anna.reopened()
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        try await cluster.converge(anna)
        #expect(
            try await anna.rows("SELECT at, note, color FROM log ORDER BY rowid") == [
                "mon|a|red", "wed|mine|red", "fri|uncaptured|red",
            ]
        )
    }

    @Test func `an edit after such a migration is an edit of its record`() async throws {
        let cluster = try Cluster(schema: Self.log, seed: Self.logSeed)
        var anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try anna.writeOutside(Self.rebuildLog + "UPDATE log SET note = 'C' WHERE at = 'wed'")
        anna = try await anna.reopened()
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows(Self.logRows) == ["1|mon|a", "5|wed|C", "9|x|same", "12|x|same"])
    }

    @Test func `rule 1: other devices' edits meanwhile stay, and rows without a record become a conflict`() async throws
    {
        let cluster = try Cluster(schema: Self.log, seed: Self.logSeed)
        var anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO log VALUES ('thu', 'unsent')")
        try anna.writeOutside(Self.rebuildLog + "INSERT INTO log VALUES ('fri', 'uncaptured')")
        try await ben.write("DELETE FROM log WHERE at = 'mon'")
        try await ben.write("UPDATE log SET note = 'ben' WHERE at = 'wed'")
        try await ben.engine.sync()
        anna = try await anna.reopened()
        try await anna.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(
            try await ben.rows("SELECT at, note FROM log ORDER BY at, note") == [
                "thu|unsent", "wed|ben", "x|same", "x|same",
            ]
        )
        let parked = try await anna.engine.conflicts().flatMap(\.records).compactMap(\.mine)
        #expect(parked.contains(#"{"at":"fri","note":"uncaptured"}"#))
    }
}
