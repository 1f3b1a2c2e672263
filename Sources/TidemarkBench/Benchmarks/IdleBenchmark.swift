import Tidemark

/// A sync when nothing has changed.
enum IdleBenchmark: Benchmark {
    static let name = "idle"
    static let summary = "a sync when nothing has changed"

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        [
            BenchCase("nothing changed, \(setting.rows) rows", goal: .bytes(300)) {
                try await job(setting, Workplace.Zone(rows: setting.rows))
            }
        ]
    }

    static func job(_ setting: BenchSetting, _ zone: Workplace.Zone) async throws -> BenchJob {
        let place = try await Workplace(setting, zone)
        let path = try await place.join()
        let devices = (direct: try await place.device(at: path), counted: try await place.device(at: path, .counted))
        try await devices.direct.engine.sync()
        try await devices.counted.engine.sync()
        return BenchJob(
            ours: { way in
                let device = way == .direct ? devices.direct : devices.counted
                return try await place.counting({ device.requests }) {
                    try await Sample.time { try await device.engine.sync() }
                }
            },
            finish: {
                try devices.direct.close()
                try devices.counted.close()
                try await place.check(path)
                try await place.end()
            }
        )
    }
}
