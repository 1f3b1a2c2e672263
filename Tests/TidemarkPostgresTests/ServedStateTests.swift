import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// The zones' settings in a served database, and damage to its log.
@Suite struct ServedStateTests {
    private static let schema = "CREATE TABLE note (id TEXT PRIMARY KEY, text TEXT, stars INTEGER)"

    private static func code(_ store: PostgresStore, at revision: Int64, creating key: String? = nil) async throws
        -> ErrorCode?
    {
        let set = key.map { #"{"note":{"create":["\#($0)"],"attributes":{"\#($0)":{"text":"t"}}}}"# }
        let body = #"{"maxRevision":\#(revision),"device":"z","changeSets":[\#(set ?? "")]}"#
        do {
            _ = try await store.sync(zone: "main", body: Array(body.utf8))
            return nil
        } catch let error as TidemarkError { return error.code }
    }

    @Test func `B8: policies are in the database, and a changed policy reaches the other nodes`() async throws {
        let cluster = try await PostgresCluster(
            schema: Self.schema, policies: ["note": .lastWriter, "note.text": .latest])
        let next = try await cluster.node { _ in }
        #expect(next.schema.policies == ["note": .lastWriter, "note.text": .latest])
        #expect(next.policyChanges.isEmpty)
        let changing = try await cluster.node { $0.policies = ["note": .reject] }
        #expect(changing.policyChanges.map(\.description) == ["policy of note: lastWriter -> reject"])
        _ = try await cluster.store.state(zone: "main")
        #expect(cluster.store.schema.policies == ["note.text": .latest])
        await next.close()
        await changing.close()
        await cluster.close()
    }

    @Test func `an exclusion of an unknown table is refused`() async throws {
        let database = try await TestDatabase()
        try await database.connect().execute("CREATE TABLE note (id text PRIMARY KEY)")
        var options = PostgresStore.Options(address: database.address, newEpoch: UUID())
        options.adopts = true
        options.excluding = ["nosuch"]
        let refusal = await #expect(throws: TidemarkError.self) { try await PostgresStore(options) }
        #expect(refusal?.code == .invalidArgument)
        #expect(refusal?.fix.contains("note") == true)
    }

    @Test(arguments: [
        "UPDATE tidemark.revision SET body = replace(body, 'b', 'x') WHERE revision = 2",
        "DELETE FROM tidemark.revision WHERE revision = 2",
    ]) func `rule 6: devices below a damaged log entry get a snapshot, others continue`(_ damage: String)
        async throws
    {
        let cluster = try await PostgresCluster(schema: Self.schema)
        for (revision, key) in ["a", "b", "c"].enumerated() {
            #expect(try await Self.code(cluster.store, at: Int64(revision), creating: key) == .none)
        }
        try await cluster.database.connect().execute(damage)
        // A node that has not read the log yet, and one that has.
        let fresh = try await cluster.node { _ in }
        #expect(try await Self.code(fresh, at: 3) == .none)
        #expect(try await Self.code(fresh, at: 1) == .snapshotRequired)
        #expect(try await Self.code(fresh, at: 0, creating: "d") == .snapshotRequired)
        #expect(try await Self.code(cluster.store, at: 1, creating: "d") == .snapshotRequired)
        #expect(try await Self.code(fresh, at: 3, creating: "d") == .none)
        #expect(try await fresh.state(zone: "main").revision == 4)
        await fresh.close()
        await cluster.close()
    }

    @Test func `a zone whose revision is below its log is refused with the cure`() async throws {
        let cluster = try await PostgresCluster(schema: Self.schema)
        #expect(try await Self.code(cluster.store, at: 0, creating: "a") == .none)
        let psql = try await cluster.database.connect()
        try await psql.execute("UPDATE tidemark.zone SET revision = 0")
        let refusal = await #expect(throws: TidemarkError.self) { try await cluster.node { _ in } }
        #expect(refusal?.code == .fileDamaged)
        let cure = try #require(refusal?.fix.split(separator: ";").first)
        try await psql.execute(String(cure))
        let node = try await cluster.node { _ in }
        #expect(try await Self.code(node, at: 1, creating: "b") == .none)
        await node.close()
        await cluster.close()
    }
}
