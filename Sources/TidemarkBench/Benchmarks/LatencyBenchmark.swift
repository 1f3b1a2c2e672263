import Foundation
import GRDB
import Tidemark

/// From a commit in one device's file until it is in another's.
enum LatencyBenchmark: Benchmark {
    static let name = "latency"
    static let summary = "from a commit on one device until another one, which listens, has it"

    /// How many commits one run follows, and the pause before each: a device that has just synced
    /// waits a moment before it follows another hint.
    private static let (commits, pause) = (10, Duration.milliseconds(400))

    static func cases(_ setting: BenchSetting) async throws -> [BenchCase] {
        let place = try await Workplace(setting, rows: setting.rows)
        let (first, second) = (place.path(), place.path())
        try await place.join(at: first)
        try await place.join(at: second)
        let writer = try await place.device(at: first)
        let reader = try await place.device(at: second)
        await writer.engine.start()
        await reader.engine.start()
        return [
            BenchCase(
                "one row of \(setting.rows)",
                ours: { try await follow(writer, reader) },
                finish: {
                    await writer.engine.stop()
                    await reader.engine.stop()
                    try writer.close()
                    try reader.close()
                    try await place.end()
                }
            )
        ]
    }

    private static func follow(
        _ writer: BenchDevice,
        _ reader: BenchDevice
    ) async throws -> Sample {
        var latencies: [Double] = []
        for _ in 0..<commits {
            try await Task.sleep(for: pause)
            let mark = RandomID.text()
            let seen = ValueObservation.tracking { db in
                try String.fetchOne(db, sql: "SELECT mark FROM item WHERE id = 1")
            }.values(in: reader.database)
            let start = ContinuousClock.now
            try await writer.database.write { db in
                try db.execute(sql: "UPDATE item SET mark = ? WHERE id = 1", arguments: [mark])
            }
            for try await value in seen where value == mark { break }
            latencies.append((ContinuousClock.now - start) / .seconds(1))
        }
        return Sample(seconds: latencies.reduce(0, +), latencies: latencies)
    }
}
