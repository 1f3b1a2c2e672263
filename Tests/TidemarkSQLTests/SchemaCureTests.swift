import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// A schema that cannot be synced is refused with all its problems, and SQL that cures them.
@Suite struct SchemaCureTests {
    private func problems(_ db: Database) throws -> [SchemaProblem] {
        do {
            _ = try SchemaIntrospection(db).makeSchema()
            return []
        } catch let error as UnsyncableSchema { return error.problems }
    }

    /// Runs every cure as printed, and expects no problem to remain.
    @discardableResult private func cure(_ sql: String) throws -> DatabaseQueue {
        let queue = try DatabaseQueue()
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: sql)
            let problemList = try problems(db)
            #expect(!problemList.isEmpty)
            for problem in problemList { try db.execute(sql: problem.cure) }
            #expect(try problems(db) == [])
            #expect(try Bool.fetchOne(db, sql: "PRAGMA foreign_keys") == true)
            #expect(try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").isEmpty)
        }
        return queue
    }

    @Test func `a table without a key has no problem, unless its columns have all names of the rowid`() throws {
        let problemList = try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE log (at, note); CREATE TABLE odd (rowid, _rowid_, OID)")
            return try problems(db)
        }
        #expect(problemList.map(\.table) == ["odd"])
        #expect(problemList.allSatisfy { $0.cure.contains("--key odd=") })
    }

    @Test(arguments: ["a\"b", "a\\b"])
    func `a table whose name needs an escape in JSON is renamed`(name: String) throws {
        try cure("CREATE TABLE \(SQLText.name(name)) (id INTEGER PRIMARY KEY, a)")
    }

    @Test(arguments: ["a\"b", "a\\b", "tab\there"])
    func `a column whose name needs an escape in JSON is renamed`(name: String) throws {
        try cure("CREATE TABLE t (id INTEGER PRIMARY KEY, \(SQLText.name(name)))")
    }

    @Test func `a name too long for the protocol is shortened`() throws {
        let long = String(repeating: "n", count: 200)
        try cure("CREATE TABLE \(long) (id INTEGER PRIMARY KEY, \(long)_c)")
    }

    @Test func `a reference to columns that are not unique gets a unique index`() throws {
        try cure(
            """
            CREATE TABLE a (id INTEGER PRIMARY KEY, x, y);
            CREATE TABLE b (id INTEGER PRIMARY KEY, x, y, FOREIGN KEY (x, y) REFERENCES a (x, y));
            CREATE TABLE c (id INTEGER PRIMARY KEY, x REFERENCES a (x));
            """
        )
    }

    @Test func `all problems are reported at once, and the cures work in the given order`() throws {
        let queue = try cure(
            """
            CREATE TABLE "ty""pes" (a, "revi\\sion", code);
            CREATE TABLE log (x REFERENCES "ty""pes" (code), "old""id");
            """
        )
        let tables = try queue.read { try SchemaIntrospection($0).makeSchema().tables }
        #expect(tables.map(\.name).sorted() == ["log", "types_records"])
    }

    @Test func `each problem has its place`() throws {
        let problemList = try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE log (rowid, _rowid_, oid);
                    CREATE TABLE "a\\fter" (id INTEGER PRIMARY KEY, "revi\\sion");
                    CREATE TABLE c (id INTEGER PRIMARY KEY, p REFERENCES nowhere);
                    """
            )
            return try problems(db)
        }
        #expect(
            Set(problemList.map { "\($0.table).\($0.column ?? "")" }) == [
                "log.", "a\\fter.", "a\\fter.revi\\sion", "c.p",
            ]
        )
        #expect(problemList.allSatisfy { !$0.reason.isEmpty && !$0.cure.isEmpty })
    }

    @Test func `a table with too many columns is refused before capture fails on it`() throws {
        let problemList = try DatabaseQueue().write { db in
            let columns = (1...901).map { "c\($0)" }.joined(separator: ", ")
            try db.execute(sql: "CREATE TABLE wide (id INTEGER PRIMARY KEY, \(columns))")
            return try problems(db)
        }
        #expect(problemList.map(\.table) == ["wide"])
    }

    @Test func `a table with the maximal number of columns is captured`() throws {
        let names = (1...899).map { "c\($0)" }
        let file = try CapturedFile("CREATE TABLE wide (id INTEGER PRIMARY KEY, \(names.joined(separator: ", ")))")
        try file.write("INSERT INTO wide (id, c899) VALUES (1, 'end')")
        _ = try file.drain()
        try file.write("UPDATE wide SET c1 = 'start', c899 = NULL")
        #expect(try file.drain() == [#"update wide 1 {"c1":"start","c899":null}"#])
    }

    @Test func `an ordinary schema has no problems`() throws {
        let problemList = try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE "order" ("group" TEXT PRIMARY KEY, "it's" INTEGER, Größe REAL);
                    CREATE TABLE n (id INTEGER PRIMARY KEY, parent REFERENCES n, o REFERENCES "order");
                    """
            )
            return try problems(db)
        }
        #expect(problemList == [])
    }
}
