import GRDB

/// What local writes cost with the triggers that capture them.
enum CaptureBenchmark: Benchmark {
    static let name = "capture"
    static let summary = "local writes of one transaction, with and without the triggers"

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        [
            ("insert", Items.insertion(setting.rows, from: setting.rows + 1)),
            ("update one column of 8", "UPDATE item SET amount = amount + 1"),
            ("delete", "DELETE FROM item"),
        ].map { name, sql in
            BenchCase(
                "\(name), \(setting.rows) rows",
                goal: .speed(0.5),
                against: "the same without triggers"
            ) { try await job(sql, setting) }
        }
    }

    private static func job(_ sql: String, _ setting: BenchSetting) async throws -> BenchJob {
        let place = try await Workplace(setting, rows: setting.rows)
        let (captured, plain) = (try await place.join(), place.path())
        try Items.make(setting.rows, at: plain)
        return BenchJob(
            ours: { _ in try write(sql, capturing: setting.rows, into: place.copy(of: captured)) },
            ceiling: { try write(sql, into: place.copy(of: plain)) },
            finish: { try await place.end() }
        )
    }

    private static func write(
        _ sql: String,
        capturing count: Int? = nil,
        into path: String
    ) throws -> Sample {
        let file = try DatabaseQueue(path: path)
        let sample = try Sample.time {
            try file.write { try $0.execute(sql: sql) }
        }
        if let count {
            let captured = try file.read {
                try Int.fetchOne($0, sql: "SELECT count(*) FROM tidemark_capture")
            }
            try Agreement.require(captured == count) { "\(captured ?? 0) changes were captured" }
        }
        try file.close()
        return sample
    }
}
