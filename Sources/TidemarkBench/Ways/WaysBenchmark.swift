import Foundation
import TidemarkCore

/// The five ways of bringing a list to a client, over a month.
enum WaysBenchmark: Benchmark {
    static let name = "ways"
    static let summary = "five ways of bringing a list to a client: bytes, memory, and rows that are wrong in the end"

    private static let rowsMax = 30_000
    private static let wrong = ["missing", "stale", "undeleted"]
    private static let beside = "bytes beside way 4's"

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        // The rows are those of the model, not those of the other benchmarks' large table.
        let setting = setting.with(rows: min(setting.rows, rowsMax))
        guard setting.postgres == nil else { return [] }
        let names: [(Way, String)] = [
            (.everything, "1 everything"), (.newer, "2 only newer"), (.portions, "3 by time"),
            (.keyset, "4 by time, key"), (.compare, "5 compare"), (.feed, "feed"),
            (.checkedFeed, "feed, compared once a week"),
        ]
        let whole = names.map { way, name in
            let isRight = way == .everything || way == .compare
            return BenchCase(name, goal: isRight ? .atMost(0, .count, wrong) : nil) { try await month(way, setting) }
        }
        return whole + [
            BenchCase("4 of 2 of 10 cities") { try await month(.keyset, cities: "1,2", setting) },
            BenchCase("5 of 2 of 10 cities", goal: .atMost(1.1, .count, [beside])) { try await part(setting) },
        ]
    }

    private static func serve(_ setting: BenchSetting) async throws -> (server: ServerProcess, days: DishDays) {
        let days = DishDays(rows: setting.rows, days: setting.days)
        return (try await ServerProcess(setting) { try days.make(at: $0) }, days)
    }

    private static func month(_ way: Way, cities: String? = nil, _ setting: BenchSetting) async throws -> BenchJob {
        let (server, days) = try await serve(setting)
        var job = BenchJob(
            ours: { _ in
                var month = DishMonth(days, on: server)
                let start = ContinuousClock.now
                let client = DishMonth.Client(way: way, cities: cities, path: server.folder.path())
                let clients = try await month.run([client])
                return sample(clients[0].outcome, since: start)
            },
            finish: { try await server.end() }
        )
        job.isCountedOnly = true
        return job
    }

    /// The fifth way for a part of the list, beside the fourth in the same days, and then for another part.
    private static func part(_ setting: BenchSetting) async throws -> BenchJob {
        let (server, days) = try await serve(setting)
        var job = BenchJob(
            ours: { _ in
                var month = DishMonth(days, on: server)
                let start = ContinuousClock.now
                let clients = try await month.run(
                    [Way.compare, .keyset].map { way in
                        DishMonth.Client(way: way, cities: "1,2", path: server.folder.path())
                    }
                )
                var sample = sample(clients[0].outcome, since: start)
                let ratio = Double(bytes(clients[0].outcome.wire)) / Double(bytes(clients[1].outcome.wire))
                sample.figures.append(Figure(beside, value: ratio, unit: .count))
                let moved = try await month.sync(clients[0], wanting: "2,3").outcome
                sample.figures.append(Figure("then cities 2 and 3", value: Double(bytes(moved.wire)), unit: .bytes))
                let wrongRows = moved.missing + moved.stale + moved.undeleted
                sample.figures.append(Figure("wrong then", value: Double(wrongRows), unit: .count))
                return sample
            },
            finish: { try await server.end() }
        )
        job.isCountedOnly = true
        return job
    }

    private static func bytes(_ wire: Sample.Wire) -> Int { wire.bytesUp + wire.bytesDown }

    private static func sample(_ outcome: DishMonth.Outcome, since start: ContinuousClock.Instant) -> Sample {
        var sample = Sample(seconds: (ContinuousClock.now - start) / .seconds(1), wire: outcome.wire)
        sample.dailyBytes = outcome.daily.map(bytes)
        let first = sample.dailyBytes.first ?? 0
        sample.figures = [
            Figure("missing", value: Double(outcome.missing), unit: .count),
            Figure("stale", value: Double(outcome.stale), unit: .count),
            Figure("undeleted", value: Double(outcome.undeleted), unit: .count),
            Figure("first sync", value: Double(first), unit: .bytes),
            Figure("later", value: Double(bytes(outcome.wire) - first), unit: .bytes),
            Figure("client's peak", value: Double(outcome.peakBytes), unit: .bytes),
        ]
        return sample
    }
}
