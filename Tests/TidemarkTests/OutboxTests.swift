import GRDB
import Testing
import TidemarkCore
import TidemarkSQL
import TidemarkTestSupport

@testable import Tidemark

/// What waits on a device, in a file in which something is wrong, or much waits.
@Suite struct OutboxTests {
    private static func device() async throws -> (cluster: Cluster, anna: TestDevice) {
        let cluster = try Cluster(
            schema: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)", seed: "INSERT INTO note VALUES (1, 'milk')"
        )
        return (cluster, try await cluster.device("anna"))
    }

    @Test func `an unsent record of a table that the zone has dropped keeps its id, which another one had before`()
        async throws
    {
        let (_, anna) = try await Self.device()
        try await anna.database.write { db in
            try db.execute(
                sql: """
                    INSERT INTO tidemark_changeset (id, time, epoch) SELECT 'a', 1, epoch FROM tidemark_device;
                    INSERT INTO tidemark_outbox (seq, tbl, key, operation, attributes, base)
                    SELECT seq, 'gone', '-5', 'create', '{"a":1}', 1 FROM tidemark_changeset;
                    INSERT INTO tidemark_outbox (seq, tbl, key, operation, before, attributes, base)
                    SELECT seq, 'gone', '0', 'update', '{"a":1}', '{"a":2}', 1 FROM tidemark_changeset;
                    INSERT INTO tidemark_idmap VALUES ('gone', -5, 321)
                    """)
            let schema = try DeviceFile(db).schema
            try EngineConnection.prepare(db, schema: schema)
            try ReplaceReusedIDs(db: db, schema: schema).run()
        }
        #expect(
            try await anna.rows("SELECT key, operation FROM tidemark_outbox ORDER BY key") == ["-5|create", "0|update"])
    }

    @Test func `a batch of change sets is found by their numbers, however many records of its tables wait`()
        async throws
    {
        let (_, anna) = try await Self.device()
        let plan = try await anna.database.read { db in
            let schema = try DeviceFile(db).schema
            let sql = OutboxRecords(schema: schema).sql(schema.tables[0])
            return try Row.fetchAll(db, sql: "EXPLAIN QUERY PLAN \(sql)", arguments: [1, 2]).map {
                $0["detail"] as String
            }
        }
        #expect(plan.contains { $0.contains("PRIMARY KEY (seq>? AND seq<?)") }, "\(plan)")
    }

    @Test func `a damaged page has bytes in an edit that are no text: nothing is sent in its place`() async throws {
        let (cluster, anna) = try await Self.device()
        try await anna.write("INSERT INTO note (text) VALUES ('bread')")
        _ = try await anna.engine.takeOutsideCommits()
        try await anna.database.write { db in
            try db.execute(
                sql: "UPDATE tidemark_outbox SET attributes = CAST(x'7B2274657874223A22FF227D' AS TEXT)")
            #expect(db.changesCount == 1)
        }
        await #expect { try await anna.engine.sync() } throws: { ($0 as? TidemarkError)?.code == .fileDamaged }
        #expect(try await cluster.rows("SELECT text FROM note") == ["milk"])
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_outbox") == ["1"])
    }
}
