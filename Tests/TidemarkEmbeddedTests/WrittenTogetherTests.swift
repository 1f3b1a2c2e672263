import Foundation
import GRDB
import Synchronization
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkEmbedded

/// The cost of a group in statements; `GroupPlanTests` check its answers.
@Suite struct WrittenTogetherTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team, name TEXT);
        INSERT INTO team VALUES (1, 'Kiel');
        INSERT INTO player VALUES (1, 1, 'Anna');
        """

    /// Requests of several devices, each with a new team and its player.
    private static func group(_ count: Int, more: String = "") -> [ZoneRequest] {
        (1...count).map { number in
            let set =
                #"{"id":"\#(UUID())","team":{"create":[-1],"attributes":{"-1":{"name":"t"}}},"#
                + #""player":{"create":[-1],"attributes":{"-1":{"team_id":-1,"name":"p"}}}}"#
            let body = #"{"maxRevision":1,"device":"\#(number)","changeSets":[\#(set)]\#(more)}"#
            return ZoneRequest(.sync(Array(body.utf8)), access: .local("main"))
        }
    }

    /// A group's answers, and the number of statements.
    private static func answers(_ group: [ZoneRequest], besides sql: String = "") async throws -> (
        answers: [ZoneAnswer], statements: Int
    ) {
        let path = try TestZone.newFolder().appending(path: "zone.sqlite").path
        try await DatabaseQueue(path: path).write { try $0.execute(sql: schema + sql) }
        let store = try EmbeddedStore(path: path, newEpoch: UUID())
        let tables = store.schema
        try await store.close()
        return try await DatabaseQueue(path: path).write { db in
            try EngineConnection.prepare(db, schema: tables)
            let transaction = try ZoneTransaction(db, schema: tables, now: 1_000)
            let count = Mutex(0)
            db.trace { event in
                guard !"\(event)".hasPrefix("--") else { return }
                count.withLock { $0 += 1 }
            }
            let answers = try CommitGroup().handle(group, at: transaction.now, in: transaction).results
            db.trace(options: [])
            return (try answers.map { try $0.get() }, count.withLock { $0 })
        }
    }

    /// The number of statements for a group of this many requests.
    private static func statements(_ count: Int) async throws -> Int {
        let (answers, statements) = try await answers(group(count))
        #expect(answers.count == count)
        return statements
    }

    @Test func `A9: group commit: each further change set of two records costs at most 16 statements`() async throws {
        let few = try await Self.statements(10)
        let many = try await Self.statements(60)
        // A statement of one process costs some microseconds.
        #expect(many - few <= 50 * 16, "\(few) statements for 10, \(many) for 60")
    }

    @Test func `A9: devices that ask for ids with their first change sets are written together`() async throws {
        let group = Self.group(10, more: #","lend":["team","player"]"#)
        let answers = try await Self.answers(group).answers
        let lent = try answers.map { answer in
            try #require(String(decoding: answer.text, as: UTF8.self).firstMatch(of: /"lent":\{.*?\}/)?.output)
        }
        #expect(Set(lent).count == 10)
    }

    /// The answers of a zone with rows changed behind the triggers.
    private static func answersAfterCorruption(
        _ handle: @escaping @Sendable (ZoneTransaction) throws -> [Result<ZoneAnswer, any Error>]
    )
        async throws -> [String]
    {
        let path = try TestZone.newFolder().appending(path: "zone.sqlite").path
        try await DatabaseQueue(path: path).write { try $0.execute(sql: schema) }
        let epoch = try #require(UUID(uuidString: "6f6d3a4e-0000-4000-8000-000000000000"))
        let store = try EmbeddedStore(path: path, newEpoch: epoch)
        let tables = store.schema
        try await store.close()
        return try await DatabaseQueue(path: path).write { db in
            try EngineConnection.prepare(db, schema: tables)
            let transaction = try ZoneTransaction(db, schema: tables, now: 1_000)
            _ = try transaction.fingerprint(at: transaction.head().state.revision)
            try db.execute(
                sql: """
                    UPDATE tidemark_state SET applying = 1;
                    UPDATE player SET name = 'behind';
                    UPDATE tidemark_state SET applying = 0;
                    """
            )
            return try handle(transaction).map { String(decoding: try $0.get().text, as: UTF8.self) }
        }
    }

    @Test func `rule 17: writes after a recomputation update the recomputed fingerprint`() async throws {
        let set =
            #"{"id":"6f6d3a4e-0000-4000-8000-000000000001","#
            + #""team":{"update":[1],"attributes":{"1":{"name":"Ulm"}}}}"#
        let group = [
            ZoneRequest(.sync(Array(#"{"maxRevision":1,"device":"a"}"#.utf8)), access: .local("main")),
            ZoneRequest(
                .fingerprints(Array(#"{"revision":1,"recompute":true,"ranges":[]}"#.utf8)), access: .local("main")),
            ZoneRequest(
                .sync(Array(#"{"maxRevision":1,"device":"b","changeSets":[\#(set)]}"#.utf8)), access: .local("main")),
        ]
        let together = try await Self.answersAfterCorruption {
            try CommitGroup().handle(group, at: $0.now, in: $0).results
        }
        let prints = together.map { $0.components(separatedBy: #""fingerprint":""#).last?.prefix(32) }
        #expect(prints.count == 3 && Set(prints).count == 3)
    }
}
