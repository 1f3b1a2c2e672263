import Foundation
import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

extension IntegrationTests {
    /// Rule 28: the connection breaks in every byte of a request and of its answer, plain and
    /// compressed.
    ///
    /// The device syncs again, and everything has happened once.
    ///
    /// A real server process, real HTTP, a real file; each cut has values of its own, so that what
    /// it did can be told apart.
    @Suite struct CutTests {
        @Test(arguments: [Exchange.changes, .catchUp], [false, true])
        func `rules 2 3 6 13, cases 20 21: cut in any byte, an exchange takes effect exactly once`(
            exchange: Exchange,
            isCompressed: Bool
        ) async throws {
            let bench = try await CutBench(exchange, padding: isCompressed ? 1_100 : 0)
            var counts: [Int] = []
            for direction in [RelayPlan.Direction.up, .down] { counts.append(try await bench.cutEveryByte(direction)) }
            try await bench.finish()
            Report.line(
                """
                \(exchange), \(isCompressed ? "gzip" : "plain"): cut at any of \(counts[0]) bytes of the request \
                and \(counts[1]) of the answer; \(bench.exchanges) exchanges, each exactly once
                """
            )
        }
    }
}

/// The two canonical exchanges.
enum Exchange: String, CustomStringConvertible {
    /// A change set: a team under a temporary id, a player in it, an update.
    case changes
    /// News of another device, and a conflict with them.
    case catchUp

    var description: String { self == .changes ? "a change set" : "a catch-up with a conflict" }
}

