import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 23: devices that edit the same few records at random, over a network that loses and
/// doubles messages, while other programs write into the server's file.
///
/// In the end all files are equal. `SimulationTests` simulate far more; these tests have
/// real files, real connections and the asynchronous shell.
@Suite(.serialized) struct FuzzTests {
    /// The number of histories; the environment can ask for more.
    static let seeds = UInt64(Effort.count("TIDEMARK_FUZZ_SEEDS", short: 2, long: 6))

    @Test(arguments: 1...FuzzTests.seeds)
    func `A1 A6 A7: after random offline edits of three devices, all files end up equal`(seed: UInt64) async throws {
        var story = try await Story(seed: seed, policy: seed.isMultiple(of: 2) ? .columns : .reject)
        for _ in 0..<60 { try await story.step() }
        try await story.settle()
    }
}

/// One random history.
private struct Story {
    private let cluster: Cluster
    private var devices: [TestDevice]
    private var random: SeededGenerator
    private var counter = 0

    static let schema = """
        CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT NOT NULL, rank INTEGER UNIQUE);
        CREATE TABLE players (
            id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES teams ON DELETE CASCADE,
            name TEXT, score REAL DEFAULT 0.5, captain_id INTEGER REFERENCES players ON DELETE SET NULL);
        CREATE INDEX players_team ON players (team_id);
        CREATE INDEX players_captain ON players (captain_id);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour BLOB);
        CREATE TABLE player_tags (
            player_id INTEGER NOT NULL REFERENCES players ON DELETE CASCADE,
            tag TEXT NOT NULL REFERENCES tags, note TEXT, PRIMARY KEY (player_id, tag)) WITHOUT ROWID;
        CREATE INDEX player_tags_tag ON player_tags (tag);
        """

    init(seed: UInt64, policy: ConflictPolicy) async throws {
        random = SeededGenerator(seed: seed)
        cluster = try Cluster(
            schema: Self.schema,
            seed: """
                INSERT INTO teams VALUES (1, 'Kiel', 1), (2, 'Bonn', 2), (3, 'Jena', NULL);
                INSERT INTO players (team_id, name) VALUES (1, 'Anna'), (1, 'Ben'), (2, 'Carla');
                INSERT INTO tags VALUES ('red', x'ff0000'), ('blue', x'0000ff');
                INSERT INTO player_tags VALUES (1, 'red', NULL), (3, 'blue', 'x');
                """,
            policies: ["teams": policy, "players": policy, "tags": policy, "player_tags": policy]
        )
        devices = []
        for name in ["anna", "ben", "carla"] { devices.append(try await cluster.device(name)) }
    }

