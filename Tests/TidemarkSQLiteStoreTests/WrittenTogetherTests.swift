import Foundation
import GRDB
import Synchronization
import Testing
import TidemarkCore
import TidemarkServer
import TidemarkSQLite
import TidemarkSQLiteStore
import TidemarkStore

/// What a group costs: that its answers are right is GroupPlanTests' to say.
@Suite struct WrittenTogetherTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team, name TEXT);
        INSERT INTO team VALUES (1, 'Kiel');
        INSERT INTO player VALUES (1, 1, 'Anna');
        """

    /// Requests of as many devices, each with a new team and its player.
    private static func group(_ count: Int) -> [ZoneRequest] {
        (1...count).map { number in
            let set =
                #"{"id":"\#(UUID())","team":{"create":[-1],"attributes":{"-1":{"name":"t"}}},"#
                + #""player":{"create":[-1],"attributes":{"-1":{"team_id":-1,"name":"p"}}}}"#
            let body = #"{"maxRevision":1,"device":"\#(number)","changeSets":[\#(set)]}"#
            return ZoneRequest(.sync, body: Array(body.utf8))
        }
    }

    /// How many statements a group takes; nil when it was not written together.
    private static func statements(_ group: [ZoneRequest], besides sql: String = "") async throws
        -> Int?
    {
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
            let answers = try GroupHandler().handle(group, planning: transaction)
            db.trace(options: [])
            guard let answers else { return nil }
            #expect(answers.count == group.count)
            for answer in answers { _ = try answer.get() }
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM team") == group.count + 1)
            return count.withLock { $0 }
        }
    }

    @Test func `A9: a change set more costs a group but what its own books take`() async throws {
        let few = try #require(try await Self.statements(Self.group(10)))
        let many = try #require(try await Self.statements(Self.group(60)))
        // By itself one takes some sixty.
        #expect(many - few <= 50 * 8, "\(few) statements for 10, \(many) for 60")
    }

    @Test func `nothing is written together where an app's trigger acts on it`() async throws {
        let trigger = """
            CREATE TRIGGER touch AFTER INSERT ON team BEGIN
                UPDATE player SET name = NEW.name WHERE id = 1; END;
            """
        #expect(try await Self.statements(Self.group(10), besides: trigger) == nil)
    }
}
