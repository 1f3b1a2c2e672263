#if !canImport(Darwin)
import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 10: work on all rows of a large table takes a number of SQLite's virtual machine steps
/// that is linear in the rows.
///
/// Quadratic work would take thousands of times as many: it fails when the budget is spent.
@Suite struct LargeTableTests {
    private static let rows = 100_000
    /// Linear work takes some hundred steps a row, over all statements of a sync.
    private static let stepsPerRow = 1_000

    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL, stars INTEGER);
        """
    private static let seed = """
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
        INSERT INTO note SELECT i, 'note ' || i, 0 FROM n;
        """
    /// The twelve steps of SQLite's manual for rebuilding a table, with an edit among them.
    private static let rebuild = """
        CREATE TABLE fresh (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL, stars INTEGER);
        INSERT INTO fresh SELECT * FROM note; DROP TABLE note; ALTER TABLE fresh RENAME TO note;
        UPDATE note SET stars = 9 WHERE id % 20000 = 7;
        DELETE FROM note WHERE id = 8;
        INSERT INTO note (body) VALUES ('without a trigger');
        """

    private let cluster: Cluster
    private let budget: StepBudget

    init() async throws {
        cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        budget = StepBudget(of: cluster.folder)
    }

    /// Syncs a device within the budget.
    private func sync(_ device: TestDevice) async throws {
        try await budget.spending(atMost: Self.rows * Self.stepsPerRow) { try await device.engine.sync() }
    }

    @Test func `a table of 100,000 rows rebuilt by a migration is compared in linear time`() async throws {
        var anna = try await cluster.device("anna")
        try anna.writeOutside(Self.rebuild)
        anna = try await anna.reopened()
        try await sync(anna)
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT count(*), sum(stars) FROM note") == ["100000|45"])
        #expect(try await cluster.rows("SELECT body FROM note ORDER BY id DESC LIMIT 1") == ["without a trigger"])
    }

    @Test(arguments: [
        "name TEXT COLLATE NOCASE PRIMARY KEY", "name TEXT PRIMARY KEY", "name REAL PRIMARY KEY",
        "name BLOB PRIMARY KEY", "name PRIMARY KEY",
    ]) func `a rebuilt table is compared by a key of any type in linear time`(key: String) async throws {
        let table = "CREATE TABLE tag (\(key), stars INTEGER);"
        let value = key.contains("TEXT") ? "i || 'a'" : "iif(i % 2, i / 2.0, CAST(i || 'a' AS BLOB))"
        let cluster = try Cluster(
            schema: table,
            seed: """
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                INSERT INTO tag (name, stars) SELECT \(value), 0 FROM n;
                """
        )
        try await compare(cluster, table, key: "name", new: "'new', 1")
        // Another spelling of the key is the same record where the column says so.
        if key.contains("NOCASE") {
            #expect(try await cluster.rows("SELECT count(*) FROM tag WHERE name = '16A'") == ["1"])
        }
    }

    @Test func `a rebuilt table is compared by a key of two columns in linear time`() async throws {
        let table = """
            CREATE TABLE tag (a INTEGER, name TEXT, stars INTEGER, PRIMARY KEY (name, a)) WITHOUT ROWID;
            """
        let cluster = try Cluster(
            schema: table,
            seed: """
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                INSERT INTO tag (a, name, stars) SELECT i / 7, 'n' || i, 0 FROM n;
                """
        )
        try await compare(cluster, table, key: "a, name", new: "0, 'new', 1")
    }

    /// Rebuilds the table of 20,000 tags on a device, with a change, a deletion and a new row, and
    /// syncs it.
    private func compare(_ cluster: Cluster, _ table: String, key: String, new: String) async throws {
        let budget = StepBudget(of: cluster.folder)
        var anna = try await cluster.device("anna")
        try anna.writeOutside(
            """
            ALTER TABLE tag RENAME TO old; \(table)
            INSERT INTO tag (\(key), stars) SELECT \(key), stars FROM old; DROP TABLE old;
            UPDATE tag SET stars = 7 WHERE name IN (SELECT name FROM tag ORDER BY name LIMIT 4 OFFSET 9);
            DELETE FROM tag WHERE name = (SELECT name FROM tag ORDER BY name LIMIT 1 OFFSET 99);
            INSERT INTO tag (\(key), stars) VALUES (\(new))
            """
        )
        if table.contains("NOCASE") { try anna.writeOutside("UPDATE tag SET name = '16A' WHERE name = '16a'") }
        anna = try await anna.reopened()
        try await budget.spending(atMost: Self.rows * Self.stepsPerRow) { try await anna.engine.sync() }
        try await cluster.converge(anna)
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await cluster.rows("SELECT count(*), sum(stars) FROM tag") == ["20000|29"])
    }

    @Test func `a rebuilt table of 100,000 rows enters another history in linear time`() async throws {
        var anna = try await cluster.device("anna")
        try anna.writeOutside(Self.rebuild)
        try cluster.writeOutside("UPDATE tidemark_zone SET epoch = '00000000-0000-4000-8000-00000000beef'")
        anna = try await anna.reopened()
        try await sync(anna)
        let conflicts = try await anna.engine.conflicts()
        #expect(conflicts.first?.records.count == 5)
        // In the other history somebody may have deleted the row that is new here.
        #expect(conflicts.flatMap(\.records).count { $0.operation == "create" } == 1)
        #expect(try await cluster.rows("SELECT count(*) FROM note") == ["100000"])
    }

    @Test func `a delta of 40,000 records applies under 20,000 pending edits in linear time`() async throws {
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try ben.writeOutside("UPDATE note SET body = body || '!' WHERE id <= 40000")
        try await ben.engine.sync()
        try await anna.write("UPDATE note SET stars = 1 WHERE id > 80000")
        try await sync(anna)
        try await cluster.converge(anna, ben)
    }

    @Test func `20,000 pending edits move into a backup's history in linear time`() async throws {
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        // The backup has the same edit: nothing of the pending change sets is left to do.
        try ben.writeOutside("UPDATE note SET stars = 1 WHERE id <= 20000")
        try await ben.engine.sync()
        try await anna.write("UPDATE note SET stars = 1 WHERE id <= 20000")
        try await anna.write("UPDATE note SET body = 'mine' WHERE id = 50000")
        try await cluster.restore(cluster.backUp(), isSaid: true)
        try await sync(anna)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT body FROM note WHERE id = 50000") == ["mine"])
    }

    @Test func `a column filled by a migration in 100,000 rows is drained in linear time`() async throws {
        var anna = try await cluster.device("anna")
        try cluster.writeOutside("ALTER TABLE note ADD COLUMN mood TEXT DEFAULT 'calm'")
        try anna.writeOutside(
            """
            ALTER TABLE note ADD COLUMN mood TEXT DEFAULT 'calm';
            UPDATE note SET mood = 'keen' WHERE id % 20000 = 7;
            """
        )
        anna = try await anna.reopened()
        try await sync(anna)
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT count(*) FROM note WHERE mood = 'keen'") == ["5"])
    }

    @Test func `100,000 independent edits of another program become as many change sets in linear time`() async throws {
        let anna = try await cluster.device("anna")
        try await Self.declareIndependent(anna)
        try anna.writeOutside("UPDATE note SET stars = 1")
        try await budget.spending(atMost: Self.rows * Self.stepsPerRow) { _ = try await anna.engine.checkRows() }
        #expect(try await anna.engine.status().pendingChangeSets == Self.rows)
    }

    private static func declareIndependent(_ device: TestDevice) async throws {
        _ = try await SyncEngine(
            device.database, server: "http://cluster.test", transport: device.transport, independent: .all)
    }

    @Test func `a conflict of 20,000 records is divided in linear time, whatever does not fit among them`() async throws
    {
        let rows = 20_000
        let cluster = try Cluster(
            schema: "CREATE TABLE tag (id INTEGER PRIMARY KEY, name TEXT, stars INTEGER, place TEXT UNIQUE);",
            seed: """
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
                INSERT INTO tag SELECT i, 'n' || i, 0, NULL FROM n;
                """
        )
        let budget = StepBudget(of: cluster.folder)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try ben.writeOutside("UPDATE tag SET name = 'of ben' WHERE id = 7; UPDATE tag SET place = 'taken' WHERE id = 8")
        try await ben.engine.sync()
        try anna.writeOutside("UPDATE tag SET stars = 1 WHERE id <> 8; UPDATE tag SET place = 'taken' WHERE id = 9")
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().map { $0.records.count >= rows - 1 } == [true])
        try await budget.spending(atMost: rows * 4 * Self.stepsPerRow) {
            // The edit of Ben's record, and the value that he has taken, are left to a person.
            let left = try await anna.engine.divide("1")
            #expect(left.flatMap(\.records).filter { $0.operation == "update" }.map(\.key).sorted() == ["7", "9"])
        }
        #expect(try await anna.engine.status().pendingChangeSets == rows - 3)
    }

    @Test func `rows changed behind the triggers are found among 100,000 in linear time`() async throws {
        let anna = try await cluster.device("anna")
        try anna.writeOutside(
            """
            UPDATE tidemark_state SET applying = 1;
            UPDATE note SET stars = 5 WHERE id % 20000 = 7; DELETE FROM note WHERE id = 8;
            UPDATE tidemark_state SET applying = 0;
            """
        )
        try await budget.spending(atMost: Self.rows * Self.stepsPerRow) {
            let verification = try await anna.engine.verify(repairing: true)
            #expect(verification.records.count == 6)
        }
        try await cluster.converge(anna)
    }

    @Test func `of 1,200 pending rows two exchange unique values, and a snapshot replaces the tables`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE seats (id INTEGER PRIMARY KEY, number INTEGER UNIQUE, name TEXT)",
            seed: """
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
                INSERT INTO seats SELECT i, i, 'free' FROM n
                """)
        let anna = try await cluster.device("anna")
        try await anna.write(
            """
            UPDATE seats SET name = 'taken';
            UPDATE seats SET number = -1 WHERE id = 1;
            UPDATE seats SET number = 1 WHERE id = 2;
            UPDATE seats SET number = 2 WHERE id = 1
            """)
        try await anna.write("UPDATE tidemark_device SET stale = 1")
        try await anna.engine.sync()
        let rows = "SELECT number FROM seats WHERE id < 3 UNION ALL SELECT count(*) FROM seats WHERE name = 'taken'"
        #expect(try await anna.rows(rows) == ["2", "1", "1200"])
        #expect(try await cluster.rows(rows) == ["2", "1", "1200"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }
}
#endif
