#if !canImport(Darwin)
import Foundation
import GRDB
import GRDBSQLite
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkSQL
import TidemarkTestSupport

/// Opening a file takes work that is linear in its tables.
@Suite struct ManyTablesTests {
    private static func schema(_ count: Int) -> String {
        (0..<count).map {
            "CREATE TABLE t\($0) (id INTEGER PRIMARY KEY, a TEXT, b TEXT UNIQUE, c INTEGER REFERENCES t\($0 / 2));"
        }.joined(separator: "\n")
    }

    /// Fourfold work for four times the tables, and something for the indexes of large tables.
    private static let growthMax = 6

    @Test func `a device and a server of 160 tables open and sync in steps linear in the tables`() async throws {
        var steps: [Int: [Int]] = [:]
        for count in [40, 160] {
            let cluster = try Cluster(schema: Self.schema(count), seed: "INSERT INTO t0 (a) VALUES ('x')")
            let anna = try await cluster.device("anna")
            try await anna.engine.sync()
            let budget = StepBudget(of: cluster.folder)
            let opened = try await budget.count {
                let later = try await anna.reopened()
                _ = try await later.engine.status()
            }
            let later = try await anna.reopened()
            try await later.write("INSERT INTO t1 (a) VALUES ('y')")
            let synced = try await budget.count { try await later.engine.sync() }
            let served = try await budget.count {
                _ = try EmbeddedStore(path: cluster.zonePath, newEpoch: UUID())
            }
            steps[count] = [opened, synced, served]
        }
        let few = try #require(steps[40])
        let many = try #require(steps[160])
        for (few, many) in zip(few, many) { #expect(many < few * Self.growthMax, "\(steps)") }
    }

    /// GRDB gathers the tables that a statement reads, and copies the list at each column that SQLite reports.
    private final class GatheredTables {
        private var names: Set<String> = []
        private var isListing = false
        private(set) var work = 0
        /// The columns that SQLite reports while a statement that lists all tables runs.
        private(set) var readWhileListing = 0

        func begin(_ statement: String) {
            names = []
            isListing = statement.contains("pragma_table_list")
        }

        func read(_ name: String) {
            names.insert(name)
            work += names.count
            if isListing { readWhileListing += 1 }
        }
    }

    /// Reads the schema of a file with as many views as tables.
    private static func introspect(_ count: Int, more: String) throws -> GatheredTables {
        let gathered = GatheredTables()
        try DatabaseQueue().inDatabase { db in
            let views = (0..<count).map { "CREATE VIEW v\($0) AS SELECT * FROM t\($0) JOIN t\($0 / 2) USING (id);" }
            try db.execute(sql: schema(count) + more + views.joined())
            db.trace(options: .statement) { gathered.begin("\($0)") }
            sqlite3_set_authorizer(
                db.sqliteConnection,
                { gathered, action, table, _, _, _ in
                    guard action == SQLITE_READ, let gathered, let table else { return SQLITE_OK }
                    Unmanaged<GatheredTables>.fromOpaque(gathered).takeUnretainedValue().read(String(cString: table))
                    return SQLITE_OK
                },
                Unmanaged.passUnretained(gathered).toOpaque()
            )
            #expect(try SchemaIntrospection(db).tables.count == count)
            sqlite3_set_authorizer(db.sqliteConnection, nil, nil)
        }
        return gathered
    }

    @Test func `the tables of a file with views are read one after another`() throws {
        let few = try Self.introspect(40, more: "")
        let many = try Self.introspect(160, more: "")
        #expect(many.work < few.work * Self.growthMax)
        let withModule = try Self.introspect(40, more: "CREATE VIRTUAL TABLE words USING fts5(text);")
        #expect(withModule.readWhileListing < 40)
    }
}
#endif
