import Foundation
import GRDB
import Testing
import TidemarkTestSupport

extension IntegrationTests {
    /// Runs the real commands on device files with damaged pages, each in a process of its own.
    ///
    /// A trap ends only that process, and a process without end is killed.
    @Suite struct DamageFuzzTests {
        /// The number of damaged files, and the first seed.
        private static let count = Effort.count("TIDEMARK_DAMAGE", short: 8, long: 60)
        private static let first = Effort.count("TIDEMARK_DAMAGE_SEED", short: 1, long: 1)
        private static let limit = Duration.seconds(120)

        /// The result for one file.
        private struct Outcome {
            var synced = false
            /// The reason why there is no rescued file; nil if there is one.
            var refusal: String?
        }

        @Test func `rule 10, rule 21: no damaged page makes a command crash or run for ever`() async throws {
            let scene = try await DamageScene()
            var outcomes: [Outcome] = []
            for seed in Self.first..<Self.first + Self.count { outcomes.append(try await run(seed, in: scene)) }
            let refusals = outcomes.filter { !$0.synced }
            Report.line(
                "\(outcomes.count) damaged device files: \(outcomes.count - refusals.count) synced, "
                    + "\(refusals.count) refused, \(refusals.count { $0.refusal == nil }) of these rescued")
            for reason in refusals.compactMap(\.refusal) { Report.line("    \(reason)") }
        }

        private func run(_ seed: Int, in scene: DamageScene) async throws -> Outcome {
            var random = SeededGenerator(seed: UInt64(seed))
            let what = try scene.damage(&random)
            let say = "TIDEMARK_DAMAGE=1 TIDEMARK_DAMAGE_SEED=\(seed): \(what)"
            let server = try await scene.serve()
            var outcome = Outcome()
            for command in ["status", "conflicts", "sync", "sync"] {
                let result = try await scene.run(["device", command, "d.sqlite"], Self.limit)
                expectOrderly(result, "\(say): \(command)")
                if command == "sync" { outcome.synced = [0, 3].contains(result.status) }
            }
            expectOrderly(try await scene.run(["verify", "d.sqlite"], Self.limit), "\(say): verify")
            if !outcome.synced {
                let result = try await scene.run(["device", "rescue", "damaged.sqlite", "new.sqlite"], Self.limit)
                expectOrderly(result, "\(say): rescue")
                if result.status != 0 {
                    let error = result.errors.split(separator: "\n").first ?? ""
                    outcome.refusal = "\(what): \(error)"
                }
                if result.status == 0 {
                    let sync = try await scene.run(["device", "sync", "new.sqlite"], Self.limit)
                    #expect([0, 3].contains(sync.status), "\(say): the rescued file: \(sync.output)\(sync.errors)")
                }
            }
            try await server.stopped()
            return outcome
        }

        private func expectOrderly(_ result: Program.Result, _ what: String) {
            #expect((0...5).contains(result.status), "\(what): \(result.errors.suffix(2_000))")
        }
    }
}

/// A server's file and a device's, with rows in every bookkeeping table.
private struct DamageScene {
    private let workshop: Workshop
    private let port: Int
    private let zone: Data
    private let device: [UInt8]
    private let pageSize: Int
    /// The pages of the bookkeeping, and of the schema.
    private let books: [Int]

    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE,
            name TEXT, note TEXT);
        INSERT INTO team VALUES (1, 'Kiel'), (2, 'Jena'), (3, 'Ulm');
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60)
        INSERT INTO player SELECT i, 1 + i % 3, 'player ' || i, printf('%.100c', 'x') FROM n;
        """

    init() async throws {
        workshop = try Workshop()
        try await workshop.sqlite3("s.sqlite", Self.schema)
        var server = try await workshop.serve("s.sqlite")
        port = server.port
        try await workshop.join(server, "d.sqlite")
        // An acknowledged set, a conflict, a frozen set without an answer, and captured edits.
        try await workshop.sqlite3("d.sqlite", "INSERT INTO team (name) VALUES ('Bonn')")
        try await workshop.sync("d.sqlite")
        try await workshop.sqlite3("s.sqlite", "UPDATE team SET name = 'theirs' WHERE id = 1")
        try await workshop.sqlite3("d.sqlite", "UPDATE team SET name = 'mine' WHERE id = 1")
        try await workshop.tidemark("device", "sync", workshop.path("d.sqlite"))
        try await server.stopped()
        try await workshop.sqlite3(
            "d.sqlite",
            "INSERT INTO player (team_id, name) VALUES (2, 'Anna'); UPDATE player SET note = 'a' WHERE id < 9")
        try await workshop.tidemark("device", "sync", workshop.path("d.sqlite"))
        try await workshop.sqlite3(
            "d.sqlite",
            """
            UPDATE player SET note = 'b' WHERE id = 3; DELETE FROM player WHERE id = 50;
            INSERT INTO team (name) VALUES ('Trier'); PRAGMA wal_checkpoint(TRUNCATE)
            """
        )
        server = try await workshop.serve("s.sqlite", port: port)
        try await server.stopped()
        try await workshop.sqlite3("s.sqlite", "PRAGMA wal_checkpoint(TRUNCATE)")
        zone = try Data(contentsOf: workshop.folder.appending(path: "s.sqlite"))
        device = Array(try Data(contentsOf: workshop.folder.appending(path: "d.sqlite")))
        (pageSize, books) = try await DatabaseQueue(path: workshop.path("d.sqlite")).read { db in
            (
                try Int.fetchOne(db, sql: "PRAGMA page_size") ?? 4_096,
                try Int.fetchAll(
                    db,
                    sql: """
                        SELECT pageno FROM dbstat
                        WHERE name GLOB '*tidemark*' OR name = 'sqlite_schema'
                        """
                )
            )
        }
    }

    /// Damages a copy of the device's file; returns a description of the damage.
    func damage(_ random: inout SeededGenerator) throws -> String {
        var bytes = device
        var words: [String] = []
        for _ in 0..<Int.random(in: 1...2, using: &random) {
            let kind = PageDamage.allCases.randomElement(using: &random) ?? .bitFlips
            let pages = max(2, bytes.count / pageSize)
            let page =
                Bool.random(using: &random)
                ? books.randomElement(using: &random) ?? 1 : Int.random(in: 1...pages, using: &random)
            kind.apply(to: &bytes, page: page, pageSize: pageSize, &random)
            words.append("\(kind) of page \(page)")
        }
        for name in ["d.sqlite", "new.sqlite", "s.sqlite"] {
            for suffix in ["", "-wal", "-shm", "-journal"] where workshop.exists(name + suffix) {
                try FileManager.default.removeItem(atPath: workshop.path(name + suffix))
            }
        }
        for name in ["d.sqlite", "damaged.sqlite"] { try Data(bytes).write(to: workshop.folder.appending(path: name)) }
        try zone.write(to: workshop.folder.appending(path: "s.sqlite"))
        return words.joined(separator: ", ")
    }

    func serve() async throws -> Server { try await workshop.serve("s.sqlite", port: port) }

    /// Runs `tidemark` in the folder of the files.
    func run(_ arguments: [String], _ limit: Duration) async throws -> Program.Result {
        try await workshop.startTidemark(arguments, within: limit).finished()
    }
}
