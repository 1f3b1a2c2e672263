import GRDB
import Tidemark

/// A sync when nothing has changed.
enum IdleBenchmark: Benchmark {
    static let name = "idle"
    static let summary = "a sync when nothing has changed"

    static func cases(_ setting: BenchSetting) async throws -> [BenchCase] {
        let place = try await Workplace(setting, rows: setting.rows)
        let path = place.path()
        try await place.join(at: path)
        let device = try await place.device(at: path, direct: false)
        try await device.engine.sync()
        return [
            BenchCase(
                "nothing changed, \(setting.rows) rows",
                goal: .bytes(300),
                ours: {
                    let (before, requests) = (place.traffic, device.requests)
                    var sample = try await Sample.time { try await device.engine.sync() }
                    sample.wire = place.wire(
                        since: before,
                        requests: device.requests - requests
                    )
                    return sample
                },
                finish: {
                    try device.close()
                    try await place.end()
                }
            )
        ]
    }
}
