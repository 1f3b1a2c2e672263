/// The growth of other benchmarks with the zone, and with its history.
enum GrowthBenchmark: Benchmark {
    static let name = "growth"
    static let summary = "join, catchup, push, latency and idle against zone size and history"

    /// A benchmark that is run again and again.
    private typealias Job = @Sendable (BenchSetting, Workplace.Zone) async throws -> BenchJob

    private static let jobs: [(name: String, job: Job)] = [
        ("join", { try await JoinBenchmark.job($0, $1) }),
        ("catchup", { try await CatchUpBenchmark.job($0, $1, behind: min(10, $1.rows)) }),
        ("push", { try await PushBenchmark.job($0, zone: $1, count: min(1_000, $1.rows), in: 100) }),
        ("latency", { try await LatencyBenchmark.job($0, $1) }), ("idle", { try await IdleBenchmark.job($0, $1) }),
    ]

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        setting.sizes.flatMap { cases(.init(axis: .rows, value: $0), zone: .init(rows: $0), setting: setting) }
            + setting.histories.flatMap { history in
                cases(
                    .init(axis: .revisions, value: history), zone: .init(rows: setting.rows, history: history),
                    setting: setting)
            }
    }

    private static func cases(_ point: BenchCase.Point, zone: Workplace.Zone, setting: BenchSetting) -> [BenchCase] {
        jobs.map { name, job in
            var item = BenchCase("\(name), \(point.value) \(point.axis.rawValue)") { try await job(setting, zone) }
            item.curve = name
            item.point = point
            return item
        }
    }
}
