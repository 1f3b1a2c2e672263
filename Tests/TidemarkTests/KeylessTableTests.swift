import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Real programs have tables without a primary key; they are served and synced as they are.
///
/// Their rows are known by unique columns, by a key that the operator declares, or by SQLite's rowid.
@Suite struct KeylessTableTests {
    private static let schema = """
        CREATE TABLE log (at TEXT, note TEXT);
        CREATE TABLE setting (name TEXT NOT NULL UNIQUE, value);
        CREATE TABLE pair (x INTEGER NOT NULL, y INTEGER NOT NULL, note TEXT, UNIQUE (x, y));
        CREATE TABLE attachment (type TEXT, id TEXT, filename TEXT, size INTEGER);
        CREATE TRIGGER log_setting AFTER UPDATE ON setting BEGIN SELECT 1; END;
        CREATE VIEW notes AS SELECT note FROM log;
        """
    private static let seed = """
        INSERT INTO log (rowid, at, note) VALUES (1, 'mon', 'a'), (2, 'tue', 'gap'), (5, 'wed', 'c'), (9, 'x', 'same'),
            (12, 'x', 'same');
        DELETE FROM log WHERE rowid = 2;
        INSERT INTO setting VALUES ('theme', 'dark');
        INSERT INTO pair VALUES (1, 2, 'z');
        INSERT INTO attachment VALUES ('ticket', '1', 'f.txt', 7);
        """

    private static func cluster() throws -> Cluster {
        try Cluster(schema: schema, seed: seed, keys: ["attachment": ["type", "id", "filename"]])
    }

