import GRDB
import Tidemark

/// Finding and replacing the rows in which a device differs from the server.
enum RepairBenchmark: Benchmark {
    static let name = "repair"
    static let summary = "0, 1, 3 and 100 rows of a device differ; found and replaced"

    /// The bytes that `sqlite3_rsync` 3.51 sent for one changed row of 100,000.
    private static let rsyncBytes = 9_732

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        let goals: [(Int, BenchCase.Goal?)] = [
            (0, .bytes(200)), (1, .bytes(rsyncBytes)), (3, .bytes(3 * rsyncBytes)), (100, nil),
        ]
        return goals.filter { $0.0 < setting.rows }.map { count, goal in
            BenchCase(
                "\(count) of \(setting.rows) rows differ", goal: goal,
                against: "not here, but published: \(rsyncBytes) bytes of sqlite3_rsync for one row of 100,000"
            ) { try await job(count, setting) }
        }
    }

    private static func job(_ count: Int, _ setting: BenchSetting) async throws -> BenchJob {
        let place = try await Workplace(setting, rows: setting.rows)
        let path = try await place.join()
        let digest = try await place.digest()
        let devices = (direct: try await place.device(at: path), counted: try await place.device(at: path, .counted))
        return BenchJob(
            ours: { way in
                try corrupt(count, of: setting.rows, in: path)
                let device = way == .direct ? devices.direct : devices.counted
                let sample = try await place.counting({ device.requests }) {
                    var repairs = 0
                    let sample = try await Sample.time {
                        repairs = try await device.engine.verify(repairing: true).records.count
                    }
                    try Agreement.require(repairs == count) { "\(repairs) of \(count) rows were found" }
                    return sample
                }
                try Agreement.require(path, holds: digest)
                return sample
            },
            finish: {
                try devices.direct.close()
                try devices.counted.close()
                try await place.end()
            }
        )
    }

    /// Changes rows all over the table, without the triggers.
    private static func corrupt(_ count: Int, of rows: Int, in path: String) throws {
        guard count > 0 else { return }
        let ids = (0..<count).map { "\(1 + $0 * (rows - 1) / max(count - 1, 1))" }
        let file = try DatabaseQueue(path: path)
        try file.write { db in
            try db.execute(
                sql: """
                    UPDATE tidemark_state SET applying = 1;
                    UPDATE item SET amount = amount + 1 WHERE id IN (\(ids.joined(separator: ",")));
                    UPDATE tidemark_state SET applying = 0;
                    """)
        }
        try file.close()
    }
}
