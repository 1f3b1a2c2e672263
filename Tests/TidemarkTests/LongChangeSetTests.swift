import Foundation
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 12: a frozen text in overflow chunks is sent as one, byte for byte, and leaves no chunk
/// behind.
@Suite struct LongChangeSetTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
        """
    private static let many = """
        WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
            INSERT INTO notes (text) SELECT iif(i = 7, printf('%.100000c', 'ü'), 'größer ☃ ' || i) FROM n;
        INSERT INTO tags SELECT '"☃" ' || id, text FROM notes WHERE text NOT LIKE '%1%' AND length(text) < 99;
        """
    private static let pieces = "SELECT count(*) FROM tidemark_wire_rest"

    private static func start() async throws -> (Cluster, TestDevice, TestDevice) {
        let cluster = try Cluster(schema: schema)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        return (cluster, anna, ben)
    }

    /// The non-empty change set lists of a device's requests, as text.
    private static func sent(_ device: TestDevice) -> [String] {
        device.transport.faults.requests.compactMap { request in
            guard let start = request.range(of: #""changeSets":[{"#)?.upperBound else { return nil }
            return String(request[start...].dropLast(2))
        }
    }

    @Test func `rule 3, F4: resends have equal text, and its chunks are deleted after the answer`() async throws {
        let (cluster, anna, ben) = try await Self.start()
        try await anna.write(Self.many)
        for fault in [FaultPlan.Fault.requestLost, .answerLost] {
            anna.transport.faults.add(fault)
            await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
            #expect(try await anna.rows(Self.pieces) != ["0"])
        }
        try await anna.write("INSERT INTO notes (text) VALUES ('later')")
        try await anna.engine.sync()
        let texts = Self.sent(anna)
        #expect(texts[1] == texts[0])
        // Later edits follow it.
        #expect(texts[2].hasPrefix(texts[0] + ","))
        #expect(try await anna.rows(Self.pieces) == ["0"])
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT count(*) FROM notes") == ["3001"])
    }

    @Test func `A2: it travels in order with short ones, in one request`() async throws {
        let (cluster, anna, ben) = try await Self.start()
        for text in ["first", "second"] { try await anna.write("INSERT INTO notes (text) VALUES ('\(text)')") }
        try await anna.write(Self.many)
        for text in ["third", "fourth"] { try await anna.write("INSERT INTO notes (text) VALUES ('\(text)')") }
        try await anna.engine.sync()
        let counts = try anna.lastSent.map(\.count)
        #expect(counts.map { min($0, 3_000) } == [1, 1, 3_000, 1, 1])
        #expect(try await anna.rows(Self.pieces) == ["0"])
        try await cluster.converge(anna, ben)
        #expect(
            try await ben.rows(
                "SELECT text FROM notes WHERE text IN ('first', 'second', 'third', 'fourth') ORDER BY id") == [
                    "first", "second", "third", "fourth",
                ]
        )
    }

    @Test func `rule 14: in another history it is frozen anew`() async throws {
        let (cluster, anna, ben) = try await Self.start()
        let backup = try await cluster.backUp()
        try await ben.write("INSERT INTO notes (text) VALUES ('forgotten')")
        try await cluster.converge(ben, anna)
        try await anna.write(Self.many)
        anna.transport.faults.add(.requestLost)
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        #expect(try await anna.rows(Self.pieces) != ["0"])
        try await cluster.restore(backup, isSaid: true)
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows(Self.pieces) == ["0"])
        #expect(try await ben.rows("SELECT count(*) FROM notes") == ["3001"])
    }

    @Test func `one bad row among thousands refuses the change set with all its chunks`() async throws {
        let (cluster, anna, ben) = try await Self.start()
        try await ben.write("INSERT INTO tags VALUES ('red', 'theirs')")
        try await ben.engine.sync()
        try await anna.write(Self.many + "INSERT INTO tags VALUES ('red', 'mine')")
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().count == 1)
        #expect(try await anna.rows(Self.pieces) == ["0"])
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT count(*) FROM notes") == ["0"])
    }
}
