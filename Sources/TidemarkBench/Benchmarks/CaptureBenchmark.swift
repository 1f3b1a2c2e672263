import GRDB

/// The cost of local writes with the triggers that capture them, and with the least triggers for
/// any capture in SQL.
enum CaptureBenchmark: Benchmark {
    static let name = "capture"
    static let summary = "local writes of one transaction, with and without the triggers"

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        [
            ("insert", Items.insertion(setting.rows, from: setting.rows + 1)),
            ("update one column of 8", "UPDATE item SET amount = amount + 1"), ("delete", "DELETE FROM item"),
        ].map { name, sql in
            BenchCase("\(name), \(setting.rows) rows", goal: .speed(0.5), against: "the same without triggers") {
                try await job(sql, setting)
            }
        }
    }

    private static func job(_ sql: String, _ setting: BenchSetting) async throws -> BenchJob {
        let place = try await Workplace(setting, rows: setting.rows)
        let captured = try await place.join()
        let plain = place.path()
        try Items.make(setting.rows, at: plain)
        let least = try LeastCapture.allCases.map { capture in
            let path = try place.copy(of: plain)
            try capture.add(to: path)
            return (capture.rawValue, path)
        }
        return BenchJob(
            ours: { _ in
                func write(capturing table: String, into path: String) throws -> Sample {
                    try Self.write(sql, capturing: (setting.rows, table), into: place.copy(of: path))
                }
                var sample = try write(capturing: "tidemark_capture", into: captured)
                sample.figures = try least.map { name, path in
                    let seconds = try write(capturing: LeastCapture.table, into: path).seconds
                    return Figure(name, value: seconds, unit: .seconds)
                }
                return sample
            },
            ceiling: { try write(sql, into: place.copy(of: plain)) },
            finish: { try await place.end() }
        )
    }

    private static func write(_ sql: String, capturing: (count: Int, table: String)? = nil, into path: String) throws
        -> Sample
    {
        let file = try DatabaseQueue(path: path)
        let sample = try Sample.time { try file.write { try $0.execute(sql: sql) } }
        if let capturing {
            let captured = try file.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM \(capturing.table)") }
            try Agreement.require(captured == capturing.count) { "\(captured ?? 0) changes were captured" }
        }
        try file.close()
        return sample
    }
}
