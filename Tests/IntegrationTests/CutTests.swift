import Foundation
import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

extension IntegrationTests {
    /// Rule 28: the connection breaks at every byte of a request and of its answer, plain and
    /// compressed.
    ///
    /// The device syncs again, and every edit has taken effect once.
    ///
    /// Uses a real server process, real HTTP and a real file. Each cut has values of its own, so
    /// that its effect is identifiable.
    @Suite struct CutTests {
        @Test(arguments: [Exchange.changes, .catchUp], [false, true])
        func `rules 2 3 6 13, cases 20 21: an exchange cut at any byte takes effect exactly once`(
            exchange: Exchange, isCompressed: Bool
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
    /// A change of another device, and a conflict with it.
    case catchUp

    var description: String { self == .changes ? "a change set" : "a catch-up with a conflict" }
}

/// A device, a server, and two connections: one that breaks, and one that does not.
private final class CutBench: Sendable {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
        CREATE TABLE player (id INTEGER PRIMARY KEY AUTOINCREMENT,
            team_id INTEGER REFERENCES team, name TEXT NOT NULL, goals INTEGER NOT NULL DEFAULT 0);
        INSERT INTO team (name) VALUES ('Kiel');
        INSERT INTO player (team_id, name) VALUES (1, 'Anna'), (1, 'Ben');
        """

    /// The distance between two cuts in bytes.
    private static let stride = Effort.count("TIDEMARK_CUT_STRIDE", short: 7, long: 3)

    private let link: BrokenLink
    private let zone: DatabaseQueue
    private let exchange: Exchange
    private let padding: String
    private let counter = Counter()

    /// The number of exchanges, each completed once.
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
    /// After each cut the same exchange is tried again: seven in eight are cut one byte later, the
    /// eighth is not cut.
    func cutEveryByte(_ direction: RelayPlan.Direction) async throws -> Int {
        var bytes = 0
        var whole = 0
        // Exchanges differ by a few bytes in length, so one success does not end the loop.
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
        /// The fault took effect.
        case cut
        /// The exchange had already ended.
        case whole
        /// The request used the connection of an earlier exchange, which was closed.
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
        // The next exchange uses a new connection, also after a success.
        link.relay.hangUp()
        return failed ? .stale : .whole
    }

    /// After a cut the device is unchanged, and the server has all of the exchange, once, or
    /// nothing.
    private func checkCut(_ before: State, _ number: Int, _ name: String) async throws {
        let after = try await state()
        var expected = self.expectedState(after: before)
        expected.conflicts = before.conflicts
        if after != before, after != expected { Issue.record("\(name): \(after), not \(expected)") }
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

    /// The compared state: revisions, rows, temporary ids, outbox, conflicts, the last goals.
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

    /// The effect of one exchange.
    private func expectedState(after before: State) -> State {
        var expected = before
        expected.revision += 1
        if exchange == .changes {
            expected.teams = before.teams + 1
            expected.players = before.players + 1
        } else {
            expected.conflicts += 1
        }
        return expected
    }

    private func check(_ before: State, _ number: Int, _ name: String) async throws {
        let expected = expectedState(after: before)
        let after = try await state()
        if after != expected { Issue.record("\(name): \(after), not \(expected)") }
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

/// An increasing number.
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
