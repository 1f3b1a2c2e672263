import Foundation
import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Values converge byte for byte: out of one file, through JSON, into another.
@Suite struct ValueFidelityTests {
    /// A value, as a SQL literal.
    struct Specimen: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let sql: String
        let argument: DatabaseValue

        init(_ name: String, sql: String = "?", _ argument: (any DatabaseValueConvertible)? = nil) {
            testDescription = name
            self.sql = sql
            self.argument = argument?.databaseValue ?? .null
        }
    }

    private static let numbers = [
        Specimen("largest integer", Int64.max), Specimen("smallest integer", Int64.min),
        Specimen("first integer beyond doubles", Int64(1 << 53) + 1), Specimen("zero", 0), Specimen("minus zero", -0.0),
        Specimen("one as real", 1.0), Specimen("least denormal", Double.leastNonzeroMagnitude),
        Specimen("greatest double", 1.7976931348623157e308), Specimen("0.1", 0.1), Specimen("a third", 1.0 / 3),
        Specimen("0.1 + 0.2", 0.1 + 0.2), Specimen("2^63 as real", 9223372036854775808.0), Specimen("1e21", 1e21),
        Specimen("infinity", Double.infinity), Specimen("minus infinity", -Double.infinity),
        Specimen("NaN, which SQLite keeps as NULL", Double.nan),
        Specimen("largest integer as text", "9223372036854775807"),
    ]
    private static let texts = [
        Specimen("NULL", sql: "NULL + ?"), Specimen("empty text", ""),
        Specimen("text of NUL alone", sql: "coalesce(?, CAST(x'00' AS TEXT))"),
        Specimen("text with NUL", sql: "coalesce(?, CAST(x'610062' AS TEXT))"),
        Specimen("every control character", String((1..<32).map { Character(UnicodeScalar($0)) })),
        Specimen("quotes and backslashes", #"'"\/`\u0041"#), Specimen("emoji", "🏐👩‍👩‍👧 \u{10FFFF}"),
        Specimen("composed", "\u{E9}"), Specimen("decomposed", "e\u{301}"),
        Specimen("line separators", "\u{2028}\u{2029}\u{FEFF}\r\n"),
        Specimen("invalid UTF-8", sql: "coalesce(?, CAST(x'ff41' AS TEXT))"),
        Specimen("half a surrogate pair", sql: "coalesce(?, CAST(x'eda080' AS TEXT))"),
        Specimen("overlong slash", sql: "coalesce(?, CAST(x'c0af' AS TEXT))"),
        Specimen("text that looks like a tag", #"{"$blob":"AA=="}"#), Specimen("text null", "null"),
        Specimen("text with an exponent", "1e5"), Specimen("text with zeros", "007"),
        Specimen("a megabyte of text", String(repeating: "Größe 🏐\n", count: 90_000)),
    ]
    private static let blobs = [
        Specimen("empty blob", sql: "coalesce(?, x'')"), Specimen("every byte", sql: "CAST(? AS BLOB)", Data256.all),
        Specimen("blob of text", sql: "coalesce(?, x'414243')"),
    ]
    static let pool = numbers + texts + blobs

    /// The transport of a row.
    enum Path: CaseIterable {
        /// As the image of a row, as in outbox and log.
        case image
        /// As a change set of the protocol.
        case wire
    }

    private static let table = """
        CREATE TABLE pool (
            id INTEGER PRIMARY KEY, untyped, t TEXT, i INTEGER, r REAL, n NUMERIC, b BLOB, "odd 'name'." TEXT
        );
        """
    private static let columns = ["untyped", "t", "i", "r", "n", "b", "odd 'name'."]

    @Test(arguments: Path.allCases, pool) func `a value keeps its bits in every type of column`(
        path: Path, specimen: Specimen
    ) throws {
        let source = try TableBench(Self.table)
        let target = try TableBench(Self.table)
        try source.queue.write { db in
            try db.execute(
                sql: """
                    INSERT INTO pool (\(SQLText.names(Self.columns)))
                    SELECT v, v, v, v, v, v, v FROM (SELECT \(specimen.sql) AS v)
                    """,
                arguments: [specimen.argument]
            )
        }
        try send(from: source, to: target, path)
        #expect(try fingerprints(source) == fingerprints(target))
        #expect(try fingerprints(target).count == 1)
    }

    @Test(arguments: Path.allCases) func `twenty thousand random doubles keep their bits`(path: Path) throws {
        let table = "CREATE TABLE pool (id INTEGER PRIMARY KEY, untyped, r REAL)"
        let source = try TableBench(table)
        let target = try TableBench(table)
        var generator = SplitMix(state: 20_240_229)
        try source.queue.write { db in
            let insert = try db.makeStatement(sql: "INSERT INTO pool VALUES (NULL, ?1, ?1)")
            for _ in 0..<20_000 {
                let double = Double(bitPattern: generator.next())
                try insert.execute(arguments: [double.isNaN ? 0.5 : double])
            }
        }
        try send(from: source, to: target, path)
        let original = try doubles(source)
        let received = try doubles(target)
        #expect(original.count == 40_000)
        #expect(original == received)
    }

    @Test func `two files with equal rows and different pages have equal digests`() throws {
        let source = try TableBench(Self.table)
        let target = try TableBench(Self.table)
        for specimen in Self.pool {
            try source.queue.write { db in
                try db.execute(
                    sql: "INSERT INTO pool (untyped, b) SELECT v, v FROM (SELECT \(specimen.sql) AS v)",
                    arguments: [specimen.argument])
            }
        }
        try send(from: source, to: target, .wire)
        #expect(try digest(source) == digest(target))
    }

    // MARK: Steps

    private func send(from source: TableBench, to target: TableBench, _ path: Path) throws {
        let table = try #require(source.schema.byName["pool"])
        let object = RowJSON.object(table.valueColumns.map(\.name))
        switch path {
        case .wire:
            let json = try source.queue.write { db in
                try EngineConnection.prepare(db, schema: source.schema)
                var text = ChangeSetText(source.schema)
                for row in try Row.fetchAll(
                    db, sql: "SELECT \(RowJSON.key(table)) AS key, \(object) AS object FROM pool")
                {
                    let object: String = row["object"]
                    text.add(
                        RecordID(table: 0, key: row["key"]), .create, members: String(object.dropFirst().dropLast()))
                }
                return text.text([])
            }
            try target.apply(json)
        case .image:
            let images = try source.queue.write { db in
                try EngineConnection.prepare(db, schema: source.schema)
                return try Row.fetchAll(db, sql: "SELECT \(RowJSON.key(table)) AS key, \(object) AS image FROM pool")
            }
            try target.queue.write { db in
                try EngineConnection.prepare(db, schema: target.schema)
                var builder = ChangeSetBuilder(target.schema)
                for image in images {
                    try builder.add(.create, RecordID(table: 0, key: image["key"]), json: image["image"])
                }
                try ChangeWriter(db, schema: target.schema, isDevice: true).write(builder.build())
            }
        }
    }

    /// Type and bytes of every value, with the bits of doubles, which SQLite prints inexactly.
    private func fingerprints(_ bench: TableBench) throws -> [String] {
        try bench.queue.read { db in
            let types = Self.columns.map {
                "typeof(\(SQLText.name($0))) || ' ' || hex(CAST(\(SQLText.name($0)) AS BLOB))"
            }
            let values = SQLText.names(Self.columns)
            let sql = "SELECT \(types.joined(separator: ", ")), \(values) FROM pool ORDER BY id"
            return try Row.fetchAll(db, sql: sql).map { row in
                row.databaseValues.enumerated().map { index, value in
                    if case .double(let double) = value.storage { return "\(double.bitPattern)" }
                    return index < Self.columns.count ? "\(value)" : ""
                }.joined(separator: "|")
            }
        }
    }

    private func doubles(_ bench: TableBench) throws -> [UInt64] {
        try bench.queue.read { db in
            try Row.fetchAll(db, sql: "SELECT untyped, r FROM pool ORDER BY id").flatMap {
                [($0[0] as Double).bitPattern, ($0[1] as Double).bitPattern]
            }
        }
    }

    private func digest(_ bench: TableBench) throws -> ZoneDigest {
        try bench.queue.write { try Digest.compute($0, schema: bench.schema, zone: "main", revision: 1) }
    }
}

private enum Data256 { static let all = Data((0...255).map { UInt8($0) }) }

/// A generator whose seed is its name.
private struct SplitMix {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var bits = state
        bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
        bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
        return bits ^ (bits >> 31)
    }
}
