import Tidemark

/// Small syncs on a long and bad link, where only round trips count.
enum BadNetBenchmark: Benchmark {
    static let name = "badnet"
    static let summary = "small syncs over a link of 200 ms, and one that also drops and stalls"

    private static let tables = 5
    private static let changeSets = 50

    /// The jobs on the link.
    enum Job: String, CaseIterable {
        case nothing = "nothing changed"
        case push = "push of one row"
        case pull = "pull of one row"
        case many = "push of 50 change sets over 5 tables"
    }

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        let milliseconds = setting.isTrial ? 10 : 200
        return [false, true].flatMap { isBroken in
            let link = BadLink(roundTrip: .milliseconds(milliseconds), isBroken: isBroken)
            let faults = isBroken ? ", one answer lost, the next one stalled" : ""
            return Job.allCases.map { job in
                BenchCase(
                    "\(job.rawValue); \(milliseconds) ms\(faults)",
                    goal: isBroken ? .speed(0.9) : .atMost(1.1, .count, ["round trips"]),
                    against: "GET /schema over the same link, asked until it is answered"
                ) { try await self.job(job, setting, over: link) }
            }
        }
    }

    private static func job(_ job: Job, _ setting: BenchSetting, over link: BadLink) async throws -> BenchJob {
        let more = (2...tables).map { "CREATE TABLE part\($0) (id INTEGER PRIMARY KEY, note TEXT);" }
        let zone = Workplace.Zone(rows: setting.rows, sql: more.joined(), roundTrip: link.roundTrip)
        let place = try await Workplace(setting, zone)
        let device = try await place.device(at: place.join(), .counted)
        let other = try await place.device(at: place.join())
        return BenchJob(
            ours: { _ in
                // The connection is made before the time counts.
                try await device.engine.sync()
                try await prepare(job, device: device, other: other)
                try await link.spoil(place.relay)
                let sample = try await place.counting({ device.requests }) {
                    try await link.time { try await device.engine.sync() }
                }
                try await place.check(device.path)
                return sample
            },
            ceiling: {
                let transport = try place.transport(.counted)
                _ = try await transport.schema(zone: "main")
                try await link.spoil(place.relay)
                return try await link.time { _ = try await transport.schema(zone: "main") }
            },
            finish: {
                try device.close()
                try other.close()
                try await place.end()
            }
        )
    }

    /// Makes the edits that the job then sends or receives.
    private static func prepare(_ job: Job, device: BenchDevice, other: BenchDevice) async throws {
        let change = "UPDATE item SET amount = amount + 1 WHERE id = 1"
        switch job {
        case .nothing: break
        case .push: try await device.write(change)
        case .pull:
            try await other.engine.sync()
            try await other.write(change)
            try await other.engine.sync()
        case .many:
            for number in 0..<changeSets {
                let table = number % tables + 1
                try await device.write(
                    table == 1
                        ? Items.insertion(1, from: number)
                        : "INSERT INTO part\(table) (note) VALUES ('a note of \(number)')")
            }
        }
    }
}
