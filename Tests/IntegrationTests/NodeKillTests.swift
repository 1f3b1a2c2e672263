import Foundation
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

extension IntegrationTests {
    /// Rule 38: two nodes on one PostgreSQL; nodes, backends and the whole database are killed at
    /// any moment, under load.
    ///
    /// `make node-kills KILLS=5000` kills more often.
    @Suite struct NodeKillTests {
        private static let environment = ProcessInfo.processInfo.environment
        private static let kills = Effort.count("TIDEMARK_NODE_KILLS", short: 8, long: 50)
        private static let seed = UInt64(environment["TIDEMARK_KILL_SEED"] ?? "") ?? 7

        @Test func `rules 2 3 4 6, A9: kills of nodes and of PostgreSQL lose and double nothing`() async throws {
            let yard = try await NodeYard(seed: Self.seed)
            try await yard.kill(Self.kills)
            try await yard.check()
            try await yard.close()
        }
    }
}

/// Two servers on one PostgreSQL, clients that push to either, another program that writes into
/// the tables, and a task that kills them.
private actor NodeYard {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, label TEXT NOT NULL UNIQUE);
        CREATE TABLE lines (id INTEGER PRIMARY KEY,
            note_id INTEGER NOT NULL REFERENCES notes ON DELETE CASCADE, label TEXT NOT NULL);
        """

    private let workshop: Workshop
    private let database: String
    private var nodes: [Server] = []
    private let clients: [Client]
    private var random: SeededGenerator
    private var killed = ["nodes": 0, "backends": 0, "databases": 0]

    init(seed: UInt64) async throws {
        random = SeededGenerator(seed: seed)
        workshop = try Workshop()
        try workshop.write(Self.schema, to: "schema.sql")
        database = try await Self.postgres("start", workshop)
        for _ in 0..<2 { nodes.append(try await Self.serve(workshop, database)) }
        let ports = nodes.map(\.port)
        clients = try (1...3).map { try Client($0, ports, seed: seed &+ UInt64($0)) }
    }

    private static func postgres(_ verb: String, _ workshop: Workshop) async throws -> String {
        let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Scripts/postgres.sh")
            .standardized.path
        let result = try await workshop.run("bash", script, verb, workshop.path("postgres"))
        try #require(result.status == 0, "\(result.errors)")
        return result.output.trimmingCharacters(in: .newlines)
    }

    private static func serve(_ workshop: Workshop, _ database: String, port: Int = 0) async throws -> Server {
        try await workshop.serve(
            ["serve", "--store", database, "--schema", workshop.path("schema.sql"), "--listen", "127.0.0.1:\(port)"],
            lasting: .seconds(100_000))
    }

    private func psql(_ sql: String) async throws -> String {
        let result = try await workshop.run("psql", "-qAtX", database, "-c", sql)
        try #require(result.status == 0, "\(result.errors)")
        return result.output.trimmingCharacters(in: .newlines)
    }

    // MARK: Killing

    func kill(_ count: Int) async throws {
        let step = max(count / 5, 1)
        for number in 1...count {
            let moment = Int.random(in: 0...10, using: &random)
            let (pushes, pushed) = AsyncStream.makeStream(of: Void.self)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for client in clients {
                    group.addTask {
                        for _ in 0..<6 {
                            try await client.push()
                            pushed.yield()
                        }
                    }
                }
                var remaining = moment
                if remaining > 0 {
                    for await _ in pushes {
                        remaining -= 1
                        if remaining == 0 { break }
                    }
                }
                try await killOne()
                try await group.waitForAll()
            }
            if number.isMultiple(of: step) { Report.line("  \(number) of \(count): \(tally)") }
        }
    }

    private func killOne() async throws {
        switch Int.random(in: 0..<5, using: &random) {
        case 0, 1:
            killed["nodes", default: 0] += 1
            let index = Int.random(in: 0..<nodes.count, using: &random)
            try await nodes[index].program.killed()
            nodes[index] = try await Self.serve(workshop, database, port: nodes[index].port)
        case 2:
            killed["databases", default: 0] += 1
            _ = try await Self.postgres("crash", workshop)
        default:
            killed["backends", default: 0] += 1
            _ = try await psql(
                """
                SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE application_name = 'tidemark'
                """
            )
        }
    }

    private var tally: String {
        let ends = killed.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }
        return ends.joined(separator: ", ")
    }

    // MARK: The end

    func check() async throws {
        let acknowledged = clients.flatMap(\.acknowledged).sorted()
        let labels = try await psql("SELECT label FROM notes ORDER BY label COLLATE \"C\"").split(separator: "\n").map(
            String.init)
        #expect(labels == acknowledged, "acknowledged and lost, or applied twice")
        Report.line("  \(acknowledged.count) change sets, \(clients.map(\.retries).reduce(0, +)) retries")
        let halves = try await psql(
            """
            SELECT label FROM notes AS n WHERE 1 <> (
                SELECT count(*) FROM lines AS l WHERE l.note_id = n.id AND l.label = n.label)
            """
        )
        #expect(halves == "", "a transaction was split")
        let dense = try await psql("SELECT count(*) = max(revision) AND min(revision) = 1 FROM tidemark.revision")
        #expect(dense == "t", "revisions are dense")
        #expect(try await psql("SELECT count(*) FROM tidemark.capture") == "0")
        // A device that joins now, at either node, has exactly these rows.
        for (index, node) in nodes.enumerated() {
            try await workshop.join(node, "\(index).sqlite")
            #expect(try await workshop.digest("\(index).sqlite") == workshop.digest(node.url))
        }
    }

    func close() async throws {
        for node in nodes { try await node.stopped() }
        _ = try await workshop.run(
            "bash",
            URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Scripts/postgres.sh")
                .standardized.path, "stop", workshop.path("postgres"))
    }
}

/// Pushes change sets one after another, each until it has its answer, to either node in turn.
private final class Client: Sendable {
    private struct State {
        var acknowledged: [String] = []
        var retries = 0
        var random: SeededGenerator
    }

    private let number: Int
    private let transports: [HTTPTransport]
    private let state: Mutex<State>

    init(_ number: Int, _ ports: [Int], seed: UInt64) throws {
        self.number = number
        transports = try ports.map { try HTTPTransport(url: "http://127.0.0.1:\($0)") }
        state = Mutex(State(random: SeededGenerator(seed: seed)))
    }

    var acknowledged: [String] { state.withLock(\.acknowledged) }
    var retries: Int { state.withLock(\.retries) }

    /// - Throws: Permanent errors.
    func push() async throws {
        let (count, high, low) = state.withLock { state in
            (state.acknowledged.count, state.random.next(), state.random.next())
        }
        let label = "\(number).\(count)"
        let id = UUID(uuid: withUnsafeBytes(of: (high, low)) { $0.loadUnaligned(as: uuid_t.self) }).uuidString
            .lowercased()
        let body = Array(
            """
            {"maxRevision":0,"limit":1,"changeSets":[{"id":"\(id)",
            "notes":{"create":[-1],"attributes":{"-1":{"label":"\(label)"}}},
            "lines":{"create":[-2],"attributes":{"-2":{"note_id":-1,"label":"\(label)"}}}}]}
            """.utf8
        )
        while true {
            let transport = state.withLock { state in
                transports[Int.random(in: 0..<transports.count, using: &state.random)]
            }
            do {
                let answer = String(decoding: try await transport.sync(zone: "main", body: body), as: UTF8.self)
                try #require(!answer.contains("\"conflict\":true"), "\(answer)")
                return state.withLock { $0.acknowledged.append(label) }
            } catch let error as TidemarkError where error.recovery == .retry {
                state.withLock { $0.retries += 1 }
                await Task.yield()
            }
        }
    }
}
