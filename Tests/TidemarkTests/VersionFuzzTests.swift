import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Apps of three versions and a server of any, which migrate at random moments, over a network that
/// loses and doubles messages.
///
/// In the end all have migrated, and all files are equal.
@Suite(.serialized) struct VersionFuzzTests {
    /// The number of histories, which the environment may raise.
    static let seeds = UInt64(Effort.count("TIDEMARK_FUZZ_SEEDS", short: 6, long: 24))

    @Test(arguments: 1...max(1, VersionFuzzTests.seeds))
    func `C3, case 28: for random versions and orders of syncs, all files end up equal`(seed: UInt64) async throws {
        var story = try await Story(seed: seed, policy: seed.isMultiple(of: 2) ? .columns : .reject)
        for _ in 0..<50 { try await story.step() }
        try await story.settle()
    }
}

/// One random history.
private struct Story {
    private let cluster: Cluster
    private var devices: [TestDevice] = []
    /// The version of the tables of each device, and of the server: 1 to 3.
    private var versions: [Int] = []
    private var serverVersion = 1
    private var random: SeededGenerator
    private var counter = 0

    static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL, done INTEGER DEFAULT 0,
            parent_id INTEGER REFERENCES notes ON DELETE SET NULL);
        CREATE INDEX notes_parent ON notes (parent_id);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
        """
    static let migrations = [
        2: """
        ALTER TABLE notes ADD COLUMN stars INTEGER DEFAULT 3;
        ALTER TABLE tags ADD COLUMN icon BLOB;
        """,
        3: """
        CREATE TABLE labels (id INTEGER PRIMARY KEY AUTOINCREMENT,
            note_id INTEGER NOT NULL REFERENCES notes ON DELETE CASCADE,
            tag TEXT REFERENCES tags ON DELETE SET NULL, text TEXT);
        CREATE INDEX labels_note ON labels (note_id);
        CREATE INDEX labels_tag ON labels (tag);
        ALTER TABLE notes ADD COLUMN owner TEXT NOT NULL DEFAULT 'nobody';
        """,
    ]

    init(seed: UInt64, policy: ConflictPolicy) async throws {
        random = SeededGenerator(seed: seed)
        cluster = try Cluster(
            schema: Self.schema,
            seed: """
                INSERT INTO notes (text) VALUES ('milk'), ('bread'), ('salt'), ('rake');
                INSERT INTO tags VALUES ('home', 'red'), ('work', 'blue');
                """,
            policies: ["notes": policy, "tags": policy]
        )
        for name in ["anna", "ben", "carla"] {
            devices.append(try await cluster.device(name))
            versions.append(1)
        }
    }

    mutating func step() async throws {
        let index = Int.random(in: 0..<devices.count, using: &random)
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<11: try await edit(index)
        case 11..<15: try await sync(index)
        case 15: devices[index] = try await devices[index].reopened()
        case 16:
            let cluster = cluster
            try edit(version: serverVersion) { try cluster.writeOutside($0) }
        case 17: try await migrate(index)
        case 18: try migrateServer()
        default: try await resolveOne(index)
        }
    }

    /// All devices migrate and sync, conflicts are resolved, and nothing may differ or be pending.
    mutating func settle() async throws {
        while serverVersion < 3 { try migrateServer() }
        for index in devices.indices { while versions[index] < 3 { try await migrate(index) } }
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
            #expect(try await device.rows("PRAGMA foreign_key_check") == [])
            #expect(try await device.rows("PRAGMA integrity_check") == ["ok"])
            #expect(try await device.rows("SELECT * FROM tidemark_unknown") == [])
        }
    }

    // MARK: Migrations

    private mutating func migrate(_ index: Int) async throws {
        guard let sql = Self.migrations[versions[index] + 1] else { return }
        let fill = Int.random(in: 0..<3, using: &random)
        let device = devices[index]
        try device.writeOutside(sql)
        versions[index] += 1
        // Some migrations fill their new columns, and some apps write before the engine starts.
        if fill > 0 { try edit(version: versions[index]) { try device.writeOutside($0) } }
        if fill > 1, versions[index] == 2 {
            try device.writeOutside("UPDATE notes SET stars = length(text) WHERE id % 2")
        }
        devices[index] = try await device.reopened()
    }

    private mutating func migrateServer() throws {
        guard let sql = Self.migrations[serverVersion + 1] else { return }
        try cluster.writeOutside(sql)
        serverVersion += 1
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
            try edit(version: versions[index]) { try device.writeOutside($0) }
        } else {
            let sql = transaction(version: versions[index])
            do { try await device.write(sql) } catch let error as DatabaseError {
                #expect(error.resultCode == .SQLITE_CONSTRAINT)
            }
        }
    }

    private mutating func edit(version: Int, _ run: (String) throws -> Void) throws {
        do { try run(transaction(version: version)) } catch let error as DatabaseError {
            #expect(error.resultCode == .SQLITE_CONSTRAINT)
        }
    }

    private mutating func transaction(version: Int) -> String {
        (0..<Int.random(in: 1...3, using: &random)).map { _ in statement(version: version) }.joined(separator: ";\n")
    }

    private mutating func statement(version: Int) -> String {
        counter += 1
        let pick = Int.random(in: 0..<1_000_000, using: &random)
        func any(_ table: String, _ column: String) -> String {
            "(SELECT \(column) FROM \(table) ORDER BY \(column) LIMIT 1 OFFSET \(pick) % max(1, (SELECT count(*) FROM \(table))))"
        }
        let note = any("notes", "id")
        let tag = any("tags", "name")
        switch Int.random(in: 0..<[9, 14, 20][version - 1], using: &random) {
        case 0: return "INSERT INTO notes (text) VALUES ('N\(counter)')"
        case 1: return "INSERT INTO notes (text, parent_id) VALUES ('C\(counter)', \(note))"
        case 2: return "UPDATE notes SET text = 'T\(counter)' WHERE id = \(note)"
        case 3: return "UPDATE notes SET done = done + 1 WHERE id % 3 = \(pick % 3)"
        case 4: return "UPDATE notes SET parent_id = \(note) WHERE id % 4 = \(pick % 4)"
        case 5: return "DELETE FROM notes WHERE id = \(note)"
        case 6: return "INSERT OR REPLACE INTO tags (name, colour) VALUES ('t\(pick % 4)', 'c\(counter)')"
        case 7: return "DELETE FROM tags WHERE name = \(tag)"
        case 8:
            return
                "INSERT OR REPLACE INTO notes (id, text, done) SELECT id, text || '!', done FROM notes WHERE id = \(note)"
        case 9: return "UPDATE notes SET stars = \(pick % 5) WHERE id = \(note)"
        case 10: return "INSERT INTO notes (text, stars) VALUES ('S\(counter)', \(pick % 5))"
        case 11: return "UPDATE tags SET icon = x'0\(pick % 10)' WHERE name = \(tag)"
        case 12: return "UPDATE notes SET stars = NULL, done = 0 WHERE id % 5 = \(pick % 5)"
        case 13: return "DELETE FROM notes WHERE stars = \(pick % 5) AND id % 2"
        case 14, 15: return "INSERT INTO labels (note_id, tag, text) VALUES (\(note), \(tag), 'L\(counter)')"
        case 16: return "UPDATE labels SET text = 'U\(counter)' WHERE id = \(any("labels", "id"))"
        case 17: return "DELETE FROM labels WHERE id = \(any("labels", "id"))"
        case 18: return "UPDATE labels SET note_id = \(note) WHERE id = \(any("labels", "id"))"
        default: return "UPDATE notes SET owner = 'o\(pick % 3)' WHERE id = \(note)"
        }
    }
}
