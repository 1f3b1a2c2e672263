import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 39: what real devices add offline adds up, and each device shows its own part at once.
@Suite struct AddTests {
    private static let schema = """
        CREATE TABLE item (
            id INTEGER PRIMARY KEY, name TEXT, stock INTEGER CHECK (stock >= 0), sold INTEGER NOT NULL DEFAULT 0);
        """
    private static let seed = "INSERT INTO item (name, stock) VALUES ('cup', 10), ('jug', 5)"
    private static let policies: [String: ConflictPolicy] = ["item.stock": .add, "item.sold": .add]

    private static func pair(merges: [any RecordMerging] = []) async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice
    ) {
        let cluster = try Cluster(schema: schema, seed: seed, policies: policies)
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben", merges: merges))
    }

    private static func stock(_ device: TestDevice) async throws -> String {
        try await device.rows("SELECT stock FROM item WHERE id = 1").first ?? ""
    }

    private static func sell(_ count: Int) -> String { "UPDATE item SET stock = stock - \(count) WHERE id = 1" }

    /// Lets the device make its change sets without reaching the server.
    private static func drain(_ device: TestDevice) async throws {
        device.transport.faults.add(.requestLost)
        await #expect(throws: TidemarkError.self) { try await device.engine.sync() }
    }

    @Test func `two tills that sell offline leave the rest of the stock, and no conflict`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write(Self.sell(2))
        try await ben.write(Self.sell(2))
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT stock FROM item WHERE id = 1") == ["6"])
        #expect(anna.transport.faults.requests[0].contains(#""stock":{"$add":-2}"#))
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `many devices count one row at once, through lost messages, to the exact sum`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed, policies: Self.policies)
        let count = Effort.count(short: 6, long: 50)
        var devices: [TestDevice] = []
        for number in 1...count { devices.append(try await cluster.device("device\(number)")) }
        let faults: [FaultPlan.Fault] = [.none, .answerLost, .requestDoubled, .requestLost]
        for round in 0..<20 {
            for device in devices { try await device.write("UPDATE item SET sold = sold + 1 WHERE id = 1") }
            await withTaskGroup(of: Void.self) { tasks in
                for (index, device) in devices.enumerated() where (round + index) % 4 == 0 {
                    device.transport.faults.add(faults[(round * 5 + index) % 4])
                    // A lost message is what this is about.
                    tasks.addTask { _ = try? await device.engine.sync() }
                }
            }
        }
        try await cluster.converge(devices)
        #expect(try await cluster.rows("SELECT sold FROM item WHERE id = 1") == ["\(count * 20)"])
        for device in devices { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `a waiting sale is on top of what others sold, before and after the answer`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await ben.write(Self.sell(3))
        try await ben.engine.sync()
        try await anna.write(Self.sell(1))
        let faults = anna.transport.faults
        faults.whileInFlight {
            try await anna.write(Self.sell(1))
            faults.whileInFlight {
                // The first sale and Ben's are confirmed, the second one waits.
                let stock = try await Self.stock(anna)
                #expect(stock == "5")
            }
        }
        try await anna.engine.sync()
        #expect(try await Self.stock(anna) == "5")
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT stock FROM item WHERE id = 1") == ["5"])
        #expect(anna.transport.faults.comparisons.isEmpty)
    }

    @Test func `each waiting change set has its own part, also of a record that it has just made`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO item (id, name, stock) VALUES (-1, 'pot', 4)")
        try await Self.drain(anna)
        try await anna.write("UPDATE item SET stock = stock + 6 WHERE name = 'pot'")
        try await anna.write("UPDATE item SET stock = stock + 1, sold = 2 WHERE name = 'pot'")
        try await Self.drain(anna)
        try await anna.write("UPDATE item SET stock = stock * 3 WHERE name = 'pot'")
        try await Self.drain(anna)
        let deltas = "SELECT attributes FROM tidemark_outbox WHERE operation = 'update' ORDER BY seq"
        let expected = [#"{"stock":{"$add":7},"sold":{"$add":2}}"#, #"{"stock":{"$add":22}}"#]
        #expect(try await anna.rows(deltas) == expected)
        try await ben.write(Self.sell(1))
        try await cluster.converge(anna, ben)
        let rows = try await cluster.rows("SELECT name, stock, sold FROM item ORDER BY id")
        #expect(rows == ["cup|9|0", "jug|5|0", "pot|33|2"])
    }

    @Test func `NULL, numbers with a fraction and texts travel as values`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE item (id INTEGER PRIMARY KEY, stock INTEGER)",
            seed: "INSERT INTO item VALUES (1, 10), (2, NULL), (3, 1.5), (4, 'many'), (5, -9223372036854775808)",
            policies: ["item.stock": .add])
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write(
            """
            UPDATE item SET stock = NULL WHERE id = 1; UPDATE item SET stock = 4 WHERE id IN (2, 3, 4);
            UPDATE item SET stock = 9223372036854775807 WHERE id = 5
            """
        )
        try await Self.drain(anna)
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_outbox WHERE attributes LIKE '%$add%'") == ["0"])
        try await ben.write("UPDATE item SET stock = stock + 1 WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await ben.engine.conflicts().map(\.reasons.first?.columns) == [["stock"]])
        #expect(try await ben.engine.conflicts().first?.records.first?.mine == #"{"stock":{"$add":1}}"#)
        let id = try #require(try await ben.engine.conflicts().first?.id)
        await #expect(throws: TidemarkError.self) { try await ben.engine.resolve(id, with: .retry) }
        try await anna.write("UPDATE item SET stock = 20 WHERE id = 1")
        try await cluster.converge(anna, ben)
        try await ben.engine.resolve(id, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT stock FROM item WHERE id = 1") == ["21"])
    }

    // MARK: Conflicts

    /// Both sell and rename; Ben's change set is a conflict because of the name.
    private static func refused(merges: [any RecordMerging] = []) async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice
    ) {
        let (cluster, anna, ben) = try await pair(merges: merges)
        try await anna.write("UPDATE item SET stock = stock - 2, name = 'mug' WHERE id = 1")
        try await ben.write("UPDATE item SET stock = stock - 3, name = 'jar' WHERE id = 1")
        try await anna.engine.sync()
        try await ben.engine.sync()
        return (cluster, anna, ben)
    }

    @Test func `a refused sale is shown as what it adds, and a retry adds it again`() async throws {
        let (cluster, anna, ben) = try await Self.refused()
        #expect(try await Self.stock(ben) == "8")
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.reasons.map(\.columns) == [["name"]])
        #expect(conflict.records.map(\.mine) == [#"{"name":"jar","stock":{"$add":-3}}"#])
        try await anna.write(Self.sell(1))
        try await anna.engine.sync()
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT name, stock FROM item WHERE id = 1") == ["jar|4"])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `an accepted conflict drops the refused sale, and a given value replaces it`() async throws {
        for isMerged in [false, true] {
            let (cluster, anna, ben) = try await Self.refused()
            let conflict = try #require(try await ben.engine.conflicts().first)
            let merged = MergedRecord(table: "item", key: "1", columns: ["stock": 7.databaseValue])
            try await ben.engine.resolve(conflict.id, with: isMerged ? .merge([merged]) : .accept)
            try await cluster.converge(anna, ben)
            let row = isMerged ? "jar|7" : "mug|8"
            #expect(try await cluster.rows("SELECT name, stock FROM item WHERE id = 1") == [row])
        }
    }

    @Test func `B14: a merge function sees values, and cannot lose what anybody sold`() async throws {
        let inputs = Mutex<[MergeInput]>([])
        let (cluster, anna, ben) = try await Self.refused(merges: [
            TableMerge("item") { record in
                inputs.withLock { $0.append(record) }
                var row = record.theirs
                for (column, value) in record.mine where value != record.base?[column] { row[column] = value }
                return row
            }
        ])
        try await cluster.converge(anna, ben)
        let input = try #require(inputs.withLock { $0.first })
        #expect([input.base?["stock"], input.mine["stock"], input.theirs["stock"]] == [8, 5, 8].map(\.databaseValue))
        #expect(try await cluster.rows("SELECT name, stock FROM item WHERE id = 1") == ["jar|5"])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `the last item that two tills sold offline is a conflict, and shown as not sold meanwhile`() async throws
    {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write(Self.sell(9))
        try await ben.write(Self.sell(8))
        try await anna.engine.sync()
        let faults = ben.transport.faults
        try await ben.engine.sync()
        #expect(try await Self.stock(ben) == "1")
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.records.map(\.mine) == [#"{"stock":{"$add":-8}}"#])
        #expect(faults.comparisons.isEmpty)
        await #expect(throws: TidemarkError.self) { try await ben.engine.resolve(conflict.id, with: .retry) }
        try await anna.write("UPDATE item SET stock = stock + 20 WHERE id = 1")
        try await cluster.converge(anna, ben)
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT stock FROM item WHERE id = 1") == ["13"])
    }

    @Test func `two of three waiting sales no longer fit: the stock that is shown meanwhile is no edit`() async throws {
        var limits = Limits.standard
        limits.changeSetsPerRequestMax = 1
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed, policies: Self.policies)
        let anna = try await cluster.device("anna", limits: limits)
        let ben = try await cluster.device("ben")
        for sql in ["UPDATE item SET name = 'jar' WHERE id = 2", Self.sell(3), Self.sell(4), Self.sell(1)] {
            try await anna.write(sql)
            try await Self.drain(anna)
        }
        try await ben.write(Self.sell(9))
        try await ben.engine.sync()
        try await anna.engine.sync()
        let conflicts = try await anna.engine.conflicts()
        // The sale that fits depends on them, as its row was theirs.
        #expect(conflicts.flatMap(\.records).map(\.mine) == [3, 4, 1].map { #"{"stock":{"$add":-\#($0)}}"# })
        #expect(try await anna.engine.status().uncapturedRecords == 0)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT name, stock FROM item ORDER BY id") == ["cup|1", "jar|5"])
    }

    // MARK: Other histories and tables

    @Test(arguments: [true, false]) func `rule 14: a restored server gets the forgotten sale back once`(isSaid: Bool)
        async throws
    {
        let (cluster, anna, ben) = try await Self.pair()
        try await cluster.converge(anna, ben)
        let backup = try await cluster.backUp()
        try await anna.write(Self.sell(2))
        try await anna.engine.sync()
        try await anna.write(Self.sell(1))
        try await anna.engine.sync()
        try await cluster.restore(backup, isSaid: isSaid)
        try await cluster.converge(anna, ben)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT stock FROM item WHERE id = 1") == ["7"])
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `rule 14: equal sums do not prove that both devices' forgotten sales are there`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await cluster.converge(anna, ben)
        let backup = try await cluster.backUp()
        try await anna.write(Self.sell(2))
        try await ben.write(Self.sell(2))
        try await anna.engine.sync()
        try await ben.engine.sync()
        try await cluster.restore(backup, isSaid: true)
        try await anna.engine.sync()
        try await ben.engine.sync()
        // Ben's record is not as Ben saw it, so a person decides.
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(conflict.records.map(\.mine) == [#"{"stock":{"$add":-2}}"#])
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT stock FROM item WHERE id = 1") == ["6"])
    }

    @Test func `rule 14: a sale that no server has is added to the rows of a new history`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await cluster.converge(anna, ben)
        try await anna.write(Self.sell(1))
        try await anna.engine.sync()
        let backup = try await cluster.backUp()
        try await ben.write(Self.sell(3))
        try await cluster.converge(ben)
        try await cluster.restore(backup, isSaid: true)
        try cluster.writeOutside("UPDATE item SET stock = 50 WHERE id = 1")
        try await anna.write(Self.sell(1))
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().isEmpty)
        #expect(try await Self.stock(anna) == "49")
        try await cluster.converge(anna)
    }

    @Test func `rule 14: a sale whose answer was lost, to a server without its bookkeeping, is not added again`()
        async throws
    {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write(Self.sell(3))
        anna.transport.faults.add(.answerLost)
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        // The rows are in another file, which knows no verdict.
        let stock = try #require(try await cluster.rows("SELECT stock FROM item WHERE id = 1").first)
        try await cluster.restore(nil)
        try cluster.writeOutside("INSERT INTO item (id, name, stock) VALUES (1, 'cup', \(stock)), (2, 'jug', 5)")
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().map(\.records.count) == [1])
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT stock FROM item WHERE id = 1") == ["7"])
    }

    @Test func `rule 24: a device behind the horizon takes a snapshot, and its sale goes on top`() async throws {
        var limits = Limits.standard
        limits.revisionsKept = 2
        limits.compactionStepMin = 1
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed, policies: Self.policies, limits: limits)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write(Self.sell(1))
        anna.transport.faults.add(.answerLost)
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        try await anna.write(Self.sell(1))
        for _ in 1...6 {
            try await ben.write(Self.sell(1))
            try await ben.engine.sync()
        }
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT stock FROM item WHERE id = 1") == ["2"])
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `case 54: an app's migration during a waiting sale sends the sale once`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write(Self.sell(2))
        try await Self.drain(anna)
        try await ben.write(Self.sell(1))
        try await ben.engine.sync()
        // The table is made anew, so its triggers are gone for a while, and an edit is missed.
        try await anna.database.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA foreign_keys = OFF;
                    CREATE TABLE fresh (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT,
                        stock INTEGER CHECK (stock >= 0), sold INTEGER NOT NULL DEFAULT 0, shelf TEXT);
                    INSERT INTO fresh SELECT id, name, stock, sold, NULL FROM item;
                    DROP TABLE item; ALTER TABLE fresh RENAME TO item;
                    UPDATE item SET stock = stock - 4 WHERE id = 1;
                    PRAGMA foreign_keys = ON
                    """
            )
        }
        let later = try await anna.reopened()
        try await later.engine.sync()
        try await later.engine.sync()
        try await ben.engine.sync()
        #expect(try await cluster.rows("SELECT stock FROM item WHERE id = 1") == ["3"])
        #expect(try await Self.stock(later) == "3")
        #expect(try await ben.rows("SELECT stock FROM item WHERE id = 1") == ["3"])
    }

    /// Changes of the file after which the engine fits its bookkeeping again.
    private static let migrations = [
        "ALTER TABLE note ADD COLUMN more TEXT", "ALTER TABLE item ADD COLUMN shelf TEXT",
        "CREATE INDEX note_text ON note (text)",
        """
        PRAGMA foreign_keys = OFF;
        CREATE TABLE fresh (id INTEGER PRIMARY KEY, more TEXT); INSERT INTO fresh SELECT id, text FROM note;
        DROP TABLE note; ALTER TABLE fresh RENAME TO note;
        """,
    ]

    @Test(arguments: migrations, [2, 3])
    func `rule 39: a sale before an app's migration, of any table, is sent as a sale`(migration: String, other: Int)
        async throws
    {
        let cluster = try Cluster(
            schema: Self.schema + "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);", seed: Self.seed,
            policies: Self.policies)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try anna.writeOutside(Self.sell(2))
        try anna.writeOutside(migration)
        // An equal sale makes the number that Anna's file has, another one does not.
        try await ben.write(Self.sell(other))
        try await ben.engine.sync()
        try await anna.engine.sync()
        try await cluster.converge(ben)
        #expect(try await anna.engine.conflicts().isEmpty)
        for stock in [try await Self.stock(anna), try await Self.stock(ben)] { #expect(stock == "\(8 - other)") }
    }

    @Test func `a sale before a rename of its column is sent as a sale`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try anna.writeOutside(Self.sell(2))
        try anna.writeOutside("ALTER TABLE item RENAME COLUMN stock TO amount")
        let later = try await SyncEngine(
            anna.database, server: "http://cluster.test", transport: anna.transport,
            renames: ["item.stock": "item.amount"])
        try await ben.write(Self.sell(2))
        try await ben.engine.sync()
        try await later.sync()
        #expect(try await later.conflicts().isEmpty)
        #expect(try await cluster.rows("SELECT stock FROM item WHERE id = 1") == ["6"])
        #expect(try await anna.rows("SELECT amount FROM item WHERE id = 1") == ["6"])
    }

    @Test func `an app of another column name adds under the zone's name`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try anna.writeOutside("ALTER TABLE item RENAME COLUMN stock TO amount")
        let later = try await SyncEngine(
            anna.database, server: "http://cluster.test", transport: anna.transport,
            renames: ["item.stock": "item.amount"])
        try await anna.write("UPDATE item SET amount = amount - 2 WHERE id = 1")
        try await ben.write(Self.sell(3))
        try await ben.engine.sync()
        try await later.sync()
        #expect(try await cluster.rows("SELECT stock FROM item WHERE id = 1") == ["5"])
        #expect(try await anna.rows("SELECT amount FROM item WHERE id = 1") == ["5"])
        #expect(try await later.conflicts().isEmpty)
    }
}
