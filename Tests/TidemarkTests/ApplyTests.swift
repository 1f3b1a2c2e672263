import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// An answer is applied whole, with its revision, or not at all.
@Suite struct ApplyTests {
    private static let schema = """
        CREATE TABLE accounts (id INTEGER PRIMARY KEY, owner TEXT UNIQUE, balance INTEGER NOT NULL)
        """
    private static let seed = """
        INSERT INTO accounts (owner, balance) VALUES ('Anna', 50), ('Ben', 50)
        """

    /// Answers of a broken server, a proxy or a sign-in page, made from a valid one.
    enum Damage: String, CaseIterable {
        case signInPage, empty, cutInTheMiddle, notAnObject, revisionSkipped, revisionMissing
        case endsTooEarly, unknownTable, unknownColumn, noChangeSets, infinityUnquoted, hugeInteger

        func spoil(_ answer: String) -> String {
            switch self {
            case .signInPage: "<html><body>Please sign in to the hotel's network.</body></html>"
            case .empty: ""
            case .cutInTheMiddle: String(answer.prefix(answer.count / 2))
            case .notAnObject: "[\(answer)]"
            case .revisionSkipped: answer.replacing(#""revision":3,"conflict""#, with: #""revision":4,"conflict""#)
            case .revisionMissing: answer.replacing(#""revision":3,"conflict""#, with: #""conflict""#)
            case .endsTooEarly: answer.replacing(#""maxRevision":4"#, with: #""maxRevision":9"#)
            case .unknownTable: answer.replacing("accounts", with: "customers")
            case .unknownColumn: answer.replacing("balance", with: "amount")
            case .noChangeSets: answer.replacing("changeSets", with: "changes")
            case .infinityUnquoted: answer.replacing("\"balance\":60", with: "\"balance\":Infinity")
            case .hugeInteger: answer.replacing("\"balance\":60", with: "\"balance\":9223372036854775808")
            }
        }
    }

    @Test(arguments: Damage.allCases)
    func `A12: an answer that cannot be applied leaves file, outbox and revision unchanged`(damage: Damage) async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE accounts SET balance = 60 WHERE id = 1")
        try await anna.write("INSERT INTO accounts (owner, balance) VALUES ('Carla', 0)")
        try await anna.engine.sync()
        try await ben.write("UPDATE accounts SET balance = 40 WHERE id = 2")
        ben.transport.faults.add(.requestLost)
        await ben.syncInVain()
        let before = try await Self.everything(in: ben)

        let spoilt = try await SyncEngine(
            ben.database, server: "http://cluster.test",
            transport: SpoilingTransport(wrapping: ben.transport, offersSnapshots: false) { damage.spoil($0) })
        await #expect { try await spoilt.sync() } throws: { error in (error as? TidemarkError)?.code == .invalidResponse
        }
        #expect(try await Self.everything(in: ben) == before)
        try await cluster.converge(ben, anna)
        #expect(
            try await ben.rows("SELECT owner, balance FROM accounts ORDER BY id") == ["Anna|60", "Ben|40", "Carla|0"])
    }

    /// The rows, the outbox and the revision of a device's file.
    private static func everything(in device: TestDevice) async throws -> [String] {
        try await device.rows(
            """
            SELECT 'row', id, owner, balance FROM accounts
            UNION ALL SELECT 'state', revision, applying, '' FROM tidemark_state
            UNION ALL SELECT 'set', seq, id, wire FROM tidemark_changeset
            UNION ALL SELECT 'change', tbl, key, attributes FROM tidemark_outbox
            UNION ALL SELECT 'base', tbl, key, image FROM tidemark_base
            UNION ALL SELECT 'captured', seq, tbl, base FROM tidemark_capture
            """
        )
    }

