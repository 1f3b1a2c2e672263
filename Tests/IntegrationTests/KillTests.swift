import Foundation
import Synchronization
import Testing
import TidemarkTestSupport

extension IntegrationTests {
    /// Rule 4: kill -9 of the server, of syncing devices and of the programs that edit their files,
    /// at any moment and under load.
    ///
    /// `make kills KILLS=10000` kills more often.
    @Suite struct KillTests {
        private static let environment = ProcessInfo.processInfo.environment
        private static let kills = Effort.count("TIDEMARK_KILLS", short: 15, long: 100)
        private static let seed = UInt64(environment["TIDEMARK_KILL_SEED"] ?? "") ?? 29

        @Test func `rules 2 3 4 10, case 29: kills of server and devices lose and double nothing`() async throws {
            let yard = try await KillYard(seed: Self.seed)
            try await yard.kill(Self.kills)
            try await yard.settle()
            try await yard.check()
        }
    }
}

/// A server, three devices that sync without a pause, three `sqlite3` shells that edit their files,
/// and a task that kills them.
///
/// The test keeps the ledger of acknowledged edits, outside of all files under test.
private actor KillYard {
    private static let schema = """
        CREATE TABLE board (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
        CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, label TEXT NOT NULL);
        CREATE TABLE lines (id INTEGER PRIMARY KEY AUTOINCREMENT,
            note_id INTEGER NOT NULL REFERENCES notes ON DELETE CASCADE, label TEXT NOT NULL);
        CREATE INDEX lines_note ON lines (note_id);
        INSERT INTO board VALUES (1, '');
        """

    private let workshop: Workshop
    private var server: Server
    private let url: String
    private let devices = ["1.sqlite", "2.sqlite", "3.sqlite"]
    private var watchers: [Program] = []
    private var writers: [Writer] = []
    private var random: SeededGenerator
    private var killed = ["server": 0, "syncing devices": 0, "editing programs": 0]

    init(seed: UInt64) async throws {
        random = SeededGenerator(seed: seed)
        workshop = try Workshop()
        try await workshop.sqlite3("zone.sqlite", Self.schema)
        server = try await workshop.serve("zone.sqlite", lasting: .seconds(100_000))
        url = server.url
        for (index, device) in devices.enumerated() {
            try await workshop.join(server, device)
            watchers.append(try Self.watch(device, workshop))
            writers.append(try Writer(index + 1, device, workshop, seed: random.next()))
        }
    }

    private static func watch(_ device: String, _ workshop: Workshop) throws -> Program {
        try workshop.startTidemark(
            ["device", "sync", workshop.path(device), "--watch", "--every", "0.02"], within: .seconds(100_000))
    }

    // MARK: Killing

    /// Kills processes one after another while all edit and sync.
    func kill(_ count: Int) async throws {
        let step = max(count / 5, 1)
        for number in 1...count {
            // The kill falls somewhere among the edits that all three make now.
            let moment = Int.random(in: 0...8, using: &random)
            let (edits, edited) = AsyncStream.makeStream(of: Void.self)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in writers {
                    group.addTask {
                        for _ in 0..<4 {
                            try await writer.edit()
                            edited.yield()
                        }
                    }
                }
                var remaining = moment
                if remaining > 0 {
                    for await _ in edits {
                        remaining -= 1
                        if remaining == 0 { break }
                    }
                }
                try await killOne()
                try await group.waitForAll()
            }
            if number.isMultiple(of: step) {
                Report.line("  \(number) of \(count) kills: \(tally), \(ledger.acknowledged) edits")
            }
        }
    }

    private func killOne() async throws {
        let index = Int.random(in: 0..<devices.count, using: &random)
        switch Int.random(in: 0..<6, using: &random) {
        case 0, 1:
            killed["server", default: 0] += 1
            try await server.program.killed()
            server = try await workshop.serve("zone.sqlite", port: server.port, lasting: .seconds(100_000))
        case 2:
            killed["editing programs", default: 0] += 1
            await writers[index].kill()
        default:
            let watcher = watchers[index]
            if watcher.isFinished {
                let result = try await watcher.finished()
                Issue.record("a syncing device gave up: \(result.output.suffix(300))\(result.errors.suffix(600))")
            }
            killed["syncing devices", default: 0] += 1
            try await watcher.killed()
            watchers[index] = try Self.watch(devices[index], workshop)
        }
    }

    private var tally: String {
        killed.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
    }

    private var ledger: Ledger { writers.reduce(into: Ledger()) { $0.add($1.ledger) } }

    // MARK: The end

    /// All devices sync without faults; refused edits are retried until no outbox has entries.
    func settle() async throws {
        for watcher in watchers { try await watcher.killed() }
        for writer in writers { try await writer.finish() }
        var retried = 0
        for _ in 0..<2 {
            for device in devices {
                let synced = try await workshop.tidemark("device", "sync", workshop.path(device))
                #expect([0, 3].contains(synced.status), "\(device): \(synced.errors)")
                let file = workshop.path(device)
                // A decision can change what the next conflict shows of the same record.
                while let conflict = try await firstConflict(of: file) {
                    retried += 1
                    let number = try #require(conflict["number"] as? Int)
                    let seen = try #require(conflict["seen"] as? String)
                    let words = ["device", "resolve", file, "\(number)", "--retry", "--seen", seen]
                    let resolved = try await workshop.startTidemark(words).finished()
                    try #require(resolved.status == 0, "\(device): \(resolved.errors)")
                }
                try await workshop.sync(device)
            }
        }
        Report.line("  \(retried) refused change sets retried")
    }

    private func firstConflict(of file: String) async throws -> [String: Any]? {
        let listed = try await workshop.tidemark("device", "conflicts", file, "--json")
        let list = try JSONSerialization.jsonObject(with: Data(listed.output.utf8))
        return try #require(list as? [[String: Any]]).first
    }

    /// Compares the ledger with the server, and all files with each other.
    func check() async throws {
        let served = try await workshop.sqlite3("zone.sqlite", "SELECT label FROM notes").split(separator: "\n").map(
            String.init)
        let counts = served.reduce(into: [String: Int]()) { $0[$1, default: 0] += 1 }
        let ledger = ledger
        let lost = ledger.existing.filter { counts[$0] == nil }
        let resurrected = ledger.deleted.filter { counts[$0] != nil }
        let duplicates = counts.filter { $0.value > 1 }.keys
        let unexpected = counts.keys.filter { !ledger.existing.contains($0) && !ledger.unknown.contains($0) }
        #expect(lost.isEmpty, "acknowledged and lost")
        #expect(resurrected.isEmpty, "deleted and restored")
        #expect(duplicates.isEmpty, "applied twice")
        #expect(unexpected.isEmpty, "never written")
        let halves = try await workshop.sqlite3(
            "zone.sqlite",
            """
            SELECT label FROM notes AS n WHERE 1 <> (
                SELECT count(*) FROM lines AS l WHERE l.note_id = n.id AND l.label = n.label)
            """
        )
        #expect(halves == "", "a transaction was split")
        let gap = "SELECT max(revision) - min(revision) + 1 - count(*) FROM tidemark_revision"
        #expect(try await workshop.sqlite3("zone.sqlite", gap) == "0", "revisions are dense")
        for device in devices {
            let waiting = try await workshop.sqlite3(device, "SELECT count(*) FROM tidemark_changeset")
            #expect(waiting == "0", "\(device)")
        }
        try await workshop.expectEqual(server, "zone.sqlite", "1.sqlite", "2.sqlite", "3.sqlite")
        Report.line(
            """
            \(killed.values.reduce(0, +)) kills (\(tally)): \(ledger.acknowledged) edits acknowledged, \
            \(lost.count + resurrected.count) lost, \(duplicates.count) doubled; \(ledger.unknown.count) cut off, \
            \(ledger.unknown.filter { counts[$0] != nil }.count) were complete; all files equal and sound
            """
        )
        try await server.stopped()
    }
}

