import GRDB
import Testing
import TidemarkTestSupport

/// Rule 4: the disk in memory, tested with SQLite only.
///
/// It fails as a real disk does, and no worse.
@Suite struct DiskTests {
    /// SQLite's guarantees on the faulty disk.
    enum Mode: String, CaseIterable { case wal, delete, truncate, persist }

    /// A ledger: each transaction moves one unit between accounts and counts itself.
    static func ledger(_ disk: FaultVolume, _ mode: Mode) throws -> DatabaseQueue {
        let database = try open(disk, mode, synchronous: "EXTRA")
        try database.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, filler BLOB);
                    CREATE INDEX account_balance ON account (balance);
                    CREATE TABLE done (number INTEGER PRIMARY KEY);
                    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
                    INSERT INTO account SELECT i, 100, zeroblob(400) FROM n;
                    """
            )
        }
        return database
    }

    static func open(_ disk: FaultVolume, _ mode: Mode, synchronous: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA synchronous = \(synchronous)")
            try db.execute(sql: "PRAGMA cache_size = 10")
            _ = try String.fetchOne(db, sql: "PRAGMA journal_mode = \(mode.rawValue)")
            try db.execute(sql: "PRAGMA wal_autocheckpoint = 20")
        }
        return try disk.database("ledger.sqlite", configuration: configuration)
    }

    static func move(_ number: Int, in database: DatabaseQueue) throws {
        try database.write { db in
            try db.execute(
                sql: """
                    UPDATE account SET balance = balance - 1, filler = zeroblob(400 + ?1 % 300)
                        WHERE id = 1 + ?1 % 20;
                    """,
                arguments: [number]
            )
            try db.execute(
                sql: "UPDATE account SET balance = balance + 1 WHERE id = 1 + ? % 20", arguments: [number * 7 + 3])
            try db.execute(sql: "INSERT INTO done VALUES (?)", arguments: [number])
        }
    }

    /// Returns the ledger's fault; nil if it is sound and has every number up to `last`.
    static func fault(in database: DatabaseQueue, last: Int) throws -> String? {
        try database.read { db in
            let integrity = try String.fetchAll(db, sql: "PRAGMA integrity_check")
            guard integrity == ["ok"] else { return integrity.joined(separator: "; ") }
            let sum = try Int.fetchOne(db, sql: "SELECT sum(balance) FROM account")
            guard sum == 2000 else { return "half a transaction: \(sum ?? 0)" }
            let done = try Int.fetchAll(db, sql: "SELECT number FROM done ORDER BY number")
            guard done.starts(with: Array(0..<last)), done.count <= last + 1 else {
                return "\(last) transactions were acknowledged, these are there: \(done)"
            }
            return nil
        }
    }

    /// Opens the ledger and runs transactions until one fails; returns the number of successes.
    static func moves(_ count: Int, on disk: FaultVolume, _ mode: Mode, synchronous: String) -> Int {
        var acknowledged = 0
        do {
            let database = try open(disk, mode, synchronous: synchronous)
            while acknowledged < count {
                try move(acknowledged, in: database)
                acknowledged += 1
            }
        } catch { return acknowledged }
        return acknowledged
    }

    /// Runs transactions until a power cut at a disk call; returns the ledger's fault afterwards.
    static func crash(_ mode: Mode, synchronous: String, call: Int, seed: UInt64, ignoresSyncs: Bool = false) throws
        -> String?
    {
        let disk = try FaultVolume()
        try ledger(disk, mode).close()
        disk.ignoreSyncs(ignoresSyncs)
        disk.fail(.power, call: call)
        let acknowledged = moves(200, on: disk, mode, synchronous: synchronous)
        disk.crash(seed: seed)
        do { return try fault(in: open(disk, mode, synchronous: synchronous), last: acknowledged) } catch let error
            as DatabaseError
        { return "\(error)" }
    }

    @Test(arguments: Mode.allCases) func `a flushed transaction survives a power cut at any disk call`(mode: Mode)
        throws
    {
        for call in 1...400 {
            let wrong = try Self.crash(mode, synchronous: "EXTRA", call: call, seed: UInt64(call))
            #expect(wrong == nil, "\(mode) call \(call)")
        }
    }

    @Test(arguments: Mode.allCases) func `the journal recovers the file after a power cut, for 200 seeds`(mode: Mode)
        throws
    {
        for seed in 0..<200 {
            let call = 150 + seed % 23
            let wrong = try Self.crash(mode, synchronous: "EXTRA", call: call, seed: UInt64(seed))
            #expect(wrong == nil, "\(mode) seed \(seed)")
        }
    }

    @Test func `sanity: without fsync, acknowledged transactions are lost`() throws {
        let failingSeeds = try (1...100).filter {
            try Self.crash(.wal, synchronous: "NORMAL", call: $0 * 4, seed: UInt64($0)) != nil
        }
        #expect(failingSeeds.count > 20)
    }

    @Test func `sanity: an fsync that does nothing damages the file`() throws {
        let failingSeeds = try (1...100).filter {
            try Self.crash(.delete, synchronous: "FULL", call: $0 * 4, seed: UInt64($0), ignoresSyncs: true) != nil
        }
        #expect(failingSeeds.count > 20)
    }

    @Test func `sanity: an unflushed removal of the journal undoes a commit`() throws {
        let failingSeeds = try (1...100).filter {
            try Self.crash(.delete, synchronous: "FULL", call: $0 * 4, seed: UInt64($0)) != nil
        }
        #expect(!failingSeeds.isEmpty)
    }

    @Test(arguments: Mode.allCases, [FaultVolume.Fault.io, .full])
    func `the n-th disk call fails, for every n up to success`(mode: Mode, fault: FaultVolume.Fault) throws {
        let disk = try FaultVolume()
        try Self.ledger(disk, mode).close()
        let start = disk.files.map { ($0, disk.contents(of: $0)) }
        var call = 0
        var failures = 0
        repeat {
            call += 1
            for file in disk.files { try disk.replace(file, with: nil) }
            for (file, bytes) in start { try disk.replace(file, with: bytes) }
            disk.fail(fault, call: call, of: fault == .full ? .growing : .all)
            let acknowledged = Self.moves(5, on: disk, mode, synchronous: "EXTRA")
            if acknowledged < 5 { failures += 1 }
            let hasFailed = disk.failureCount > 0
            disk.heal()
            let wrong = try Self.fault(in: Self.open(disk, mode, synchronous: "EXTRA"), last: acknowledged)
            #expect(wrong == nil, "\(mode) \(fault) at call \(call)")
            guard hasFailed else { break }
        } while call < 2000
        #expect(call > 20 && call < 2000)
        #expect(failures > call / 2)
    }

    @Test func `a full disk refuses writes, and accepts them again once there is room`() throws {
        let disk = try FaultVolume()
        let database = try Self.ledger(disk, .wal)
        disk.limit(bytes: disk.usedBytes + 3 * 4096)
        #expect(throws: DatabaseError.self) { for number in 0..<100 { try Self.move(number, in: database) } }
        disk.limit(bytes: nil)
        let done = try database.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM done") } ?? 0
        try Self.move(done, in: database)
        #expect(try Self.fault(in: database, last: done + 1) == nil)
    }

    @Test func `connections in WAL mode see each other's commits and locks`() throws {
        let disk = try FaultVolume()
        let one = try Self.ledger(disk, .wal)
        let two = try Self.open(disk, .wal, synchronous: "FULL")
        try Self.move(0, in: one)
        try Self.move(1, in: two)
        #expect(try Self.fault(in: one, last: 2) == nil)
        try one.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN IMMEDIATE")
            let error = #expect(throws: DatabaseError.self) {
                try two.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
            }
            #expect(error?.resultCode == .SQLITE_BUSY)
            try db.execute(sql: "INSERT INTO done VALUES (2); COMMIT")
        }
        #expect(try Self.fault(in: two, last: 3) == nil)
    }

    @Test func `a connection pool reads and writes concurrently on the disk in memory`() throws {
        let disk = try FaultVolume()
        try Self.ledger(disk, .wal).close()
        let pool = try DatabasePool(path: disk.path(of: "ledger.sqlite"))
        let before = try pool.read { db in
            try pool.writeWithoutTransaction { try $0.execute(sql: "INSERT INTO done VALUES (0)") }
            return try Int.fetchOne(db, sql: "SELECT count(*) FROM done")
        }
        #expect(before == 0)
        #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM done") } == 1)
        try pool.close()
    }

    @Test func `connections from before a crash fail, new connections work`() throws {
        let disk = try FaultVolume()
        let old = try Self.ledger(disk, .wal)
        disk.crash(seed: 1)
        #expect(throws: DatabaseError.self) { try Self.move(0, in: old) }
        let new = try Self.open(disk, .wal, synchronous: "FULL")
        try Self.move(0, in: new)
        #expect(try Self.fault(in: new, last: 1) == nil)
        #expect(throws: DatabaseError.self) { try old.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM done") } }
    }

    @Test func `equal seeds give equal files`() throws {
        let files = try (0..<2).map { _ -> [[UInt8]?] in
            let disk = try FaultVolume()
            let database = try Self.ledger(disk, .delete)
            disk.ignoreSyncs(true)
            for number in 0..<5 { try Self.move(number, in: database) }
            disk.crash(seed: 99)
            return disk.files.map { disk.contents(of: $0) }
        }
        #expect(files[0] == files[1])
    }
}
