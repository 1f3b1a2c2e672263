import Foundation
import GRDB
import TidemarkGzip

/// A new device's file, ready to use: keys, indexes, triggers and bookkeeping.
enum JoinBenchmark: Benchmark {
    static let name = "join"
    static let summary = "a new device's file over HTTP, ready to use"

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        [
            BenchCase(
                "\(setting.rows) rows, as a merge", goal: .speed(0.5),
                against: "ATTACH and INSERT SELECT, then the index"
            ) {
                var job = try await job(setting, Workplace.Zone(rows: setting.rows))
                let folder = try BenchFolder(in: setting.folder)
                let source = folder.path()
                try Items.make(setting.rows, at: source)
                job.ceiling = { try merge(source, into: folder.path()) }
                return job
            },
            BenchCase(
                "\(setting.rows) rows, as a file", goal: .speed(0.5), against: "gunzip, write and fsync of such a file"
            ) {
                var job = try await job(setting, Workplace.Zone(rows: setting.rows))
                let folder = try BenchFolder(in: setting.folder)
                let source = folder.path()
                try Items.make(setting.rows, at: source)
                let packed = gzip(Array(try Data(contentsOf: URL(filePath: source))), level: 1)
                job.ceiling = { try unpack(packed, to: folder.path()) }
                return job
            },
        ]
    }

    static func job(_ setting: BenchSetting, _ zone: Workplace.Zone) async throws -> BenchJob {
        let place = try await Workplace(setting, zone)
        // The server builds the snapshot once; the time is that of every further device.
        try await place.join()
        let digest = try await place.digest()
        return BenchJob(
            ours: { way in
                let transport = try place.transport(way)
                let path = place.path()
                let sample = try await place.counting({ transport.requests }) {
                    try await Sample.time { try await place.join(at: path, over: transport) }
                }
                try Agreement.require(path, holds: digest)
                try FileManager.default.removeItem(atPath: path)
                return sample
            },
            finish: { try await place.end() }
        )
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
                            """)
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
            try Data(bytes).write(to: URL(filePath: path))
            let file = try FileHandle(forUpdating: URL(filePath: path))
            try file.synchronize()
            try file.close()
        }
    }
}