    mutating func step() async throws {
        let index = Int.random(in: 0..<devices.count, using: &random)
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<13: try await edit(index)
        case 13..<17: try await sync(index)
        case 17: devices[index] = try await devices[index].reopened()
        case 18:
            let cluster = cluster
            try edit { try cluster.writeOutside($0) }
        default: try await resolveOne(index)
        }
    }

    /// All devices sync, conflicts are resolved, and nothing may differ or be pending.
    mutating func settle() async throws {
        for _ in 0..<4 {
            for index in devices.indices {
                try await syncUntilDone(index)
                for conflict in try await devices[index].engine.conflicts() {
                    try await devices[index].engine.resolve(conflict.id, with: .accept)
                }
            }
        }
        try await cluster.converge(devices)
        for device in devices {
            let status = try await device.engine.status()
            #expect(status.pendingChangeSets == 0)
            #expect(try await device.rows("PRAGMA foreign_key_check") == [])
            #expect(try await device.rows("PRAGMA integrity_check") == ["ok"])
            let temporary = "SELECT id FROM players WHERE id NOT BETWEEN 1 AND \(TemporaryID.permanentMax)"
            #expect(try await device.rows(temporary) == [])
        }
    }

    // MARK: Edits of devices

    private mutating func sync(_ index: Int) async throws {
        let faults: [FaultPlan.Fault] = [.none, .none, .requestLost, .answerLost, .requestDoubled]
        let fault = faults.randomElement(using: &random) ?? .none
        devices[index].transport.faults.add(fault)
        do { try await devices[index].engine.sync() } catch let error as TidemarkError {
            #expect(error.code == .unreachable)
        }
    }

    private func syncUntilDone(_ index: Int) async throws {
        while true {
            do { return try await devices[index].engine.sync() } catch let error as TidemarkError
                where error.code == .unreachable
            { continue }
        }
    }

    private mutating func resolveOne(_ index: Int) async throws {
        guard let conflict = try await devices[index].engine.conflicts().first else { return }
        let resolution: Resolution = Bool.random(using: &random) ? .accept : .retry
        do {
            try await devices[index].engine.resolve(conflict, with: resolution, takenIDs: .asNew)
        } catch let error as TidemarkError {
            #expect(resolution == .retry && error.code == .constraintViolated)
        }
    }

    private mutating func edit(_ index: Int) async throws {
        let device = devices[index]
        if Bool.random(using: &random) {
            try edit { try device.writeOutside($0) }
        } else {
            let sql = transaction()
            do { try await device.write(sql) } catch let error as DatabaseError {
                #expect(error.resultCode == .SQLITE_CONSTRAINT)
            }
        }
    }

    /// Runs a random transaction; one that breaks a constraint is rolled back, as in any program.
    private mutating func edit(_ run: (String) throws -> Void) throws {
        do { try run(transaction()) } catch let error as DatabaseError {
            #expect(error.resultCode == .SQLITE_CONSTRAINT)
        }
    }

    private mutating func transaction() -> String {
        (0..<Int.random(in: 1...3, using: &random)).map { _ in statement() }.joined(separator: ";\n")
    }

    private mutating func statement() -> String {
        counter += 1
        let pick = Int.random(in: 0..<1_000_000, using: &random)
        func any(_ table: String, _ column: String) -> String {
            "(SELECT \(column) FROM \(table) ORDER BY \(column) LIMIT 1 OFFSET \(pick) % max(1, (SELECT count(*) FROM \(table))))"
        }
        let team = any("teams", "id")
        let player = any("players", "id")
        let tag = any("tags", "name")
        let rank = pick % 6
        switch Int.random(in: 0..<18, using: &random) {
        case 0: return "INSERT INTO teams (name, rank) VALUES ('T\(counter)', NULL)"
        case 1: return "INSERT INTO players (team_id, name) VALUES (\(team), 'P\(counter)')"
        case 2: return "INSERT INTO players (team_id, name, captain_id) VALUES (\(team), 'C\(counter)', \(player))"
        case 3: return "UPDATE players SET name = 'N\(counter)' WHERE id = \(player)"
        case 4: return "UPDATE players SET score = score + 0.1 WHERE id = \(player)"
        case 5: return "UPDATE players SET team_id = \(team) WHERE id = \(player)"
        case 6: return "UPDATE players SET captain_id = \(player) WHERE id % 3 = \(pick % 3)"
        case 7: return "DELETE FROM players WHERE id = \(player)"
        case 8: return "DELETE FROM teams WHERE id = \(team)"
        case 9: return "UPDATE OR IGNORE teams SET rank = \(rank) WHERE id = \(team)"
        case 10: return "UPDATE OR REPLACE teams SET rank = \(rank) WHERE id = \(team)"
        case 11:
            return """
                INSERT INTO tags VALUES ('t\(pick % 5)', zeroblob(3)) ON CONFLICT (name) DO UPDATE SET colour = x'00\(String(format: "%02x", pick % 256))'
                """
        case 12: return "INSERT OR REPLACE INTO player_tags VALUES (\(player), \(tag), 'n\(counter)')"
        case 13: return "DELETE FROM player_tags WHERE player_id = \(player)"
        case 14: return "DELETE FROM tags WHERE name = \(tag) AND name NOT IN (SELECT tag FROM player_tags)"
        case 15:
            return
                "INSERT INTO teams (name) VALUES ('B\(counter)'); INSERT INTO players (team_id, name) VALUES (last_insert_rowid(), 'B\(counter)')"
        case 16:
            return
                "INSERT OR REPLACE INTO teams (id, name, rank) SELECT id, name || '!', rank FROM teams WHERE id = \(team)"
        default: return "UPDATE teams SET name = name || '\(pick % 10)' WHERE id = \(team)"
        }
    }
}