/// A device, a server, and two ways between them: one that breaks, and one that does not.
private final class CutBench: Sendable {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
        CREATE TABLE player (id INTEGER PRIMARY KEY AUTOINCREMENT,
            team_id INTEGER REFERENCES team, name TEXT NOT NULL, goals INTEGER NOT NULL DEFAULT 0);
        INSERT INTO team (name) VALUES ('Kiel');
        INSERT INTO player (team_id, name) VALUES (1, 'Anna'), (1, 'Ben');
        """

    /// How many bytes later the next cut is.
    private static let stride = Effort.count("TIDEMARK_CUT_STRIDE", short: 7, long: 1)

    private let link: BrokenLink
    private let zone: DatabaseQueue
    private let exchange: Exchange
    private let padding: String
    private let counter = Counter()

    /// How many exchanges there were, each completed once.
    var exchanges: Int { counter.value }

    init(_ exchange: Exchange, padding: Int) async throws {
        self.exchange = exchange
        self.padding = String(repeating: "x", count: padding)
        link = try await BrokenLink(schema: Self.schema)
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        let path = link.workshop.path("zone.sqlite")
        zone = try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Cuts at 0, 1, 2 and so on bytes, until exchanges come through whole; returns how many cuts
    /// there were.
    ///
    /// Each cut is followed by another attempt at the same exchange: seven in eight are cut one
    /// byte later, the eighth is left alone.
    func cutEveryByte(_ direction: RelayPlan.Direction) async throws -> Int {
        var bytes = 0
        var whole = 0
        // Exchanges differ by a few bytes in length, so one that comes through is not the end yet.
        while whole < 12 {
            let number = counter.next()
            let before = try await state()
            try await edit(number)
            var outcome = Outcome.cut
            for _ in 0..<8 where outcome == .cut {
                let ending: RelayPlan.Ending = bytes.isMultiple(of: 2) ? .close : .reset
                let fault = RelayPlan.Fault.cut(direction, after: bytes, ending)
                outcome = try await attempt(fault)
                if outcome == .cut { try await checkCut(before, number, "\(exchange), \(fault)") }
                if outcome != .stale {
                    whole = outcome == .cut ? 0 : whole + 1
                    bytes = bytes + Self.stride
                }
            }
            try await link.whole.sync()
            try await check(before, number, "\(exchange), \(direction), \(bytes)")
        }
        return bytes - whole * Self.stride
    }

    private enum Outcome {
        /// The fault happened.
        case cut
        /// The exchange was over before.
        case whole
        /// A connection of an earlier exchange was used, and was gone.
        case stale
    }

    /// One exchange that meets a fault.
    private func attempt(_ fault: RelayPlan.Fault) async throws -> Outcome {
        let faults = link.relay.traffic.faults
        link.relay.follow(RelayPlan([fault]))
        var failed = false
        do { try await link.broken.sync() } catch let error as TidemarkError {
            if error.recovery != .retry { Issue.record("\(fault): \(error)") }
            failed = true
        }
        if link.relay.traffic.faults > faults { return failed ? .cut : .whole }
        // The next connection is a new one, also when this one came through.
        link.relay.hangUp()
        return failed ? .stale : .whole
    }

    /// After a cut the device is as it was, and the server has all of it, once, or nothing.
    private func checkCut(_ before: State, _ number: Int, _ name: String) async throws {
        let after = try await state()
        var wanted = self.wanted(after: before)
        wanted.conflicts = before.conflicts
        if after != before, after != wanted { Issue.record("\(name): \(after), not \(wanted)") }
        let waiting = try await link.device.read {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM tidemark_changeset")
        }
        if waiting != 1 { Issue.record("\(name): \(waiting ?? -1) change sets wait") }
    }

    private func edit(_ number: Int) async throws {
        let padding = padding
        switch exchange {
        case .changes:
            try await link.device.write { db in
                try db.execute(
                    sql: """
                        INSERT INTO team (name) VALUES ('t\(number)\(padding)');
                        INSERT INTO player (team_id, name) VALUES (last_insert_rowid(), 'p\(number)');
                        UPDATE player SET goals = \(number) WHERE id = 1
                        """
                )
            }
        case .catchUp:
            try await zone.write { db in try db.execute(sql: "UPDATE player SET goals = \(number) WHERE id = 2") }
            try await link.device.write { db in
                try db.execute(sql: "UPDATE player SET name = 'p\(number)\(padding)' WHERE id = 2")
            }
        }
    }

    /// What counts: revisions, rows, temporary ids, what waits, conflicts, the last goals.
    private struct State: Equatable {
        var revision: Int64
        var teams: Int
        var players: Int
        var conflicts: Int
    }

    private func state() async throws -> State {
        let (revision, teams, players) = try await zone.read { db in
            (
                try Int64.fetchOne(db, sql: "SELECT revision FROM tidemark_zone") ?? 0,
                try Int.fetchOne(db, sql: "SELECT count(*) FROM team") ?? 0,
                try Int.fetchOne(db, sql: "SELECT count(*) FROM player") ?? 0
            )
        }
        let conflicts = try await link.device.read {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM tidemark_conflict") ?? 0
        }
        return State(revision: revision, teams: teams, players: players, conflicts: conflicts)
    }

    /// What one exchange adds.
    private func wanted(after before: State) -> State {
        var wanted = before
        wanted.revision += 1
        if exchange == .changes {
            wanted.teams = before.teams + 1
            wanted.players = before.players + 1
        } else {
            wanted.conflicts += 1
        }
        return wanted
    }

    private func check(_ before: State, _ number: Int, _ name: String) async throws {
        let wanted = wanted(after: before)
        let after = try await state()
        if after != wanted { Issue.record("\(name): \(after), not \(wanted)") }
        let goals = "SELECT goals FROM player WHERE id = \(exchange == .changes ? 1 : 2)"
        let last = "SELECT max(id), max(id) < 4503599627370496 FROM team"
        let rows =
            try await [zone.read { try Self.row($0, goals, last) }] + [
                link.device.read { try Self.row($0, goals, last) }
            ]
        if rows[0] != rows[1] || rows[0].first != "\(number)" || rows[0].last != "1" {
            Issue.record("\(name): \(rows)")
        }
        let waiting = try await link.device.read {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM tidemark_changeset")
        }
        if waiting != 0 { Issue.record("\(name): \(waiting ?? -1) change sets wait") }
    }

    private static func row(_ db: Database, _ queries: String...) throws -> [String] {
        try queries.flatMap { query in
            try Row.fetchOne(db, sql: query).map { Array($0.databaseValues.map(\.description)) } ?? []
        }
    }

    /// Compares the files as a whole.
    func finish() async throws {
        try zone.close()
        try await link.finish()
    }
}

/// A number that goes up.
private final class Counter: Sendable {
    private let count = Mutex(0)
    var value: Int { count.withLock { $0 } }
    func next() -> Int {
        count.withLock {
            $0 += 1;
            return $0
        }
    }
}
