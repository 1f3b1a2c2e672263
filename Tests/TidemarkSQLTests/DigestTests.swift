import Foundation
import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Equal digests mean equal rows, byte for byte; nothing else of a file affects them.
@Suite struct DigestTests {
    private static let table = """
        CREATE TABLE t (id INTEGER PRIMARY KEY, a, b TEXT);
        CREATE TABLE u (k TEXT PRIMARY KEY, v);
        """

    private func digest(_ rows: String, tables: String = table, pageSize: Int = 4096) throws -> ZoneDigest {
        let queue = try DatabaseQueue()
        return try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA page_size = \(pageSize)")
            try db.execute(sql: tables)
            try db.execute(sql: rows)
            let schema = try SchemaIntrospection(db).makeSchema()
            return try Digest.compute(db, schema: schema, zone: "main", revision: 1)
        }
    }

    @Test func `insertion order, page size and deleted rows do not affect the digest`() throws {
        let straight = try digest(
            """
            INSERT INTO t VALUES (1, 'x', 'y'), (2, 2.5, NULL), (-3, x'00', '');
            INSERT INTO u VALUES ('a', 1), ('B', 2), ('é', 3), ('z', 4);
            """
        )
        let devious = try digest(
            """
            INSERT INTO u VALUES ('z', 4), ('é', 3), ('gone', 0), ('B', 2), ('a', 0);
            UPDATE u SET v = 1 WHERE k = 'a';
            DELETE FROM u WHERE k = 'gone';
            INSERT INTO t VALUES (-3, x'00', ''), (7, 7, 7), (2, 2.5, NULL), (1, 'x', 'y');
            DELETE FROM t WHERE id = 7;
            VACUUM;
            """,
            pageSize: 512
        )
        #expect(straight == devious)
        #expect(straight.tables.map(\.rows) == [3, 4])
    }

    @Test func `the order of columns and tables and the indexes do not affect the digest`() throws {
        let rows = "INSERT INTO t (id, a, b) VALUES (1, 2, '3'); INSERT INTO u (k, v) VALUES ('a', 1)"
        let other = """
            CREATE TABLE u (v, k TEXT PRIMARY KEY) WITHOUT ROWID;
            CREATE TABLE t (b TEXT, id INTEGER PRIMARY KEY, a);
            CREATE INDEX i ON t (a DESC);
            """
        #expect(try digest(rows) == digest(rows, tables: other))
    }

    @Test(arguments: [
        ("1", "1.0"), ("NULL", "''"), ("''", "x''"), ("'1'", "1"), ("0.0", "-0.0"), ("0.1", "0.10000000000000002"),
        ("'é'", "'e\u{301}'"), ("'a'", "'a '"), ("'a'", "'A'"), ("x'00'", "x'01'"), ("x'00'", "x'0000'"),
        ("1e400", "-1e400"), ("NULL", "'null'"), ("CAST(x'6100' AS TEXT)", "'a'"),
        ("CAST(x'ff' AS TEXT)", "CAST(x'fe' AS TEXT)"), ("9007199254740993", "9007199254740992"),
        ("9007199254740992", "9007199254740992.0"), ("'x\",\"b\":\"y'", "'x'"), ("x'41'", "'{\"$blob\":\"QQ==\"}'"),
    ]) func `different values have different digests`(one: String, other: String) throws {
        let digests = try [one, other].map { try digest("INSERT INTO t VALUES (1, \($0), 'b')") }
        #expect(digests[0].hash != digests[1].hash)
        #expect(digests[0].tables[0].hash != digests[1].tables[0].hash)
        #expect(digests[0].tables[1] == digests[1].tables[1])
    }

    @Test func `one flipped bit in a megabyte changes the digest`() throws {
        let bytes = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let digests = try [0, 1].map { flip in
            let queue = try DatabaseQueue()
            return try queue.write { db in
                try db.execute(sql: Self.table)
                var copy = bytes
                copy[777_777] ^= UInt8(flip)
                try db.execute(sql: "INSERT INTO u VALUES ('blob', ?)", arguments: [Data(copy)])
                let schema = try SchemaIntrospection(db).makeSchema()
                return try Digest.compute(db, schema: schema, zone: "main", revision: 1)
            }
        }
        #expect(digests[0].hash != digests[1].hash)
    }

    @Test func `a row moved to another key or table changes the digest`() throws {
        let hashes = try [
            "INSERT INTO t VALUES (1, 2, 3)", "INSERT INTO t VALUES (2, 1, 3)", "INSERT INTO t VALUES (1, 3, 2)",
            "INSERT INTO u VALUES ('1', 2)", "INSERT INTO u VALUES ('2', 1)", "",
        ].map { try digest($0).hash }
        #expect(Set(hashes).count == hashes.count)
    }

    @Test func `a device's bookkeeping does not affect the digest`() throws {
        let rows = "INSERT INTO t VALUES (1, 2, 'x')"
        let file = try CapturedFile(Self.table, rows: rows)
        let digestOfCaptured = try file.queue.write {
            try Digest.compute($0, schema: file.schema, zone: "main", revision: 1)
        }
        #expect(try digestOfCaptured == digest(rows))
    }

    @Test func `the digests of an empty zone and of one row equal recorded constants`() throws {
        // The format is part of the protocol: if these values change, old devices never agree
        // again.
        let row = try digest("INSERT INTO t VALUES (7, 1.0, 'é')")
        #expect(row.tables[0].hash == ContentHash.of("7\t{\"a\":1.0,\"b\":\"é\"}\n"))
        #expect(row.tables[1].hash == ContentHash.of(""))
        #expect(row.hash == ContentHash.of("t\t\(row.tables[0].hash)\nu\t\(row.tables[1].hash)\n"))
        #expect(ContentHash.of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    }
}
