import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Disasters in the middle of random histories: files are restored, copied, wiped, compacted, while
/// answers are lost.
///
/// In the end all files are equal and no row is doubled. Every row that a device created and none
/// deleted exists, or is in a conflict.
@Suite(.serialized) struct DrillTests {
    /// Drills of each kind; the environment can ask for more.
    static let seeds = UInt64(Effort.count("TIDEMARK_DRILL_SEEDS", short: 2, long: 8))

    /// The kinds of disasters.
    enum Disaster: CaseIterable {
        case serverRestored
        case serverRestoredUnsaid
        case serverWiped
        case deviceCopied
        case deviceRestored
        case horizon
    }

    @Test(arguments: Disaster.allCases)
    func `rules 10 14: combinations of disasters lose and double nothing`(disaster: Disaster) async throws {
        for seed in 1...Self.seeds {
            var drill = try await Drill(seed: seed, disaster)
            for _ in 0..<14 { try await drill.step() }
            try await drill.prepare()
            for _ in 0..<14 { try await drill.step() }
            try await drill.strike()
            for _ in 0..<14 { try await drill.step() }
            try await drill.settle()
        }
    }
}

/// One random history with a disaster in it.
private struct Drill {
    private var cluster: Cluster
    private var devices: [TestDevice] = []
    private var random: SeededGenerator
    private let disaster: DrillTests.Disaster
    private let name: String
    private var markers: Set<String> = []
    private var deleted: Set<String> = []
    private var backup: String?
    private var copy: TestDevice?
    /// The conflicts of a life that a restored copy ended.
    private var gone = ""

    private static let schema = """
        CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE notes (id INTEGER PRIMARY KEY, list_id INTEGER REFERENCES lists,
            text TEXT, done INTEGER);
        CREATE INDEX notes_list ON notes (list_id);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour INTEGER);
        """

    init(seed: UInt64, _ disaster: DrillTests.Disaster) async throws {
        random = SeededGenerator(seed: seed)
        self.disaster = disaster
        name = "\(disaster) \(seed)"
        var limits = Limits.standard
        if disaster == .horizon {
            limits.revisionsKept = 3
            limits.compactionStepMin = 1
            limits.compactionStepMax = 4
        }
        cluster = try Cluster(
            schema: Self.schema, seed: "INSERT INTO lists (name) VALUES ('home'); INSERT INTO tags VALUES ('red', 1)",
            policies: seed.isMultiple(of: 2) ? ["notes": .columns, "tags": .columns] : [:], limits: limits)
        for name in ["anna", "ben", "carla"] { devices.append(try await cluster.device(name)) }
    }

    mutating func step() async throws {
        let index = Int.random(in: 0..<devices.count, using: &random)
        guard Int.random(in: 0..<3, using: &random) > 0 else { return try await sync(index) }
        try await edit(devices[index])
    }

    private mutating func edit(_ device: TestDevice) async throws {
        let marker = "m\(markers.count)"
        switch Int.random(in: 0..<8, using: &random) {
        case 0:
            markers.insert(marker)
            try await device.write("INSERT INTO lists (name) VALUES ('\(marker)')")
        case 1..<4:
            // A wiped server may have no list for the note.
            guard try await device.rows("SELECT count(*) FROM lists") != ["0"] else { return }
            markers.insert(marker)
            try await device.write(
                """
                INSERT INTO notes (list_id, text)
                SELECT id, '\(marker)' FROM lists ORDER BY abs(id % 7), id LIMIT 1
                """
            )
        case 4:
            markers.insert(marker)
            try await device.write("INSERT INTO tags VALUES ('\(marker)', 0)")
        case 5: try await device.write("UPDATE notes SET done = coalesce(done, 0) + 1 WHERE id % 3 = 0")
        case 6: try await device.write("UPDATE tags SET colour = colour + 1 WHERE name LIKE '%1'")
        default:
            let doomed = "SELECT text FROM notes ORDER BY id % 5, id LIMIT 1"
            guard let text = try await device.rows(doomed).first else { return }
            deleted.insert(text)
            try await device.write("DELETE FROM notes WHERE text = '\(text)'")
        }
    }

    private mutating func sync(_ index: Int) async throws {
        let faults: [FaultPlan.Fault] = [.none, .none, .requestLost, .answerLost, .requestDoubled]
        devices[index].transport.faults.add(faults.randomElement(using: &random) ?? .none)
        do { try await devices[index].engine.sync() } catch let error as TidemarkError {
            #expect(error.recovery == .retry, "\(name): \(error)")
        }
    }

    /// Makes the copy for the disaster.
    mutating func prepare() async throws {
        switch disaster {
        case .serverRestored, .serverRestoredUnsaid: backup = try await cluster.backUp()
        case .deviceRestored:
            // A row inserted by another program before any sync would be new in both lives.
            try await settleOne(0)
            copy = try await devices[0].copy("restored")
        case .serverWiped, .deviceCopied, .horizon: break
        }
    }

    mutating func strike() async throws {
        switch disaster {
        case .serverRestored: try await cluster.restore(backup, isSaid: true)
        case .serverRestoredUnsaid: try await cluster.restore(backup)
        case .serverWiped: try await cluster.restore(nil)
        case .deviceCopied:
            try await settleOne(0)
            devices.append(try await devices[0].copy("twin"))
        case .deviceRestored:
            // Unsent edits and conflicts of the first life are gone with it.
            try await settleOne(0)
            gone = try await Self.conflicts(of: devices[0])
            if let copy { devices[0] = copy }
        case .horizon: break
        }
    }

    private static func conflicts(of device: TestDevice) async throws -> String {
        try await device.engine.conflicts().flatMap(\.records)
            .map { "\($0.key) \($0.mine ?? "") \($0.base ?? "")\n" }
            .joined()
    }

    private func settleOne(_ index: Int) async throws {
        for _ in 0..<9 {
            do { return try await devices[index].engine.sync() } catch let error as TidemarkError
                where error.recovery == .retry
            { continue }
        }
    }

    /// All devices sync, and nothing may be lost, doubled, or different.
    func settle() async throws {
        for _ in 0..<3 { for index in devices.indices { try await settleOne(index) } }
        do { try await cluster.converge(devices) } catch { Issue.record("\(name): \(error)") }
        let texts = try await cluster.rows(
            "SELECT name FROM lists UNION ALL SELECT text FROM notes UNION ALL SELECT name FROM tags")
        #expect(Set(texts).count == texts.count, "\(name): something is there twice")
        var parked = gone
        for device in devices { parked += try await Self.conflicts(of: device) }
        let missing = markers.subtracting(texts).subtracting(deleted).filter { !parked.contains("\"\($0)\"") }
        #expect(missing.isEmpty, "\(name): lost \(missing.sorted())")
    }
}
