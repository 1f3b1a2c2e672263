import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkPostgres
import TidemarkSimulation
import TidemarkTestSupport

/// Rule 38: both stores give equal bytes: the requests of devices in simulated worlds, sent to the
/// embedded store, are sent to PostgreSQL as well.
@Suite(.serialized) struct DifferentialTests {
    @Test(arguments: 1...UInt64(DifferentialTests.worlds))
    func `A9: PostgreSQL gives the embedded store's answers, byte for byte`(seed: UInt64) async throws {
        _ = try await Self.compare(seed, seed % 3 == 0 ? .crash : .network)
    }

    @Test(arguments: 1...UInt64((DifferentialTests.worlds + 1) / 2))
    func `C3 A9: during schema changes both stores give equal answers, byte for byte`(seed: UInt64) async throws {
        let entries = try await Self.compare(seed, .schema)
        let migrations = entries.filter { if case .migration = $0 { true } else { false } }
        #expect(migrations.count == 3, "in the end all have the same tables")
    }

    @Test(arguments: 1...UInt64(DifferentialTests.worlds))
    func `A9: grouped requests get the answers of serial execution`(seed: UInt64) async throws {
        _ = try await Self.compare(seed, .network, groupMax: 2 + Int(seed % 9))
    }

    /// Runs a world, and sends its requests to PostgreSQL, with consecutive ones in groups.
    private static func compare(_ seed: UInt64, _ profile: Profile, groupMax: Int = 1) async throws -> [Journal.Entry] {
        let journal = Journal()
        let report = try Simulation.run(
            .init(seed: seed, rounds: 60, profile: profile), FileTemplates(), journal: journal)
        #expect(report.finding == nil)
        let replay = try await Replay(journal)
        var number = 0
        while number < journal.entries.count {
            let group = journal.entries[number...].prefix(groupMax).prefix {
                if case .request(let request, _) = $0, case .sync = request.kind { true } else { false }
            }
            let difference =
                try await group.count > 1 ? replay.together(Array(group)) : replay.take(journal.entries[number])
            if let difference {
                Issue.record("seed \(seed), entry \(number) of \(journal.entries.count): \(difference)")
                return []
            }
            number += max(1, group.count)
        }
        #expect(!journal.entries.isEmpty)
        return journal.entries
    }

    private static let worlds = Effort.count("TIDEMARK_DIFFERENTIAL_SEEDS", short: 3, long: 12)
}

/// A PostgreSQL store that replays a journal.
private struct Replay {
    let database: TestDatabase
    let store: PostgresStore
    private let options: PostgresStore.Options

    init(_ journal: Journal) async throws {
        database = try await TestDatabase()
        var options = PostgresStore.Options(
            address: database.address, newEpoch: try #require(UUID(uuidString: Journal.epoch)))
        options.schemaSQL = Journal.schemaSQL
        options.policies = journal.policies
        options.limits = journal.limits
        options.connectionsMax = 1
        options.now = { Journal.now }
        self.options = options
        store = try await PostgresStore(options)
        try await database.dropIdentities()
    }

    /// - Returns: The difference of the answers; nil if they are equal.
    func take(_ entry: Journal.Entry) async throws -> String? {
        switch entry {
        case .request(let request, let expected):
            try await compare(request, expected) { try await store.answer(request).content }
        case .outside(let body): try await write(body)
        case .snapshot: try await settle()
        case .migration(let renames, let schemaSQL, let backfill): try await migrate(renames, schemaSQL, backfill)
        }
    }

    /// Runs requests in one transaction.
    func together(_ entries: [Journal.Entry]) async throws -> String? {
        var pairs: [(request: ZoneRequest, expected: ZoneResult)] = []
        for case .request(let request, let expected) in entries { pairs.append((request, expected)) }
        let results = try await store.commit("main", pairs.map(\.request))
        guard results.count == pairs.count else { return "\(results.count) answers" }
        for (pair, result) in zip(pairs, results) {
            let difference = try await compare(pair.request, pair.expected) { try result.get().content }
            if let difference { return difference }
        }
        return nil
    }

    /// Renames columns as psql does, and starts another node with the new tables.
    private func migrate(_ renames: [ColumnRename], _ schemaSQL: String, _ backfill: String) async throws -> String? {
        for rename in renames {
            try await database.writeOutside("ALTER TABLE \(rename.table) RENAME COLUMN \(rename.old) TO \(rename.new)")
        }
        var options = options
        options.schemaSQL = schemaSQL
        let node = try await PostgresStore(options)
        await node.close()
        try await database.dropIdentities()
        if !backfill.isEmpty { try await database.writeOutside(backfill) }
        return node.additions.isEmpty ? "nothing was made" : nil
    }

    private func settle() async throws -> String? {
        let file = try await store.snapshot(zone: "main", since: nil)
        await store.releaseSnapshot(file)
        return nil
    }

    private func compare(
        _ request: ZoneRequest, _ expected: ZoneResult, _ answer: () async throws -> ZoneAnswer.Content
    ) async throws -> String? {
        let actual: Result<ZoneAnswer.Content, any Error>
        do { actual = .success(try await answer()) } catch {
            guard Problem(refusal: error, index: nil) != nil else { throw error }
            actual = .failure(error)
        }
        let mine = Self.text(expected.map(\.content))
        let theirs = Self.text(actual)
        let sent = if case .write(let writes) = request.kind { "\(writes)" } else { Self.text(request.text) }
        return mine == theirs ? nil : "\n\(sent)\nembedded:\n\(mine)\nPostgreSQL:\n\(theirs)"
    }

    private static func text(_ answer: Result<ZoneAnswer.Content, any Error>) -> String {
        switch answer {
        case .success(.text(let bytes)): text(bytes)
        case .success(.writes(let answers)): "\(answers)"
        case .success(.news(let news)): String(describing: news)
        case .failure(let error): "\(error)"
        }
    }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    /// Repeats another program's revision in PostgreSQL.
    private func write(_ revision: String?) async throws -> String? {
        guard let revision else { return nil }
        try await OutsideTransaction(revision).run(database.connect())
        return nil
    }
}
