import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// Rule 11: a server, or a proxy before it, accepts smaller requests than the device writes.
@Suite struct TooLargeTests {
    @Test func `rule 11 and 21: change sets too large together are split, one too large is parked`() async throws {
        let cluster = try Cluster(schema: "CREATE TABLE notes (id TEXT PRIMARY KEY, text TEXT)")
        let anna = try await cluster.device("anna")
        let narrow = NarrowTransport(real: anna.transport, bytesMax: 4_000)
        let database = try DatabasePool(path: anna.path)
        let engine = try await SyncEngine(database, server: "http://cluster.test", transport: narrow)
        for number in 1...9 {
            try await database.write { db in
                let text = String(repeating: "x", count: number == 5 ? 5_000 : 900)
                try db.execute(sql: "INSERT INTO notes VALUES (?, ?)", arguments: ["n\(number)", text])
            }
        }
        try await engine.sync()
        let served = try await cluster.rows("SELECT id FROM notes ORDER BY id")
        #expect(served == ["n1", "n2", "n3", "n4", "n6", "n7", "n8", "n9"])
        let conflicts = try await engine.conflicts()
        #expect(conflicts.map { $0.records.map(\.key) } == [[#""n5""#]])
        #expect(conflicts.first?.reasons.first?.rule == "tooLarge")
        #expect(try await engine.status().pendingChangeSets == 0)
    }