/// The transactions that the editing programs reported as committed.
private struct Ledger {
    /// The labels of notes that exist.
    var existing: Set<String> = []
    /// The labels of notes that were deleted.
    var deleted: Set<String> = []
    /// The labels of notes that were being written or deleted at the kill.
    var unknown: Set<String> = []
    /// The number of acknowledged transactions.
    var acknowledged = 0

    mutating func add(_ other: Ledger) {
        existing.formUnion(other.existing)
        deleted.formUnion(other.deleted)
        unknown.formUnion(other.unknown)
        acknowledged += other.acknowledged
    }
}

/// A `sqlite3` shell that edits a device's file, and restarts after a kill.
private final class Writer: Sendable {
    private struct State {
        var shell: Program
        var ledger = Ledger()
        var random: SeededGenerator
        var count = 0
    }

    private let number: Int
    private let file: String
    private let workshop: Workshop
    private let state: Mutex<State>

    var ledger: Ledger { state.withLock { $0.ledger } }

    init(_ number: Int, _ file: String, _ workshop: Workshop, seed: UInt64) throws {
        self.number = number
        self.file = file
        self.workshop = workshop
        let shell = try Self.shell(file, workshop)
        state = Mutex(State(shell: shell, random: SeededGenerator(seed: seed)))
    }

