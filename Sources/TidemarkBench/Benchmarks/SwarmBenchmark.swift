import GRDB
import Synchronization
import TidemarkCore
import TidemarkPostgres

/// Many devices send small change sets at once.
enum SwarmBenchmark: Benchmark {
    static let name = "swarm"
    static let summary = "50 devices send 20 small change sets each, at once"

    private static let clients = 50

    /// The number of change sets that each device sends.
    private static func count(_ setting: BenchSetting) -> Int { setting.isTrial ? 2 : 20 }

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        (setting.postgres == nil ? [1] : [1, clients]).map { zones in
            BenchCase(
                "\(clients) devices, \(zones == 1 ? "one zone" : "\(zones) zones")", goal: .speed(4),
                against: setting.postgres == nil
                    ? "a transaction each, one after another, flushed"
                    : "a transaction each, on 50 connections: a revision and a record"
            ) { try await job(zones, setting) }
        }
    }

    private static func job(_ zones: Int, _ setting: BenchSetting) async throws -> BenchJob {
        let names = (1...zones).map { zones == 1 ? "main" : "zone\($0)" }
        let place = try await Workplace(setting, Workplace.Zone(names: names))
        let count = count(setting)
        let pushedRows = Mutex(0)
        return BenchJob(
            ours: { way in
                let load = PushLoad(url: place.url(way), clients: clients, count: count) { names[$0 % names.count] }
                var sample = try await place.counting { try await load.run() }
                sample.wire?.requests = clients * count
                if way != .counted {
                    let bare = try await load.runBare().seconds
                    sample.figures = [Figure("as many GET /healthz", value: bare, unit: .seconds)]
                }
                let rows = pushedRows.withLock { rows in
                    rows += clients * count
                    return rows
                }
                var storedRows = 0
                for name in names { storedRows += try await place.digest(of: name).tables[0].rows }
                try Agreement.require(storedRows == rows) { "\(storedRows) of \(rows) rows are there" }
                return sample
            },
            ceiling: {
                if let address = setting.postgres { return try await naive(count, at: address) }
                return try naive(count, in: place.path())
            },
            finish: { try await place.end() }
        )
    }

    // MARK: Ceilings

    private static func naive(_ count: Int, in path: String) throws -> Sample {
        try Items.make(0, at: path)
        let file = try DatabaseQueue(path: path)
        try file.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = FULL") }
        try file.write { try $0.execute(sql: "CREATE TABLE zone (revision INTEGER)") }
        try file.write { try $0.execute(sql: "INSERT INTO zone VALUES (0)") }
        var latencies: [Double] = []
        let start = ContinuousClock.now
        for _ in 0..<(clients * count) {
            let begin = ContinuousClock.now
            try file.write { db in
                try db.execute(sql: "UPDATE zone SET revision = revision + 1")
                try db.execute(
                    sql: """
                        INSERT INTO item (name, note, amount, price, made, kind)
                        VALUES ('item', 'a note of some forty characters or so', 1, 0.5, '', 'k')
                        """)
            }
            latencies.append((ContinuousClock.now - begin) / .seconds(1))
        }
        let seconds = (ContinuousClock.now - start) / .seconds(1)
        try file.close()
        return Sample(seconds: seconds, latencies: latencies)
    }

    private static func naive(_ count: Int, at address: String) async throws -> Sample {
        try PostgresConnection(address).execute(
            """
            DROP TABLE IF EXISTS naive_zone, naive_item;
            CREATE TABLE naive_zone (revision bigint);
            INSERT INTO naive_zone VALUES (0);
            CREATE TABLE naive_item (id bigserial PRIMARY KEY, revision bigint, note text)
            """)
        let start = ContinuousClock.now
        let latencies = try await withThrowingTaskGroup(of: [Double].self) { tasks in
            for _ in 1...clients { tasks.addTask { try await onThread { try naivePushes(count, at: address) } } }
            return try await tasks.reduce(into: []) { $0 += $1 }
        }
        return Sample(seconds: (ContinuousClock.now - start) / .seconds(1), latencies: latencies)
    }

    private static func naivePushes(_ count: Int, at address: String) throws -> [Double] {
        let pg = try PostgresConnection(address)
        return try (0..<count).map { _ in
            let begin = ContinuousClock.now
            try pg.execute("BEGIN")
            let revision = try pg.text("UPDATE naive_zone SET revision = revision + 1 RETURNING revision")
            try pg.query(
                "INSERT INTO naive_item (revision, note) VALUES ($1::bigint, $2)",
                [revision, "a note of some forty characters or so"])
            try pg.commit()
            return (ContinuousClock.now - begin) / .seconds(1)
        }
    }
}
