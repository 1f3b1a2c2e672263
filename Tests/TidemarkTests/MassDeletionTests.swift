import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// A server that is wiped, replaced or broken must not empty its devices.
@Suite struct MassDeletionTests {
    private static let schema = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)"
    private static func seed(_ rows: Int) -> String {
        """
        WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
        INSERT INTO note SELECT i, 'N' || i FROM n
        """
    }

    @Test func `rule 19: another device's real mass deletion applies after confirmation`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(200))
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        try await anna.write("DELETE FROM note WHERE id <= 150")
        try await anna.engine.sync()
        try await ben.write("UPDATE note SET text = 'mine' WHERE id = 170")
        try await cluster.converge(ben, anna)
        #expect(ben.transport.faults.comparisons.count == 1)
        #expect(anna.transport.faults.comparisons.isEmpty)
        #expect(try await cluster.rows("SELECT text FROM note WHERE id = 170") == ["mine"])
    }

    @Test(arguments: [(200, 50), (1_000, 200)])
    func `rule 19: up to 50 deletions, or a fifth of the records, need no confirmation`(rows: Int, deletions: Int)
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(rows))
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        try await anna.write("DELETE FROM note WHERE id <= \(deletions)")
        try await cluster.converge(anna, ben)
        #expect(ben.transport.faults.comparisons.isEmpty)
        try await anna.write("DELETE FROM note WHERE id <= \(deletions + deletions + 1)")
        try await cluster.converge(anna, ben)
        #expect(ben.transport.faults.comparisons.count == 1)
    }

    @Test func `rule 19, case 75: an answer that the server's rows contradict deletes nothing`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(200))
        let ben = try await cluster.device("ben")
        try await ben.engine.sync()
        try await ben.write("UPDATE note SET text = 'mine' WHERE id = 170")
        let engine = try await SyncEngine(
            ben.database, server: "http://cluster.test", transport: Emptying(real: ben.transport))
        await #expect { try await engine.sync() } throws: {
            let error = $0 as? TidemarkError
            return error?.code == .massDeletion && error?.message.contains("150 of the 200 records here") == true
        }
        #expect(try await ben.rows("SELECT count(*) FROM note") == ["200"])
        #expect(try await ben.engine.status().pendingChangeSets == 1)
        try await cluster.converge(ben)
    }

    @Test func `rule 19, case 63: a wiped server empties a device only with the user's consent`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(200))
        let ben = try await cluster.device("ben")
        try await ben.engine.sync()
        try await ben.write("UPDATE note SET text = 'mine' WHERE id = 170")
        try await ben.write("INSERT INTO note (text) VALUES ('new')")
        let wiped = try Cluster(schema: Self.schema, seed: Self.seed(3))
        let engine = try await ben.engine(on: wiped)
        for _ in 1...2 {
            await #expect { try await engine.sync() } throws: {
                let error = $0 as? TidemarkError
                return error?.code == .massDeletion && error?.recovery == .permanent
                    && error?.message.contains("197 of note") == true
            }
            #expect(try await ben.rows("SELECT count(*) FROM note") == ["201"])
            #expect(try await engine.status().pendingChangeSets > 0)
        }
        // At the old server nothing has changed.
        try await cluster.converge(ben)
        try await ben.write("UPDATE note SET text = 'mine again' WHERE id = 170")
        try await engine.sync(acceptingMassDeletion: true)
        #expect(try await ben.rows("SELECT count(*) FROM note") == ["3"])
        let mine = try await engine.conflicts().flatMap(\.records).map(\.mine)
        // Change sets that only the old server had acknowledged are kept as well.
        #expect(mine == [#"{"text":"new"}"#, #"{"text":"mine"}"#, #"{"text":"mine again"}"#])
    }

    @Test func `rule 19: a sync with consent does not get the error of a sync without`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(200))
        let ben = try await cluster.device("ben")
        try await ben.engine.sync()
        try await cluster.restore(nil)
        let before = ben.transport.faults.requests.count
        let refusal = Task { try await ben.engine.sync() }
        while ben.transport.faults.requests.count == before { await Task.yield() }
        try await ben.engine.sync(acceptingMassDeletion: true)
        await #expect(throws: TidemarkError.self) { try await refusal.value }
        #expect(try await ben.rows("SELECT count(*) FROM note") == ["0"])
    }

    @Test func `rule 19: a snapshot that lacks most records needs confirmation`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(200))
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        try await anna.write("DELETE FROM note WHERE id > 10")
        try await anna.engine.sync()
        try cluster.writeOutside(
            """
            UPDATE tidemark_zone SET horizon = revision;
            DELETE FROM tidemark_revision WHERE revision <= (SELECT horizon FROM tidemark_zone)
            """
        )
        try await cluster.converge(ben, anna)
        #expect(ben.transport.faults.comparisons.count == 1)
        #expect(try await ben.rows("SELECT count(*) FROM note") == ["10"])
    }

    @Test func `rule 19: a comparison with a server that lost most rows needs consent to delete`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed(200))
        let ben = try await cluster.device("ben")
        try await ben.engine.sync()
        // Under the same epoch and revision, behind the triggers' back.
        try cluster.writeOutside(
            """
            UPDATE tidemark_state SET applying = 1; DELETE FROM note WHERE id > 3;
            UPDATE tidemark_state SET applying = 0; DELETE FROM tidemark_fingerprint
            """
        )
        await #expect { try await ben.engine.sync() } throws: { ($0 as? TidemarkError)?.code == .massDeletion }
        #expect(try await ben.rows("SELECT count(*) >= 150 FROM note") == ["1"])
        try await ben.engine.sync(acceptingMassDeletion: true)
        try await cluster.converge(ben)
        #expect(try await ben.rows("SELECT count(*) FROM note") == ["3"])
    }
}

/// A transport whose server reports deletions that its rows contradict.
private struct Emptying: ForwardingTransport {
    let real: InProcessTransport

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let answer = String(
            decoding: try await real.sync(zone: zone, body: Array(#"{"maxRevision":1}"#.utf8)), as: UTF8.self)
        let epoch = answer.firstMatch(of: /"epoch":"([0-9a-f-]+)"/)?.output.1 ?? ""
        let keys = (1...150).map(String.init).joined(separator: ",")
        let text = """
            {"maxRevision":2,"epoch":"\(epoch)","more":false,"changeSets":[
            {"revision":2,"conflict":false,"types":["note"],
            "note":{"create":[],"update":[],"delete":[\(keys)],"attributes":{}}}]}
            """
        return Array(text.utf8)
    }
}