    private static func shell(_ file: String, _ workshop: Workshop) throws -> Program {
        // Ends at the first error, so that no failed transaction is acknowledged.
        try workshop.start(
            "sqlite3", ["-bail", "-cmd", ".timeout 60000", "-cmd", "PRAGMA foreign_keys = ON", workshop.path(file)],
            within: .seconds(100_000))
    }

    /// One transaction, and its entry in the ledger.
    func edit() async throws {
        let (shell, label, isDeletion, sql) = state.withLock { state in
            state.count += 1
            let isDeletion = state.ledger.existing.count > 40 || state.count.isMultiple(of: 5)
            if isDeletion, let label = state.ledger.existing.sorted().randomElement(using: &state.random) {
                let sql = "DELETE FROM notes WHERE label = '\(label)'; SELECT 'done ' || changes();"
                return (state.shell, label, true, sql)
            }
            let label = "\(number)-\(state.count)"
            // Some shells edit the same rows, and get conflicts.
            let board = Int.random(in: 0..<6, using: &state.random) == 0 ? "UPDATE board SET text = '\(label)';" : ""
            let sql = """
                BEGIN IMMEDIATE; INSERT INTO notes (label) VALUES ('\(label)'); \
                INSERT INTO lines (note_id, label) VALUES (last_insert_rowid(), '\(label)'); \
                \(board) COMMIT; SELECT 'done 1';
                """
            return (state.shell, label, false, sql)
        }
        do {
            try shell.send(sql)
            let isThere = try await shell.line(with: "done ").hasSuffix("1")
            state.withLock { $0.ledger.note(label, isDeletion: isDeletion, isThere: isThere) }
        } catch {
            // Killed: the transaction was committed or was not.
            let result = try await shell.finished()
            if result.status != 128 + SIGKILL { Issue.record("sqlite3 failed: \(result.errors)") }
            let next = try Self.shell(file, workshop)
            state.withLock { state in
                state.shell = next
                state.ledger.existing.remove(label)
                state.ledger.unknown.insert(label)
            }
        }
    }

    func kill() async { state.withLock { $0.shell }.signalled(SIGKILL) }

    func finish() async throws { try await state.withLock { $0.shell }.finished() }
}

extension Ledger {
    fileprivate mutating func note(_ label: String, isDeletion: Bool, isThere: Bool) {
        acknowledged += 1
        switch (isDeletion, isThere) {
        case (false, _): existing.insert(label)
        case (true, true):
            existing.remove(label)
            deleted.insert(label)
        // Its note is hidden in a conflict, and is retried later.
        case (true, false): break
        }
    }
}
