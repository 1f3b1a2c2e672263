import GRDB

/// How much memory large pieces of work need, server and device each in a process of its own.
enum MemoryBenchmark: Benchmark {
    static let name = "memory"
    static let summary = "server's and device's peak memory above idle, while much goes over the wire"

    /// The names of what is measured, and what is wanted of both, in bytes.
    private static let (server, device, bytesMax) = ("server", "device", 64.0 * 1_048_576)

    /// How often a device asks.
    private static let triesMax = 10

    /// What is done, in `tidemark`'s own words.
    private enum Job {
        case join
        case push
        /// A push whose answer is lost, so that it is sent again.
        case pushAgain
    }

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        let goal = BenchCase.Goal.atMost(bytesMax, .bytes, [server, device])
        return [
            BenchCase("join, \(setting.rows) rows", goal: goal) { try await job(.join, setting) },
            BenchCase("push of one change set of \(setting.rows) rows", goal: goal) { try await job(.push, setting) },
            BenchCase("the same, its first answer lost", goal: goal) { try await job(.pushAgain, setting) },
        ]
    }

    private static func job(_ job: Job, _ setting: BenchSetting) async throws -> BenchJob {
        // What both need for the same with nothing to do.
        let idle = try await measure(job, setting.with(rows: 0), .direct)
        return BenchJob(ours: { way in
            let busy = try await measure(job, setting, way)
            var sample = busy.sample
            if let before = busy.serverIdle, let peak = busy.serverPeak {
                sample.figures.append(Figure(server, Double(peak - before), .bytes))
            }
            if let before = idle.devicePeak, let peak = busy.devicePeak {
                sample.figures.append(Figure(device, Double(peak - before), .bytes))
            }
            return sample
        })
    }

    /// What one run came to; memory is nil where the system does not tell.
    private struct Measured {
        var sample: Sample
        var serverIdle: Int?
        var serverPeak: Int?
        var devicePeak: Int?
    }

    private static func measure(_ job: Job, _ setting: BenchSetting, _ way: BenchJob.Way) async throws -> Measured {
        let server = try await ServerProcess(setting, rows: job == .join ? setting.rows : 0)
        let path = server.folder.path()
        let join = ["device", "join", server.url(job == .pushAgain ? .counted : way), path]
        if job != .join {
            try await ChildProcess(join).finished()
            try await fill(path, setting.rows)
        }
        if job == .pushAgain { server.loseAnswer() }
        server.process.status.resetPeak()
        let idle = server.process.status.residentBytes
        var sample = Sample(seconds: 0)
        var devicePeak = Int?.none
        sample.wire = try await server.wire {
            let start = ContinuousClock.now
            var isDone = false
            // A server may need longer than a device waits, which then asks again.
            for _ in 1...triesMax where !isDone {
                let device = try ChildProcess(job == .join ? join : ["device", "sync", path])
                isDone = try await device.finished(orUnanswered: true)
                devicePeak = [devicePeak, device.peakBytes].compactMap(\.self).max()
            }
            sample.seconds = (ContinuousClock.now - start) / .seconds(1)
        }
        let peak = server.process.status.peakBytes
        try await server.check(path)
        try await server.end()
        return Measured(sample: sample, serverIdle: idle, serverPeak: peak, devicePeak: devicePeak)
    }

    /// Writes rows into a device's file as another program, in one transaction.
    private static func fill(_ path: String, _ rows: Int) async throws {
        guard rows > 0 else { return }
        let file = try DatabaseQueue(path: path)
        try await file.write { try $0.execute(sql: Items.insertion(rows, from: 1)) }
        try file.close()
    }
}
