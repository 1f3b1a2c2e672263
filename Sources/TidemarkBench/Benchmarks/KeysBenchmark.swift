import Foundation
import Tidemark
import TidemarkGzip

/// The cost of random keys on the wire: as text, and as 16 raw bytes.
///
/// The times are those of compressing. The sizes depend only on zlib: a seed draws the keys, and
/// the levels are those of a device, of answers and of snapshots.
enum KeysBenchmark: Benchmark {
    static let name = "keys"
    static let summary = "compressed bytes of a random UUID as key, as text and as 16 bytes"

    /// The message that carries the rows.
    private enum Message: String, CaseIterable {
        case push
        case answer
        case snapshot

        var level: Int {
            switch self {
            case .push: Gzip.defaultLevel
            case .answer: 4
            case .snapshot: 1
            }
        }
    }

    /// The number of change sets that make the rows.
    private static let changeSets = 10

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        let count = min(10_000, max(changeSets, setting.rows / 10))
        return Message.allCases.map { message in
            BenchCase(
                "\(message.rawValue) of \(count) new rows, gzip level \(message.level)",
                against: "compressing the same with 16 raw bytes for each key"
            ) { try await job(message, count: count, setting: setting) }
        }
    }

    private static func job(_ message: Message, count: Int, setting: BenchSetting) async throws -> BenchJob {
        let keys = RandomKeys(count)
        let level = message.level
        let text = try await bytes(of: message, with: keys, setting)
        let raw = keys.replaced(in: text) { $0 }
        let none = keys.replaced(in: text) { _ in [] }.message
        try Agreement.require(raw.count >= count) { "\(raw.count) of \(count) keys were sent" }
        let each = { (bytes: Int) in Double(bytes) / Double(count) }
        let bare = gzip(none, level: level).count
        let whole = gzip(text, level: level).count
        let figures = [
            Figure("bytes a row", value: each(whole), unit: .count),
            Figure("of these its key", value: each(whole - bare), unit: .count),
            Figure("as 16 bytes", value: each(gzip(raw.message, level: level).count - bare), unit: .count),
            Figure("times it stands there", value: each(raw.count), unit: .count),
        ]
        return BenchJob(
            ours: { _ in
                var sample = try compress(text, level: level)
                sample.figures = figures
                return sample
            },
            ceiling: { try compress(raw.message, level: level) }
        )
    }

    private static func compress(_ bytes: [UInt8], level: Int) throws -> Sample {
        try Sample.time { _ = gzip(bytes, level: level) }
    }

    /// The message, before it is compressed, of a device that has made rows with these keys.
    private static func bytes(of message: Message, with keys: RandomKeys, _ setting: BenchSetting) async throws
        -> [UInt8]
    {
        let sql = "CREATE TABLE keyed (\(Items.columns.replacing("INTEGER PRIMARY", with: "TEXT PRIMARY")))"
        let place = try await Workplace(setting, Workplace.Zone(sql: sql))
        let path = try await place.join()
        let device = try await place.device(at: path)
        for rows in insertions(of: keys) { try await device.write(rows) }
        try await device.engine.sync()
        let push = device.lastBody
        try device.close()
        try await place.check(path)
        let transport = try place.transport()
        let answer = try await transport.sync(zone: "main", body: Array(#"{"maxRevision":0}"#.utf8))
        let file = place.path()
        try await transport.snapshot(zone: "main", since: nil, to: file) { _, _ in }
        let snapshot = try Data(contentsOf: URL(filePath: file))
        try await place.end()
        switch message {
        case .push: return push
        case .answer: return answer
        case .snapshot: return Array(snapshot)
        }
    }

    private static func insertions(of keys: RandomKeys) -> [String] {
        let size = keys.texts.count / changeSets
        return stride(from: 0, to: keys.texts.count, by: size).map { first in
            let end = min(keys.texts.count, first + size)
            let list = keys.texts[first..<end].map { "\"\($0)\"" }.joined(separator: ",")
            return """
                INSERT INTO keyed SELECT j.value, i.name, i.note, i.amount, i.price, i.made, i.kind, i.mark
                FROM json_each('[\(list)]') AS j
                JOIN (\(Items.rows(end - first, from: first + 1))) AS i ON i.id = \(first + 1) + j.key
                """
        }
    }
}
