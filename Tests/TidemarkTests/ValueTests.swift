import GRDB
import Testing
import Tidemark
import TidemarkTestSupport

/// Rule 23: values are the same on every device, byte for byte and type for type.
@Suite struct ValueTests {
    /// SQL that creates a value which a careless sync would change.
    private static let nasty = [
        "NULL", "''", "x''", "x'00'", "x'00ff00'", "'0'", "'1e3'", "'007'", "' '", "0", "-1", "9223372036854775807",
        "-9223372036854775807 - 1", "9007199254740993", "-9007199254740993", "4503599627370496", "0.0", "-0.0", "1.0",
        "3.0", "0.1", "0.30000000000000004", "1e100", "5e-324", "-5e-324", "2.2250738585072014e-308",
        "1.7976931348623157e308", "9e999", "-9e999", "123456789012345.6", "9007199254740993.0", "1e15", "1e16",
        "9.2233720368547758e18", "'Grüße, 世界 😀 e\u{301}'", "'\u{301}a'", "char(0xFEFF) || 'x'", "'\\\u{301}'",
        "'tab\tnewline\nreturn\rquote\" back\\slash ''single'''", "'{\"$blob\":\"AA==\"}'",
        "'{\"$real\":\"Infinity\"}'", "'null'", "'[1,2]'", "'\\u0041'", "char(0)", "'a' || char(0) || 'b'",
        "char(0xFEFF)", "char(0x2028)", "char(1, 31, 127, 128)", "char(0x10FFFF)", "CAST(x'ff' AS TEXT)",
        "CAST(x'61c3' AS TEXT)", "CAST(x'eda080' AS TEXT)", "CAST(x'6100ff' AS TEXT)", "zeroblob(1000)",
        "CAST(zeroblob(3) AS TEXT)", "replace(hex(zeroblob(5000)), '00', 'ab')", "randomblob(64)", "true",
    ]

    private static let columns = ["anything", "t TEXT", "i INTEGER", "r REAL", "n NUMERIC", "b BLOB", "w VARCHAR(10)"]

    /// The stored class and bytes of every value, doubles as their bits.
    private static func exact(_ device: DatabasePool) async throws -> [String] {
        try await device.read { db in
            let names = columns.compactMap { $0.split(separator: " ").first }
            let select = names.map { "typeof(\($0)), hex(\($0)), \($0)" }.joined(separator: ", ")
            return try Row.fetchAll(db, sql: "SELECT id, \(select) FROM items ORDER BY id").map {
                $0.databaseValues.map { value in
                    guard case .double(let double) = value.storage else { return "\(value)" }
                    return "bits \(double.bitPattern)"
                }.joined(separator: " ")
            }
        }
    }

    @Test func `A6, F1: every nasty value survives three hops in every column`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE items (id INTEGER PRIMARY KEY, \(Self.columns.joined(separator: ", ")),
                    other INTEGER)
                """
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.database.write { db in
            for value in Self.nasty {
                let values = Self.columns.map { _ in value }.joined(separator: ", ")
                let names = Self.columns.compactMap { $0.split(separator: " ").first }
                try db.execute(sql: "INSERT INTO items (\(names.joined(separator: ", "))) VALUES (\(values))")
            }
        }
        try await anna.engine.sync()
        let exactValues = try await Self.exact(anna.database)
        try await ben.engine.sync()
        #expect(try await Self.exact(ben.database) == exactValues)
        try await ben.write("UPDATE items SET other = 1")
        try await cluster.converge(ben, anna)
        #expect(try await Self.exact(anna.database) == exactValues)
        #expect(try await Self.exact(ben.database) == exactValues)
        #expect(try await anna.rows("SELECT count(*) FROM items WHERE other = 1") == ["\(Self.nasty.count)"])
    }

    @Test func `A6: every nasty value replaces every other one`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE items (id INTEGER PRIMARY KEY, \(Self.columns.joined(separator: ", ")))
                """,
            seed: Self.nasty.map { "INSERT INTO items (anything) VALUES (\($0))" }.joined(separator: ";")
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        let count = Self.nasty.count
        for (shift, column) in [(1, "anything"), (2, "b"), (3, "r"), (5, "t")] {
            try await anna.database.write { db in
                for id in 1...count {
                    let value = Self.nasty[(id + shift) % count]
                    try db.execute(sql: "UPDATE items SET \(column) = \(value) WHERE id = \(id)")
                }
            }
            try await cluster.converge(anna, ben)
            #expect(try await Self.exact(ben.database) == Self.exact(anna.database))
        }
    }

    @Test func `F1: text and blob keys of every kind name the same record`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE texts (key TEXT PRIMARY KEY NOT NULL, n INTEGER) WITHOUT ROWID;
                CREATE TABLE pairs (a, b, n INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID;
                """
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        // Nothing may confuse a text key with the tagged form of a blob that it looks like.
        let keys = Self.nasty.filter { $0 != "NULL" && !$0.contains("randomblob") }.filter { !$0.contains(#"{"$"#) }
        try await anna.database.write { db in
            for (number, key) in keys.enumerated() {
                try db.execute(sql: "INSERT OR IGNORE INTO texts VALUES (CAST(\(key) AS TEXT), \(number))")
                try db.execute(sql: "INSERT OR IGNORE INTO pairs VALUES (\(key), \(number), 0)")
            }
        }
        try await cluster.converge(anna, ben)
        try await ben.write("UPDATE texts SET n = n + 1000; UPDATE pairs SET n = b")
        try await cluster.converge(ben, anna)
        try await anna.write("DELETE FROM texts WHERE n % 2 = 0; DELETE FROM pairs WHERE n % 3 = 0")
        try await cluster.converge(anna, ben)
        #expect(try await ben.engine.conflicts().isEmpty)
        #expect(try await ben.rows("SELECT count(*) FROM pairs WHERE n = b") != ["0"])
    }
}
