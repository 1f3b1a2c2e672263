import Foundation
import GRDB
import Tidemark

/// A device that was away takes in what others changed.
enum CatchUpBenchmark: Benchmark {
    static let name = "catchup"
    static let summary = "a device 10, 1,000 and 100,000 changed rows behind"

    static func cases(_ setting: BenchSetting) async throws -> [BenchCase] {
        let counts = [10, 1_000, setting.rows].filter { $0 <= setting.rows }
        var cases: [BenchCase] = []
        for count in Set(counts).sorted() { cases.append(try await self.behind(count, setting)) }
        return cases
    }

    private static func behind(_ count: Int, _ setting: BenchSetting) async throws -> BenchCase {
        let place = try await Workplace(setting, rows: setting.rows)
        let (template, plain, writer) = (place.path(), place.path(), place.path())
        try await place.join(at: template)
        try await place.join(at: writer)
        try Items.make(setting.rows, at: plain)
        try await change(count, by: place.device(at: writer))
        let json = try changed(count, in: writer)
        return BenchCase(
            "\(count) of \(setting.rows) rows behind",
            goal: .speed(0.5),
            ours: {
                let device = try await place.device(at: place.copy(of: template), direct: false)
                let before = place.traffic
                var sample = try await Sample.time { try await device.engine.sync() }
                sample.wire = place.wire(since: before, requests: device.requests)
                try device.close()
                return sample
            },
            against: "UPDATE FROM json_each, in one transaction",
            ceiling: { try update(json, in: place.copy(of: plain)) },
            finish: { try await place.end() }
        )
    }

    /// Changes rows in transactions of up to a thousand, and sends them.
    private static func change(_ count: Int, by device: BenchDevice) async throws {
        for first in stride(from: 1, through: count, by: 1_000) {
            let last = min(count, first + 999)
            try await device.database.write { db in
                try db.execute(
                    sql:
                        "UPDATE item SET amount = amount + 1, note = note || '!' WHERE id BETWEEN ? AND ?",
                    arguments: [first, last]
                )
            }
        }
        try await device.engine.sync()
        try device.close()
    }

    private static func changed(_ count: Int, in path: String) throws -> String {
        let file = try DatabaseQueue(path: path)
        let json = try file.read { db in
            try String.fetchOne(
                db,
                sql: """
                    SELECT json_group_array(json_array(id, amount, note)) FROM item WHERE id <= ?
                    """,
                arguments: [count]
            )
        }
        try file.close()
        return json ?? "[]"
    }

    private static func update(_ json: String, in path: String) throws -> Sample {
        let file = try DatabaseQueue(path: path)
        let sample = try Sample.time {
            try file.write { db in
                try db.execute(
                    sql: """
                        UPDATE item SET amount = j.value ->> 1, note = j.value ->> 2
                        FROM json_each(?) AS j WHERE item.id = j.value ->> 0
                        """,
                    arguments: [json]
                )
            }
        }
        try file.close()
        return sample
    }
}
