import GRDB
import Tidemark
import TidemarkCore

/// A device that was away applies the changes of another one.
enum CatchUpBenchmark: Benchmark {
    static let name = "catchup"
    static let summary = "a device 10, 1,000, a quarter of all and all rows behind"

    /// Prepares a ceiling, beside a device's file that has the changes.
    typealias Ceiling = @Sendable (Workplace, String) throws -> @Sendable () async throws -> Sample

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        let rows = setting.rows
        let zone = Workplace.Zone(rows: setting.rows)
        let few = Set([10, 1_000]).filter { $0 <= rows }.sorted().map { count in
            BenchCase(
                "\(count) of \(rows) rows behind, in change sets", goal: .speed(0.5),
                against: "UPDATE FROM json_each, in one transaction"
            ) {
                try await job(setting, zone, behind: count) { place, writer in
                    let json = try changed(count, in: writer)
                    let plain = place.path()
                    try Items.make(rows, at: plain)
                    return { try update(json, in: place.copy(of: plain)) }
                }
            }
        }
        let many = [(rows / 4, "a delta"), (rows, "all rows")].map { count, means in
            BenchCase(
                "\(count) of \(rows) rows behind, by \(means)", goal: .speed(0.5),
                against: "an upsert of these rows from an attached file"
            ) {
                try await job(setting, zone, behind: count) { place, writer in
                    let plain = place.path()
                    try Items.make(rows, at: plain)
                    return { try upsert(count, from: writer, into: place.copy(of: plain)) }
                }
            }
        }
        return few + many
    }

    static func job(_ setting: BenchSetting, _ zone: Workplace.Zone, behind count: Int, against ceiling: Ceiling? = nil)
        async throws -> BenchJob
    {
        let behind = try await BehindDevice(setting, zone, changes: [changes(of: count)])
        return BenchJob(
            ours: { try await behind.sync($0) }, ceiling: try ceiling?(behind.place, behind.writer),
            finish: { try await behind.place.end() })
    }

    /// Statements that change the first rows, up to a thousand each.
    static func changes(of count: Int) -> [String] {
        stride(from: 1, through: count, by: 1_000).map { first in
            """
            UPDATE item SET amount = amount + 1, note = note || '!'
            WHERE id BETWEEN \(first) AND \(min(count, first + 999))
            """
        }
    }

    // MARK: Ceilings

    private static func changed(_ count: Int, in path: String) throws -> String {
        let file = try DatabaseQueue(path: path)
        let json = try file.read { db in
            try String.fetchOne(
                db,
                sql: """
                    SELECT json_group_array(json_array(id, amount, note)) FROM item WHERE id <= ?
                    """,
                arguments: [count])
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
                    arguments: [json])
            }
        }
        try file.close()
        return sample
    }

    private static func upsert(_ count: Int, from source: String, into path: String) throws -> Sample {
        let file = try DatabaseQueue(path: path)
        try file.writeWithoutTransaction { db in try db.execute(sql: "ATTACH ? AS source", arguments: [source]) }
        let sample = try Sample.time {
            try file.write { db in
                try db.execute(
                    sql: """
                        INSERT INTO item SELECT * FROM source.item WHERE id <= ?
                        ON CONFLICT (id) DO UPDATE SET name = excluded.name, note = excluded.note,
                            amount = excluded.amount, price = excluded.price, made = excluded.made,
                            kind = excluded.kind, mark = excluded.mark
                        """,
                    arguments: [count])
            }
        }
        try file.close()
        return sample
    }
}
