import Foundation
import GRDB
import Tidemark

/// From a commit in one device's file until it is in another's.
enum LatencyBenchmark: Benchmark {
    static let name = "latency"
    static let summary = "from a commit on one device until another one, which listens, has it"

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        let zone = Workplace.Zone(rows: setting.rows)
        let replicates = setting.postgres.map(LogicalReplication.isPossible) ?? false
        return [
            BenchCase(
                "one row of \(setting.rows)", goal: replicates ? .time(5) : .bytes(600),
                against: replicates ? "PostgreSQL's logical replication to another database" : ""
            ) {
                var job = try await job(setting, zone)
                guard let server = setting.postgres, replicates else { return job }
                let replication = try LogicalReplication(on: server, rows: setting.rows)
                job.ceiling = { try await replication.follow(commits(setting)) }
                return job.finally { try replication.end() }
            }
        ]
    }

    static func job(_ setting: BenchSetting, _ zone: Workplace.Zone) async throws -> BenchJob {
        let place = try await Workplace(setting, zone)
        let writer = try await place.device(at: place.join())
        let reader = try await place.device(at: place.join())
        await writer.engine.start()
        await reader.engine.start()
        return BenchJob(
            ours: { way in
                guard way == .counted else { return try await follow(commits(setting), from: writer, to: reader) }
                return try await count(from: writer, in: place)
            },
            finish: {
                for device in [writer, reader] {
                    await device.engine.stop()
                    // Notifications for an earlier listener may still be on their way to this one.
                    try await device.engine.sync()
                    try device.close()
                    try await place.check(device.path)
                }
                try await place.end()
            }
        )
    }

    /// The number of commits in one run.
    private static func commits(_ setting: BenchSetting) -> Int { setting.isTrial ? 2 : 10 }

    /// The pause before each commit: a device that has just synced waits a moment before it follows
    /// another hint.
    static let pause = Duration.milliseconds(400)

    private static func follow(_ commits: Int, from writer: BenchDevice, to reader: BenchDevice) async throws -> Sample
    {
        // One observation for all commits, as in an app: each new one makes SQLite compile all
        // statements of the file's connection again.
        var marks = ValueObservation.trackingConstantRegion { db in
            try String.fetchOne(db, sql: "SELECT mark FROM item WHERE id = 1")
        }.values(in: reader.database).makeAsyncIterator()
        var latencies: [Double] = []
        for _ in 0..<commits {
            try await Pause.last(pause)
            let mark = RandomID.text()
            let start = ContinuousClock.now
            try await writer.write("UPDATE item SET mark = '\(mark)' WHERE id = 1")
            while let value = try await marks.next(), value != mark {}
            latencies.append((ContinuousClock.now - start) / .seconds(1))
        }
        return Sample(seconds: latencies.reduce(0, +), latencies: latencies)
    }

    /// The cost of one commit for a device that listens already.
    private static func count(from writer: BenchDevice, in place: Workplace) async throws -> Sample {
        let reader = try await place.device(at: place.join(), .counted)
        await reader.engine.start()
        _ = try await follow(1, from: writer, to: reader)
        try await Pause.last(pause)
        let sample = try await place.counting({ reader.requests }) { try await follow(1, from: writer, to: reader) }
        await reader.engine.stop()
        try reader.close()
        return sample
    }
}