    private static func pair() async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice) {
        let cluster = try cluster()
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    private static let log = "SELECT at, note FROM log ORDER BY at, note"
    private static let statements = """
        SELECT sql FROM sqlite_master
        WHERE name NOT LIKE 'tidemark%' AND type IN ('table', 'index') AND name NOT LIKE 'sqlite%' ORDER BY name
        """

    @Test func `F5: tables without a key keep their statements on the server and on a device`() async throws {
        let (cluster, anna, _) = try await Self.pair()
        let scratch = try DatabaseQueue()
        let before = try await scratch.write { db in
            try db.execute(sql: Self.schema)
            return try String.fetchAll(db, sql: Self.statements)
        }
        #expect(try await cluster.rows(Self.statements) == before)
        #expect(try await anna.rows(Self.statements) == before)
        let keys = cluster.store.schema.tables.map { table in
            "\(table.name) \(table.keyKind.rawValue) \(table.key.joined(separator: ","))"
        }
        #expect(
            keys.sorted() == [
                "attachment general type,id,filename", "log integer rowid", "pair general x,y", "setting text name",
            ]
        )
    }

    @Test func `two devices insert without naming columns, and rows that are equal stay two rows`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        for device in [anna, ben] {
            try device.writeOutside("INSERT INTO log VALUES ('thu', 'both')")
            try await device.write("INSERT INTO log VALUES ('fri', 'only'); INSERT INTO log VALUES ('fri', 'only')")
        }
        try anna.writeOutside("INSERT INTO setting VALUES ('size', 1); INSERT INTO pair VALUES (3, 4, 'w')")
        try ben.writeOutside("INSERT INTO attachment VALUES ('wiki', '2', 'g.txt', 8)")
        try cluster.writeOutside("INSERT INTO log VALUES ('thu', 'both')")
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT count(*) FROM log WHERE at = 'thu'") == ["3"])
        #expect(try await cluster.rows("SELECT count(*) FROM log WHERE at = 'fri'") == ["4"])
        #expect(try await anna.rows("SELECT size FROM attachment ORDER BY size") == ["7", "8"])
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `a new row is edited and deleted in later transactions before any sync`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO log VALUES ('thu', 'new'), ('thu', 'gone')")
        try await anna.write("UPDATE setting SET value = 'light'")
        try await anna.write("UPDATE log SET note = 'edited' WHERE note = 'new'")
        try await anna.write("INSERT INTO log VALUES ('fri', 'next')")
        try await anna.write("DELETE FROM log WHERE note = 'gone'")
        try await cluster.converge(anna, ben)
        try await anna.write("UPDATE log SET note = note || '!' WHERE at IN ('thu', 'fri')")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows(Self.log).filter { $0.hasSuffix("!") } == ["fri|next!", "thu|edited!"])
    }

    @Test func `a row number that SQLite uses again is another record, whether or not its deletion was sent`()
        async throws
    {
        let (cluster, anna, ben) = try await Self.pair()
        // The highest row goes, so SQLite gives its number to the next row.
        try await anna.write("DELETE FROM log WHERE rowid = 12")
        try await anna.write("UPDATE setting SET value = 'light'")
        try await anna.write("INSERT INTO log VALUES ('sat', 'first')")
        try await cluster.converge(anna, ben)
        try await anna.write("DELETE FROM log WHERE note = 'first'")
        try await anna.engine.sync()
        try await anna.write("INSERT INTO log VALUES ('sun', 'second')")
        try await cluster.converge(anna, ben)
        try await anna.write("DELETE FROM log; INSERT INTO log VALUES ('m', '1'), ('n', '2')")
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows(Self.log) == ["m|1", "n|2"])
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `VACUUM on every side, with gaps and unsent rows, leaves each row its number`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO log VALUES ('thu', 'unsent')")
        _ = try await anna.engine.status()
        for path in [cluster.zonePath, anna.path, ben.path] {
            try await DatabaseQueue(path: path).writeWithoutTransaction { try $0.execute(sql: "VACUUM") }
        }
        try ben.writeOutside("UPDATE log SET note = 'edited' WHERE at = 'wed'")
        try ben.writeOutside("DELETE FROM log WHERE at = 'mon'")
        try await DatabaseQueue(path: ben.path).writeWithoutTransaction { try $0.execute(sql: "VACUUM") }
        try await cluster.converge(anna, ben)
        let numbered = "SELECT rowid, at, note FROM log WHERE rowid < 10 ORDER BY rowid"
        #expect(try await cluster.rows(numbered) == ["5|wed|edited", "9|x|same"])
        #expect(try await anna.rows(numbered) == ["5|wed|edited", "9|x|same"])
        #expect(try await cluster.rows("SELECT count(*) FROM log") == ["4"])
    }

    @Test func `rule 1: two people edit one row of a table without a key, and the second sees a conflict`()
        async throws
    {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE log SET note = 'anna' WHERE at = 'wed'")
        try await ben.write("UPDATE log SET note = 'ben' WHERE at = 'wed'")
        try await anna.engine.sync()
        try await ben.engine.sync()
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.records.map(\.key) == ["5"])
        #expect(conflict.records.map(\.theirs) == [#"{"at":"wed","note":"anna"}"#])
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT note FROM log WHERE at = 'wed'") == ["ben"])
    }

    @Test func `two devices choose the same declared key, and the second sees a conflict`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO attachment VALUES ('wiki', '1', 'a', 1)")
        try await ben.write("INSERT INTO attachment VALUES ('wiki', '1', 'a', 2)")
        try await anna.engine.sync()
        try await ben.engine.sync()
        #expect(try await ben.engine.conflicts().count == 1)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT size FROM attachment WHERE filename = 'a'") == ["1"])
        #expect(throws: DatabaseError.self) {
            try ben.writeOutside("INSERT INTO attachment VALUES (NULL, '1', 'b', 2)")
        }
    }

    @Test func `a device that is far behind, a damaged row and a restored server keep row numbers`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        let backup = try await cluster.backUp()
        for number in 0..<30 { try await anna.write("INSERT INTO log VALUES ('n', '\(number)')") }
        try await anna.write("DELETE FROM log WHERE at = 'mon'")
        try await cluster.converge(anna, ben)
        try await ben.database.write { db in
            try db.execute(sql: "UPDATE tidemark_state SET applying = 1")
            try db.execute(sql: "UPDATE log SET note = 'damaged' WHERE at = 'wed'")
            try db.execute(sql: "UPDATE tidemark_state SET applying = 0")
        }
        _ = try await ben.engine.verify()
        try await cluster.converge(anna, ben)
        try await cluster.restore(backup, isSaid: true)
        try await anna.write("INSERT INTO log VALUES ('after', 'restore')")
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT count(*) FROM log WHERE at = 'after'") == ["1"])
        #expect(try await cluster.rows("SELECT count(*) FROM log WHERE at = 'n'") == ["30"])
        #expect(try await cluster.rows("SELECT count(*) FROM log WHERE note = 'damaged'") == ["0"])
    }

    @Test func `a table without a key is dropped after edits that no drain has seen, and the file opens and syncs`()
        async throws
    {
        let (_, anna, ben) = try await Self.pair()
        try await anna.write(
            """
            INSERT INTO log VALUES ('now', 'new');
            UPDATE log SET note = 'edited' WHERE note = 'a';
            UPDATE setting SET value = 'light';
            DROP TABLE log;
            """
        )
        let again = try await anna.reopened()
        try await again.engine.sync()
        try await ben.engine.sync()
        #expect(try await ben.rows("SELECT value FROM setting") == ["light"])
        #expect(try await ben.rows("SELECT note FROM log ORDER BY rowid") == ["edited", "c", "same", "same", "new"])
    }

    @Test func `a table whose columns are called rowid and oid is known by the third name`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE t (rowid TEXT, oid TEXT)", seed: "INSERT INTO t VALUES ('a', 'b')")
        #expect(cluster.store.schema.tables.map(\.key) == [["_rowid_"]])
        let anna = try await cluster.device("anna")
        try await anna.write("INSERT INTO t VALUES ('c', 'd'); UPDATE t SET oid = 'e' WHERE rowid = 'a'")
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT * FROM t ORDER BY rowid") == ["a|e", "c|d"])
    }

    @Test func `a key stays what it was when a unique index comes or goes`() async throws {
        let (cluster, anna, _) = try await Self.pair()
        try cluster.writeOutside("CREATE UNIQUE INDEX later ON pair (note)")
        try cluster.writeOutside("UPDATE pair SET note = 'still' WHERE x = 1")
        try await cluster.converge(anna)
        #expect(cluster.store.schema.byName["pair"]?.key == ["x", "y"])
        #expect(cluster.store.schema.byName["log"]?.key == ["rowid"])
    }

    @Test(arguments: UInt64(1)...4)
    func `rule 23: after random edits on three sides, with VACUUM between, all files are equal`(seed: UInt64)
        async throws
    {
        let cluster = try Self.cluster()
        let devices = [try await cluster.device("anna"), try await cluster.device("ben")]
        var random = SeededGenerator(seed: seed)
        var counter = 0
        for _ in 0..<80 {
            counter += 1
            let value = "'\(counter)'"
            let edit =
                [
                    "INSERT INTO log VALUES ('r', \(value)), ('r', \(value))",
                    "DELETE FROM log WHERE rowid = (SELECT max(rowid) FROM log)",
                    "DELETE FROM log WHERE rowid = (SELECT min(rowid) FROM log)",
                    "UPDATE log SET note = \(value) WHERE rowid = (SELECT rowid FROM log ORDER BY note LIMIT 1)",
                    "INSERT OR REPLACE INTO setting VALUES ('s\(counter % 5)', \(value))",
                    "INSERT OR REPLACE INTO pair VALUES (\(counter % 3), 1, \(value))",
                    "DELETE FROM pair WHERE x = \(counter % 3)",
                    "DELETE FROM log; INSERT INTO log VALUES ('w', \(value)), ('v', \(value))",
                ].randomElement(using: &random) ?? ""
            let device = devices[Int.random(in: 0..<2, using: &random)]
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4: try await device.write(edit)
            case 4..<5: try device.writeOutside(edit)
            case 5: try cluster.writeOutside(edit)
            case 6: try await DatabaseQueue(path: device.path).writeWithoutTransaction { try $0.execute(sql: "VACUUM") }
            default: try await device.engine.sync()
            }
        }
        for _ in 0..<6 {
            for device in devices {
                try await device.engine.sync()
                for conflict in try await device.engine.conflicts() {
                    try await device.engine.resolve(conflict.id, with: .accept)
                }
            }
        }
        try await cluster.converge(devices)
    }
}
