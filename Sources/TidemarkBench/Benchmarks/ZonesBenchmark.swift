import Foundation
import GRDB
import TidemarkCore
import TidemarkEmbedded
import TidemarkEngine
import TidemarkTestSupport

/// Many zones of the embedded store, each in a file of its own.
enum ZonesBenchmark: Benchmark {
    static let name = "zones"
    static let summary = "one commit in each of many zones' files, and the opening of one"

    private static let open = "open one"
    private static let descriptors = "descriptors left"
    private static let openZones = "open at most"

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        let count = setting.isTrial ? 10 : 1_000
        return [
            BenchCase(
                "\(count) zones, one commit in each", goal: .speed(0.5),
                against: "a transaction in each of as many SQLite files"
            ) { try await commits(count, setting) },
            BenchCase("a first request to a closed zone", goal: .atMost(0.02, .seconds, [open])) {
                try await opening(setting)
            },
            BenchCase("a list of \(count) zones after a start", goal: .atMost(0, .count, [descriptors])) {
                try await list(count, setting)
            },
        ]
    }

    /// A main zone, a directory of zones beside it, and their accesses.
    private final class Place: Sendable {
        let folder: BenchFolder
        let main: EmbeddedStore
        let zones: [ZoneAccess]
        private let directories: URL

        init(_ count: Int, _ setting: BenchSetting) async throws {
            folder = try BenchFolder(in: setting.folder)
            let path = folder.path("main")
            try Items.make(0, at: path)
            main = try EmbeddedStore(path: path, newEpoch: RandomID.uuid())
            directories = URL(filePath: folder.path("zones"))
            var generator = SeededGenerator(seed: 1)
            zones = (0..<count).map { _ in .local(ZoneName.make(using: &generator)) }
            let directory = directory()
            // Each was used once, as the zones of people are.
            for access in zones {
                try await directory.makeZone(access.zone)
                _ = try await directory.latest(access)
            }
            await directory.closeZones()
        }

        /// A directory that has opened no zone, as after a server's start.
        func directory() -> ZoneDirectory { ZoneDirectory(main: main, folder: directories) }

        func end() async throws { try await main.close() }
    }

    private static func commits(_ count: Int, _ setting: BenchSetting) async throws -> BenchJob {
        let place = try await Place(count, setting)
        let files = (0..<count).map { place.folder.path("plain\($0)") }
        try makePlain(files)
        return BenchJob(
            ours: { _ in
                let directory = place.directory()
                let before = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
                var most = 0
                var sample = try await Sample.time {
                    for (number, access) in place.zones.enumerated() {
                        try await commit(access, directory)
                        if number.isMultiple(of: 50) { most = max(most, await directory.openCount) }
                    }
                }
                most = max(most, await directory.openCount)
                await directory.closeZones()
                let after = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
                try Agreement.require(most <= ZoneDirectory.openMax) { "\(most) zones were open" }
                sample.figures = [
                    Figure(openZones, value: Double(most), unit: .count),
                    Figure(descriptors, value: Double(after - before), unit: .count),
                ]
                return sample
            },
            ceiling: {
                try Sample.time {
                    for file in files {
                        let queue = try DatabaseQueue(path: file)
                        try queue.writeWithoutTransaction { db in
                            try db.execute(sql: "PRAGMA synchronous = FULL")
                            try db.inTransaction(.immediate) {
                                try db.execute(sql: insertion)
                                return .commit
                            }
                        }
                        try queue.close()
                    }
                }
            },
            finish: { try await place.end() }
        )
    }

    /// Makes files without a zone, in the mode that the zones' files have since their first use.
    private static func makePlain(_ files: [String]) throws {
        for file in files {
            try Items.make(0, at: file)
            let queue = try DatabaseQueue(path: file)
            try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
            try queue.close()
        }
    }

    private static func opening(_ setting: BenchSetting) async throws -> BenchJob {
        let count = setting.isTrial ? 2 : 50
        let place = try await Place(count, setting)
        return BenchJob(
            ours: { _ in
                let directory = place.directory()
                var sample = try await Sample.time {
                    for access in place.zones { _ = try await directory.sync(access, body: Array(question.utf8)) }
                }
                sample.figures = [Figure(open, value: sample.seconds / Double(count), unit: .seconds)]
                await directory.closeZones()
                return sample
            },
            finish: { try await place.end() }
        )
    }

    private static func list(_ count: Int, _ setting: BenchSetting) async throws -> BenchJob {
        let place = try await Place(count, setting)
        return BenchJob(
            ours: { _ in
                let directory = place.directory()
                let before = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
                var sample = try await Sample.time {
                    let revisions = try await directory.latest(of: place.zones)
                    try Agreement.require(revisions.count == count) { "\(revisions.count) of \(count) zones" }
                }
                try Agreement.require(await directory.openCount == 0) { "a list opened zones" }
                let after = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
                sample.figures = [Figure(descriptors, value: Double(after - before), unit: .count)]
                return sample
            },
            finish: { try await place.end() }
        )
    }

    private static func commit(_ access: ZoneAccess, _ directory: ZoneDirectory) async throws {
        let body =
            #"{"maxRevision":0,"limit":1,"changeSets":[{"item":{"create":[-1],"attributes":{"-1":{"name":"item","#
            + #""note":"a note of some forty characters or so","amount":1,"price":0.5,"#
            + #""made":"2026-11-21T10:00:00Z","kind":"k","mark":null}}}}]}"#
        _ = try await directory.sync(access, body: Array(body.utf8))
    }

    private static let question = #"{"maxRevision":0}"#
    private static let insertion = """
        INSERT INTO item (name, note, amount, price, made, kind)
        VALUES ('item', 'a note of some forty characters or so', 1, 0.5, '2026-11-21T10:00:00Z', 'k')
        """
}