    @Test(arguments: [1, 2, 3])
    func `A12: after two such answers the device takes a snapshot and keeps its outbox`(spoiltCount: Int)
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE accounts SET balance = 60 WHERE id = 1")
        try await anna.engine.sync()
        try await ben.write("UPDATE accounts SET balance = 40 WHERE id = 2")
        let count = Mutex(0)
        let network = SpoilingTransport(wrapping: ben.transport) { answer in
            let number = count.withLock { number in
                number += 1
                return number
            }
            return number <= spoiltCount ? answer.replacing("accounts", with: "customers") : answer
        }
        let spoilt = try await SyncEngine(ben.database, server: "http://cluster.test", transport: network)
        try await spoilt.sync()
        #expect(network.snapshotCount == (spoiltCount > 1 ? 1 : 0))
        #expect(try await ben.rows("SELECT owner, balance FROM accounts ORDER BY id") == ["Anna|60", "Ben|40"])
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT balance FROM accounts ORDER BY id") == ["60", "40"])
    }

    @Test func `A12: a row that the app's schema refuses rolls back the whole answer`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE accounts SET balance = 60 WHERE id = 1")
        try await anna.write("UPDATE accounts SET balance = -5 WHERE id = 2")
        try await anna.engine.sync()
        try await ben.write(
            """
            CREATE TRIGGER no_debts BEFORE UPDATE ON accounts WHEN NEW.balance < 0
            BEGIN SELECT RAISE(ABORT, 'no debts'); END
            """
        )
        let before = try await Self.everything(in: ben)
        await #expect(throws: (any Error).self) { try await ben.engine.sync() }
        #expect(try await Self.everything(in: ben) == before)
        try await ben.write("DROP TRIGGER no_debts")
        try await cluster.converge(ben, anna)
    }

    @Test func `A12: an answer to an older state of the file is not applied`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE accounts SET balance = 60 WHERE id = 1")
        try await anna.engine.sync()
        // Another process of Ben's syncs the same file while his answer is in transit.
        let one = try await ben.reopened(environment: .ignoringLocks)
        let other = try await ben.reopened(environment: .ignoringLocks)
        ben.transport.faults.whileInFlight {
            try await other.engine.sync()
            try await other.write("UPDATE accounts SET balance = 70 WHERE id = 1")
            try await other.engine.sync()
        }
        try await one.engine.sync()
        #expect(try await ben.rows("SELECT balance FROM accounts WHERE id = 1") == ["70"])
        try await cluster.converge(ben, anna)
    }

    @Test(.timeLimit(.minutes(30))) func `B3: an observer never sees half of an answer`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        let observation = ValueObservation.tracking { db in
            try Int64.fetchAll(db, sql: "SELECT balance FROM accounts ORDER BY id")
        }
        var values = observation.values(in: ben.database).makeAsyncIterator()
        #expect(try await values.next() == [50, 50])
        for amount in 1...12 {
            try await anna.write(
                """
                UPDATE accounts SET balance = balance - \(amount) WHERE id = 1;
                UPDATE accounts SET balance = balance + \(amount) WHERE id = 2
                """
            )
            if amount.isMultiple(of: 3) {
                try await anna.engine.sync()
                try await ben.engine.sync()
            }
        }
        while let balances = try await values.next() {
            #expect(balances.reduce(0, +) == 100)
            if balances == [-28, 128] { break }
        }
    }

    @Test func `B3: unchanged rows are not written`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT, count INTEGER)",
            seed: """
                WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 500)
                INSERT INTO words (word, count) SELECT 'w' || i, 0 FROM n
                """
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await ben.write(
            """
            CREATE TEMP TABLE touched (id);
            CREATE TEMP TRIGGER watch AFTER UPDATE ON main.words
            BEGIN INSERT INTO touched VALUES (NEW.id); END
            """
        )
        try await anna.write("UPDATE words SET count = 1 WHERE id IN (7, 8)")
        try await anna.engine.sync()
        try await ben.engine.sync()
        let touched = try await ben.database.write { db in
            try Int.fetchAll(db, sql: "SELECT id FROM touched ORDER BY id")
        }
        #expect(touched == [7, 8])
    }
}
