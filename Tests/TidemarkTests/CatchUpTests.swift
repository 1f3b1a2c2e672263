import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A device that was away receives the newer revisions, and nothing else.
@Suite struct CatchUpTests {
    private static let schema = """
        CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT NOT NULL, count INTEGER DEFAULT 0)
        """
    private static let seed = """
        WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
        INSERT INTO words (word) SELECT 'word number ' || i FROM n
        """

    private static func pair(limits: Limits = .standard) async throws -> (
        cluster: Cluster, anna: TestDevice, ben: TestDevice
    ) {
        let cluster = try Cluster(schema: schema, seed: seed, limits: limits)
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    @Test func `E2: of a thousand words, only the three changed ones are sent`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE words SET count = 1 WHERE id = 10")
        try await anna.write("DELETE FROM words WHERE id = 20")
        try await anna.write("INSERT INTO words (word) VALUES ('new')")
        try await anna.engine.sync()
        try await ben.engine.sync()
        let answer = try #require(ben.transport.faults.answers.last)
        #expect(
            try SentChangeSet.all(in: answer).map(\.records) == [
                ["update words 10 (count)"], ["delete words 20"], ["create words 1001 (count, word)"],
            ]
        )
        #expect(answer.utf8.count < 1000)
        try await cluster.converge(anna, ben)
    }

    @Test func `E2: an up-to-date device receives nothing`() async throws {
        let (_, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE words SET count = 1 WHERE id = 10")
        try await anna.engine.sync()
        try await ben.engine.sync()
        let answers = ben.transport.faults.answers
        let questions = ben.transport.faults.questions.count
        let events = try await ben.events { try await ben.engine.sync() }
        #expect(ben.transport.faults.questions.count == questions + 1)
        #expect(ben.transport.faults.answers == answers)
        #expect(events.isEmpty)
    }

    @Test func `A5: one answer has the missed revisions first, then the device's own`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        for id in 1...5 { try await anna.write("UPDATE words SET count = 1 WHERE id = \(id)") }
        try await anna.engine.sync()
        try await ben.write("UPDATE words SET count = 9 WHERE id = 99")
        try await ben.engine.sync()
        #expect(ben.transport.faults.requests.count == 1)
        let answer = try #require(ben.transport.faults.answers.last)
        #expect(
            try SentChangeSet.all(in: answer).map(\.records)
                == ([1, 2, 3, 4, 5, 99].map { ["update words \($0) (count)"] }))
        try await cluster.converge(anna, ben)
    }

    @Test func `E6: incoming words are created, updated, deleted or skipped`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        // Known and live, known and deleted, unknown and live.
        try await anna.write("UPDATE words SET word = 'changed' WHERE id = 1")
        try await anna.write("DELETE FROM words WHERE id = 2")
        try await anna.write("INSERT INTO words (word) VALUES ('stays')")
        try await anna.engine.sync()
        // Unknown and deleted: created and deleted while Ben was away.
        try await anna.write("INSERT INTO words (word) VALUES ('came')")
        try await anna.engine.sync()
        try await anna.write("UPDATE words SET count = 5 WHERE word = 'came'")
        try await anna.engine.sync()
        try await anna.write("DELETE FROM words WHERE word = 'came'")
        try await anna.engine.sync()
        try await ben.engine.sync()
        #expect(
            try await ben.rows("SELECT id, word FROM words WHERE id < 3 OR id > 1000") == ["1|changed", "1001|stays"])
        try await cluster.converge(anna, ben)
    }

    @Test func `E6: an older edit does not restore a word deleted here`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE words SET count = 1 WHERE id = 1")
        try await anna.engine.sync()
        try await ben.engine.sync()
        try await ben.write("DELETE FROM words WHERE id = 1")
        try await ben.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT id FROM words WHERE id = 1") == [])
    }

    @Test func `E6: a deleted word comes back under its id, also under a text key`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT)",
            seed: "INSERT INTO tags VALUES ('red', 'ff0000')")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("DELETE FROM tags")
        try await anna.engine.sync()
        try await anna.write("INSERT INTO tags (name) VALUES ('red')")
        try await anna.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT * FROM tags") == ["red|"])
    }

    @Test func `E2: a long absence is caught up in pages, and edits are sent after the last page`() async throws {
        var limits = Limits.standard
        limits.revisionsPerAnswerMax = 4
        let (cluster, anna, ben) = try await Self.pair(limits: limits)
        for id in 1...19 { try await anna.write("UPDATE words SET count = 1 WHERE id = \(id)") }
        try await cluster.converge(anna)
        try await ben.write("UPDATE words SET count = 2 WHERE id = 500")
        try await ben.write("UPDATE words SET count = 2 WHERE id = 19")
        try await ben.engine.sync()
        #expect(ben.transport.faults.requests.count >= 5)
        try await cluster.converge(ben, anna)
        #expect(try await ben.rows("SELECT count FROM words WHERE id IN (1, 19, 500)") == ["1", "1", "2"])
        // Word 19 was edited without having seen Anna's edit, however late it was sent.
        #expect(try await ben.engine.conflicts().map(\.records.first?.key) == ["19"])
    }

    @Test func `rule 6: revisions have no gaps, in whatever order devices sync`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        for round in 1...6 {
            try await anna.write("UPDATE words SET count = \(round) WHERE id = 1")
            try await ben.write("UPDATE words SET count = \(round) WHERE id = \(round % 2)")
            try cluster.writeOutside("UPDATE words SET count = count + 1 WHERE id = 900")
            try await (round.isMultiple(of: 2) ? anna : ben).engine.sync()
        }
        try await cluster.converge(anna, ben)
        #expect(
            try await cluster.rows("SELECT count(*) = max(revision) - min(revision) + 1 FROM tidemark_revision") == [
                "1"
            ])
    }
}
