import GRDB

/// What local writes cost with the triggers that capture them.
enum CaptureBenchmark: Benchmark {
    static let name = "capture"
    static let summary = "local writes of one transaction, with and without the triggers"

    static func cases(_ setting: BenchSetting) async throws -> [BenchCase] {
        let place = try await Workplace(setting, rows: setting.rows)
        let (captured, plain) = (place.path(), place.path())
        try await place.join(at: captured)
        try Items.make(setting.rows, at: plain)
        let jobs = [
            ("insert", Items.insertion(setting.rows, from: setting.rows + 1)),
            ("update one column of 8", "UPDATE item SET amount = amount + 1"),
            ("delete", "DELETE FROM item"),
        ]
        return jobs.enumerated().map { index, job in
            BenchCase(
                "\(job.0), \(setting.rows) rows",
                goal: .speed(0.5),
                ours: { try write(job.1, into: place.copy(of: captured)) },
                against: "the same without triggers",
                ceiling: { try write(job.1, into: place.copy(of: plain)) },
                finish: { if index == jobs.count - 1 { try await place.end() } }
            )
        }
    }

    private static func write(_ sql: String, into path: String) throws -> Sample {
        let file = try DatabaseQueue(path: path)
        let sample = try Sample.time {
            try file.write { try $0.execute(sql: sql) }
        }
        try file.close()
        return sample
    }
}