    @Test func `an import of another program is divided below the limit, along its references`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE page (id TEXT PRIMARY KEY, text TEXT);
                CREATE TABLE line (id TEXT PRIMARY KEY, page TEXT REFERENCES page, text TEXT);
                """
        )
        let anna = try await cluster.device("anna")
        let narrow = NarrowTransport(real: anna.transport, bytesMax: 40_000)
        let engine = try await SyncEngine(anna.database, server: "http://cluster.test", transport: narrow)
        try await engine.sync()
        try anna.writeOutside(
            """
            WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
            INSERT INTO page SELECT 'p' || i, 'a page with some text, number ' || i FROM n;
            INSERT INTO line SELECT 'l' || id, id, 'a line of the page ' || id FROM page;
            UPDATE page SET text = 'changed' WHERE id = 'p7';
            """
        )
        try await engine.sync()
        #expect(try await engine.conflicts().isEmpty)
        #expect(try await cluster.rows("SELECT count(*) FROM line JOIN page ON page.id = line.page") == ["1000"])
        #expect(try await anna.rows("SELECT count(*) FROM page") == ["1000"])
        #expect(try await cluster.store.state().revision > 4)
    }

    @Test func `an import of rows that all belong to one new row is divided, the parent first`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE album (id TEXT PRIMARY KEY, name TEXT);
                CREATE TABLE image (
                    id TEXT PRIMARY KEY, album TEXT NOT NULL REFERENCES album, next TEXT REFERENCES image, text TEXT);
                """
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        let narrow = NarrowTransport(real: anna.transport, bytesMax: 40_000)
        let engine = try await SyncEngine(anna.database, server: "http://cluster.test", transport: narrow)
        try await engine.sync()
        // Image 500 refers to a later one, so the two stay together.
        try anna.writeOutside(
            """
            INSERT INTO album VALUES ('holiday', 'Holiday');
            WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
            INSERT INTO image SELECT format('i%04d', i), 'holiday', NULL, 'an image with some text, ' || i FROM n;
            UPDATE image SET next = 'i0900' WHERE id = 'i0500';
            """
        )
        try await engine.sync()
        #expect(try await engine.conflicts().isEmpty)
        try await ben.engine.sync()
        #expect(try await ben.rows("SELECT count(*), max(next) FROM image") == ["1000|i0900"])
        #expect(try await cluster.store.state().revision > 4)
    }

    @Test func `the device divides an import beyond its own limit before it sends it`() async throws {
        var limits = Limits.standard
        limits.requestBytesMax = 20_000
        let cluster = try Cluster(schema: "CREATE TABLE note (id TEXT PRIMARY KEY, text TEXT)")
        let anna = try await cluster.device("anna", limits: limits)
        let narrow = NarrowTransport(real: anna.transport, bytesMax: 20_000)
        let engine = try await SyncEngine(
            anna.database, server: "http://cluster.test", transport: narrow, limits: limits)
        try await engine.sync()
        try anna.writeOutside(
            """
            WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
            INSERT INTO note SELECT 'n' || i, 'a note with some text, number ' || i FROM n
            """
        )
        try await engine.sync()
        #expect(try await engine.conflicts().isEmpty)
        #expect(try await cluster.rows("SELECT count(*) FROM note") == ["1000"])
    }

    @Test func `a transaction of the app is never divided, and the conflict says how large it is`() async throws {
        let cluster = try Cluster(schema: "CREATE TABLE note (id TEXT PRIMARY KEY, text TEXT)")
        let anna = try await cluster.device("anna")
        let narrow = NarrowTransport(real: anna.transport, bytesMax: 4_000)
        let database = try DatabasePool(path: anna.path)
        let engine = try await SyncEngine(database, server: "http://cluster.test", transport: narrow)
        try await engine.sync()
        try await database.write { db in
            for number in 1...200 {
                try db.execute(sql: "INSERT INTO note VALUES (?, 'a note with some text')", arguments: ["n\(number)"])
            }
        }
        try await engine.sync()
        let conflicts = try await engine.conflicts()
        #expect(conflicts.map(\.records.count) == [200])
        #expect(conflicts.first?.reasons.first?.message.contains("200 records") == true)
        #expect(conflicts.first?.reasons.first?.message.contains("smaller transactions") == true)
    }

    @Test(arguments: ["replace(hex(zeroblob(2001)), '00', 'né')", "zeroblob(4001)"])
    func `rule 11: a value too large is parked unsent with its place, other edits continue`(value: String)
        async throws
    {
        let cluster = try Cluster(schema: "CREATE TABLE notes (id TEXT PRIMARY KEY, title TEXT, body)")
        let anna = try await cluster.device("anna", limits: Self.narrow)
        let ben = try await cluster.device("ben")
        try await anna.write("INSERT INTO notes VALUES ('a', 'small', zeroblob(4000))")
        try await anna.write("INSERT INTO notes VALUES ('b', 'large', \(value))")
        try await anna.write("INSERT INTO notes VALUES ('c', 'small', 'x')")
        try await anna.write("UPDATE notes SET title = 'builds on it' WHERE id = 'b'")
        try await cluster.converge([anna, ben])
        #expect(try await cluster.rows("SELECT id FROM notes ORDER BY id") == ["a", "c"])
        let conflicts = try await anna.engine.conflicts()
        let conflict = try #require(conflicts.first { $0.reasons.first?.rule == "tooLarge" })
        let reason = try #require(conflict.reasons.first)
        #expect(reason.table == "notes" && reason.key == #""b""#)
        #expect(reason.columns == ["body"])
        #expect(reason.message.contains("at most 4000"))
        #expect(reason.message.contains("sync the file's path"))
        // Nothing is lost: with a larger limit it is sent.
        let wider = try await anna.reopened(limits: .standard)
        for conflict in conflicts { try await wider.engine.resolve(conflict.id, with: .retry) }
        try await cluster.converge([wider, ben])
        #expect(
            try await ben.rows("SELECT title, length(CAST(body AS BLOB)) > 4000 FROM notes WHERE id = 'b'") == [
                "builds on it|1"
            ])
    }

    @Test func `a large value written by another program at the server arrives, and stays editable`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE notes (id TEXT PRIMARY KEY, title TEXT, body)",
            seed: "INSERT INTO notes VALUES ('old', '', zeroblob(9000))", limits: Self.narrow)
        let anna = try await cluster.device("anna", limits: Self.narrow)
        let ben = try await cluster.device("ben", limits: Self.narrow)
        try cluster.writeOutside("INSERT INTO notes VALUES ('new', '', zeroblob(9001))")
        try await cluster.converge([anna, ben])
        #expect(try await anna.rows("SELECT id, length(body) FROM notes ORDER BY id") == ["new|9001", "old|9000"])
        try await anna.write("UPDATE notes SET title = 'seen'")
        try await cluster.converge([anna, ben])
        try await ben.write("DELETE FROM notes")
        try await cluster.converge([anna, ben])
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `rule 11: a value above a server's lower limit is parked there`() async throws {
        let cluster = try Cluster(schema: "CREATE TABLE notes (id TEXT PRIMARY KEY, body)", limits: Self.narrow)
        let anna = try await cluster.device("anna")
        try await anna.write("INSERT INTO notes VALUES ('a', 'x')")
        try await anna.write("INSERT INTO notes VALUES ('b', zeroblob(4001))")
        try await anna.write("INSERT INTO notes VALUES ('c', 'x')")
        try await cluster.converge([anna])
        #expect(try await cluster.rows("SELECT id FROM notes ORDER BY id") == ["a", "c"])
        let reasons = try await anna.engine.conflicts().flatMap(\.reasons)
        #expect(reasons.map(\.rule) == ["tooLarge"])
        #expect(reasons.map(\.key) == [#""b""#] && reasons.map(\.columns) == [["body"]])
    }

    /// A value may have 4,000 bytes.
    private static var narrow: Limits {
        var limits = Limits.standard
        limits.valueBytesMax = 4_000
        return limits
    }
}

/// A transport that refuses requests above a size, as a server does over HTTP.
private struct NarrowTransport: ForwardingTransport {
    let real: InProcessTransport
    let bytesMax: Int

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        guard body.count <= bytesMax else {
            throw TidemarkError(
                .tooLarge, "The request has \(body.count) bytes.", fix: "Send at most \(bytesMax) at a time.")
        }
        return try await real.sync(zone: zone, body: body)
    }
}
