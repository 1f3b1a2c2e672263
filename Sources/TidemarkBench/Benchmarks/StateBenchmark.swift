import GRDB
import Tidemark

/// What an app pays to show at each row whether it is on the server.
enum StateBenchmark: Benchmark {
    static let name = "state"
    static let summary = "the state of one record, and of a list of 1,000 rows, on a device"

    /// How many records wait, and how many rows a list has.
    private static let count = 1_000

    /// Where the changes of the waiting records are.
    private enum Waiting: String {
        case nothing = "nothing waits"
        case captured = "1,000 rows captured"
        case pending = "1,000 rows in the outbox"
    }

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        let single = [Waiting.nothing, .captured, .pending].map { waiting in
            BenchCase(
                "one record of \(setting.rows) rows, \(waiting.rawValue)", goal: .atMost(0.000_2, .seconds, ["each"]),
                against: "SQLite reads the row"
            ) { try await one(waiting, setting) }
        }
        let lists = [Waiting.nothing, .pending].map { waiting in
            BenchCase(
                "a list of 1,000 rows joined with its states, \(waiting.rawValue)", goal: .time(1.2),
                against: "the list alone"
            ) { try await list(waiting, setting) }
        }
        return single + lists
    }

    private static func one(_ waiting: Waiting, _ setting: BenchSetting) async throws -> BenchJob {
        let (place, device) = try await prepare(waiting, setting)
        let reads = setting.isTrial ? 10 : count
        return BenchJob(
            ours: { _ in
                var sample = try await Sample.time {
                    for id in 1...reads {
                        let state = try await device.engine.state(of: RecordName("item", RecordKey([id])))
                        let agrees = state.isSynced == (waiting == .nothing)
                        try Agreement.require(agrees) { "the state of item \(id) is \(state)" }
                    }
                }
                sample.figures = [Figure("each", value: sample.seconds / Double(reads), unit: .seconds)]
                return sample
            },
            ceiling: {
                try Sample.time {
                    for id in 1...reads {
                        _ = try device.database.read {
                            try Row.fetchOne(
                                $0.cachedStatement(sql: "SELECT * FROM item WHERE id = ?"), arguments: [id])
                        }
                    }
                }
            },
            finish: {
                try device.close()
                try await place.end()
            }
        )
    }

    private static func list(_ waiting: Waiting, _ setting: BenchSetting) async throws -> BenchJob {
        let (place, device) = try await prepare(waiting, setting)
        let reads = setting.isTrial ? 1 : 100
        let read = { @Sendable (sql: String) in
            try Sample.time {
                for _ in 0..<reads {
                    _ = try device.database.read { try Row.fetchAll($0.cachedStatement(sql: sql), arguments: [count]) }
                }
            }
        }
        return BenchJob(
            ours: { _ in
                try read("SELECT item.*, state FROM item LEFT JOIN tidemark_state_item USING (id) WHERE item.id <= ?")
            },
            ceiling: { try read("SELECT * FROM item WHERE id <= ?") },
            finish: {
                try device.close()
                try await place.end()
            }
        )
    }

    /// Joins a device, and edits its first rows.
    private static func prepare(_ waiting: Waiting, _ setting: BenchSetting) async throws -> (Workplace, BenchDevice) {
        let place = try await Workplace(setting, rows: setting.rows)
        let device = try await place.device(at: try await place.join())
        if waiting != .nothing {
            try await device.database.writeWithoutTransaction { db in
                for id in 1...min(count, setting.rows) {
                    try db.execute(sql: "UPDATE item SET amount = amount + 1 WHERE id = ?", arguments: [id])
                }
            }
        }
        // It drains the captured changes: a change set for each transaction.
        if waiting == .pending { _ = try await device.engine.checkRows() }
        return (place, device)
    }
}
