import TidemarkServer

/// One commit, pushed to many listeners.
enum FanOutBenchmark: Benchmark {
    static let name = "fanout"
    static let summary = "one commit told to 100, 1,000 and 10,000 listeners"

    private static let memory = "memory a listener"
    private static let memoryMax = 10_240.0
    /// The number of other open files, on either side.
    private static let otherFiles = 512

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        let room = max(1, OpenFiles.raise(to: 1 << 20) - otherFiles)
        return Set(setting.listeners.map { min($0, room) }).sorted().map { count in
            BenchCase("\(count) listeners", goal: .atMost(memoryMax, .bytes, [memory])) {
                try await job(count, setting)
            }
        }
    }

    private static func job(_ count: Int, _ setting: BenchSetting) async throws -> BenchJob {
        let server = try await ServerProcess(setting, rows: 1)
        let commit = PushLoad(url: server.url(), clients: 1, count: 1, firstRevision: 1)
        let wire = try await wire(of: server, commit)
        let idle = server.process.status.residentBytes
        let listeners = EventListeners()
        try await listeners.connect(count, to: server.port)
        let full = server.process.status.residentBytes
        return BenchJob(
            ours: { _ in
                let before = server.process.status.processorSeconds
                let start = ContinuousClock.now
                let arrivals = try await listeners.awaitEvent(by: count) { _ = try await commit.run() }
                let after = server.process.status.processorSeconds
                let times = arrivals.map { ($0 - start) / .seconds(1) }
                var sample = Sample(seconds: times.max() ?? 0, latencies: times)
                if let idle, let full {
                    let bytes = Double(full - idle) / Double(count)
                    sample.figures.append(Figure(memory, value: bytes, unit: .bytes))
                }
                if let before, let after {
                    let seconds = (after - before) / Double(count)
                    sample.figures.append(Figure("processor a listener", value: seconds, unit: .seconds))
                }
                sample.wire = wire
                return sample
            },
            finish: {
                try await listeners.end()
                try await server.end()
            }
        )
    }

    /// The cost of one commit for one listener.
    ///
    /// The first commit also allocates memory that later ones reuse.
    private static func wire(of server: ServerProcess, _ commit: PushLoad) async throws -> Sample.Wire {
        let listener = EventListeners()
        try await listener.connect(1, to: server.countedPort)
        var wire = try await server.wire { _ = try await listener.awaitEvent(by: 1) { _ = try await commit.run() } }
        try await listener.end()
        // This device listens, and sends no request.
        wire.requests = 0
        return wire
    }
}
