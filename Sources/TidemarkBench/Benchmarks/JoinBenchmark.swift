import Foundation
import GRDB
import TidemarkGzip

/// A new device's file, ready to use: keys, indexes, triggers and bookkeeping.
enum JoinBenchmark: Benchmark {
    static let name = "join"
    static let summary = "a new device's file over HTTP, ready to use"

    static func cases(_ setting: BenchSetting) async throws -> [BenchCase] {
        let place = try await Workplace(setting, rows: setting.rows)
        // The snapshot is built once; what follows is what every further device costs.
        try await place.join(at: place.path())
        let source = place.path()
        try Items.make(setting.rows, at: source)
        let packed = gzip(Array(try Data(contentsOf: URL(filePath: source))), level: 1)
        let ours: @Sendable () async throws -> Sample = {
            let path = place.path()
            let before = place.traffic
            var sample = try await Sample.time { try await place.join(at: path, direct: false) }
            sample.wire = place.wire(since: before, requests: 1)
            return sample
        }
        return [
            BenchCase(
                "\(setting.rows) rows, as a merge",
                goal: .speed(0.5),
                ours: ours,
                against: "ATTACH and INSERT SELECT, then the index",
                ceiling: { try merge(source, into: place.path()) }
            ),
            BenchCase(
                "\(setting.rows) rows, as a file",
                goal: .speed(0.5),
                ours: ours,
                against: "gunzip, write and fsync of such a file",
                ceiling: { try unpack(packed, to: place.path()) },
                finish: { try await place.end() }
            ),
        ]
    }

    private static func merge(_ source: String, into path: String) throws -> Sample {
        try Sample.time {
            let file = try DatabaseQueue(path: path)
            try file.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
                try db.execute(sql: "ATTACH ? AS source", arguments: [source])
                try db.inTransaction {
                    try db.execute(
                        sql: """
                            CREATE TABLE item (\(Items.columns));
                            INSERT INTO item SELECT * FROM source.item;
                            CREATE INDEX item_name ON item (name)
                            """
                    )
                    return .commit
                }
                try db.execute(sql: "DETACH source")
            }
            try file.close()
        }
    }

    private static func unpack(_ packed: [UInt8], to path: String) throws -> Sample {
        try Sample.time {
            let bytes = try gunzip(packed, bytesMax: 4 << 30)
            FileManager.default.createFile(atPath: path, contents: Data(bytes))
            let file = try FileHandle(forUpdating: URL(filePath: path))
            try file.synchronize()
            try file.close()
        }
    }
}
