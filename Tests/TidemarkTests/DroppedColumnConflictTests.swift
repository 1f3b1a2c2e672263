import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Conflicts in a file whose app has dropped a column of the zone.
@Suite struct DroppedColumnConflictTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, v TEXT, w TEXT, n INTEGER CHECK (n < 100));
        """
    private static let drop = """
        CREATE TABLE fresh (id INTEGER PRIMARY KEY, v TEXT, n INTEGER CHECK (n < 100));
        INSERT INTO fresh SELECT id, v, n FROM note; DROP TABLE note; ALTER TABLE fresh RENAME TO note;
        """

    private static func pair() async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice) {
        let cluster = try Cluster(schema: schema, seed: "INSERT INTO note VALUES (1, 'v', 'w', 1)")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        return (cluster, anna, ben)
    }

    @Test func `a retry of a value whose column is dropped names the column and the ways that work`()
        async throws
    {
        let (cluster, anna, ben) = try await Self.pair()
        try await ben.write("UPDATE note SET w = 'ben' WHERE id = 1")
        try await ben.engine.sync()
        try await anna.write("UPDATE note SET w = 'anna' WHERE id = 1")
        try await anna.engine.sync()
        try anna.writeOutside(Self.drop)
        try await anna.engine.sync()
        let conflict = try #require(try await anna.engine.conflicts().first)
        let error = await #expect(throws: TidemarkError.self) {
            try await anna.engine.resolve(conflict, with: .retry)
        }
        #expect(error?.message.contains("no longer has the column w") == true)
        #expect(error?.fix.contains("--accept") == true)
        try await anna.engine.resolve(conflict, with: .accept)
        try await anna.engine.sync()
        #expect(try await cluster.rows("SELECT v, w FROM note") == ["v|ben"])
    }

    @Test func `a conflict about another column can be retried in a file without a column of the zone`() async throws {
        let (_, anna, ben) = try await Self.pair()
        try anna.writeOutside(Self.drop)
        try await anna.engine.sync()
        try await ben.write("UPDATE note SET v = 'ben', w = 'ben' WHERE id = 1")
        try await ben.engine.sync()
        try await anna.write("UPDATE note SET v = 'anna' WHERE id = 1")
        try await anna.engine.sync()
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(!conflict.hasChanged)
        try await anna.engine.resolve(conflict, with: .retry)
        try await anna.engine.sync()
        try await ben.engine.sync()
        #expect(try await ben.rows("SELECT v, w FROM note") == ["anna|ben"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `a conflict that nothing has changed since does not say so`() async throws {
        let (cluster, anna, _) = try await Self.pair()
        try cluster.writeOutside(
            "CREATE TRIGGER bound BEFORE UPDATE ON note WHEN new.n > 50 BEGIN SELECT raise(ABORT, 'no'); END")
        try await anna.write("UPDATE note SET n = 60 WHERE id = 1")
        try await anna.write("UPDATE note SET v = 'later' WHERE id = 1")
        try await anna.engine.sync()
        let conflicts = try await anna.engine.conflicts()
        #expect(!conflicts.isEmpty)
        #expect(conflicts.allSatisfy { !$0.hasChanged })
    }
}
