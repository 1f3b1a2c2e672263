import GRDB
import TidemarkServer

/// The memory of large jobs, with server and device each in a process of its own.
enum MemoryBenchmark: Benchmark {
    static let name = "memory"
    static let summary = "server's and device's peak memory above idle, while much goes over the wire"

    /// The names of the measured figures, and the goal for both, in bytes.
    private static let server = "server"
    private static let device = "device"
    private static let bytesMax = 64.0 * 1_048_576

    /// The number of attempts of a device.
    private static let triesMax = 10

    /// The jobs, as commands of `tidemark`.
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
        // The memory of both for the same job without rows.
        let idle = try await measure(job, setting: setting.with(rows: 0), way: .direct)
        return BenchJob(ours: { way in
            let busy = try await measure(job, setting: setting, way: way)
            var sample = busy.sample
            if let before = busy.serverIdle, let peak = busy.serverPeak {
                sample.figures.append(Figure(server, value: Double(peak - before), unit: .bytes))
            }
            if let before = idle.devicePeak, let peak = busy.devicePeak {
                sample.figures.append(Figure(device, value: Double(peak - before), unit: .bytes))
            }
            return sample
        })
    }

    /// The result of one run; memory is nil where the system does not tell it.
    private struct Measured {
        var sample: Sample
        var serverIdle: Int?
        var serverPeak: Int?
        var devicePeak: Int?
    }

    private static func measure(_ job: Job, setting: BenchSetting, way: BenchJob.Way) async throws -> Measured {
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
            // If the server needs longer than the device waits, the device tries again.
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
