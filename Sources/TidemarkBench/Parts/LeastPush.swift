import GRDB
import TidemarkGzip

/// The least push that triggers capture, that survives a power cut on both sides, and that gives
/// new ids.
///
/// Each step runs once, in as few statements as SQLite allows, and without any safety. The device
/// makes one JSON text of the captured rows of a change set, and keeps it. The server inserts from
/// the text and keeps it as the revision, while its triggers log the records. The device then
/// replaces its own ids by the new ones. There are no checks, hashes, comparisons or conflicts, and
/// no HTTP between the two.
struct LeastPush {
    private let (device, server): (DatabaseQueue, DatabaseQueue)
    private let (count, size): (Int, Int)

    /// Makes both files, and new rows in the device's.
    init(_ count: Int, in size: Int, at paths: (device: String, server: String)) throws {
        self.count = count
        self.size = size
        for path in [paths.device, paths.server] {
            try Items.make(0, at: path)
            try LeastCapture.rows.add(to: path)
        }
        device = try DatabaseQueue(path: paths.device)
        server = try DatabaseQueue(path: paths.server)
        for side in [device, server] {
            try side.writeWithoutTransaction { db in
                try db.execute(sql: "PRAGMA synchronous = FULL; CREATE TABLE change_set (json TEXT NOT NULL)")
            }
        }
        try device.write { db in
            try db.execute(sql: "INSERT INTO item SELECT -id, \(Self.names) FROM (\(Items.rows(count)))")
        }
    }

    /// Pushes all of them.
    func run() throws -> Sample {
        let sample = try Sample.time {
            let texts = try travel(freeze())
            let ids = try travel([commit(texts)])
            try rename(ids[0])
        }
        let rows = try [device, server].map { side in
            try side.read { db in try Row.fetchAll(db, sql: "SELECT * FROM item ORDER BY id") }
        }
        try Agreement.require(rows[0].count == count && rows[0] == rows[1]) {
            "the least push left \(rows[0].count) and \(rows[1].count) rows"
        }
        for side in [device, server] { try side.close() }
        return sample
    }

    private static let names = "name, note, amount, price, made, kind, mark"

    /// The captured rows, one text for each change set.
    private func freeze() throws -> [String] {
        try device.write { db in
            let members = Self.names.split(separator: ", ").map { "'\($0)', new_\($0)" }
            let sets = try stride(from: 1, through: count, by: size).map { first in
                try String.fetchOne(
                    db.cachedStatement(
                        sql: """
                            SELECT json_group_array(json_object('id', new_id, \(members.joined(separator: ", "))))
                            FROM \(LeastCapture.table) WHERE number BETWEEN ?1 AND ?2
                            """),
                    arguments: [first, first + size - 1]) ?? "[]"
            }
            for set in sets { try keep(set, in: db) }
            try db.execute(sql: "DELETE FROM \(LeastCapture.table)")
            return sets
        }
    }

    /// Compresses texts together, and decompresses them.
    private func travel(_ texts: [String]) throws -> [String] {
        let packed = gzip(Array(texts.joined(separator: "\n").utf8))
        let bytes = try gunzip(packed, bytesMax: 1 << 30)
        return bytes.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Inserts the rows, keeps the texts, and returns the map of ids as JSON.
    private func commit(_ sets: [String]) throws -> String {
        try server.write { db in
            let values = Self.names.split(separator: ", ").map { "value ->> '\($0)'" }
            for set in sets {
                try db.cachedStatement(
                    sql: """
                        INSERT INTO item (\(Self.names)) SELECT \(values.joined(separator: ", "))
                        FROM json_each(?)
                        """
                ).execute(arguments: [set])
                try keep(set, in: db)
            }
            return try String.fetchOne(
                db,
                sql: """
                    SELECT json_group_array(json_array(-new_id, new_id)) FROM \(LeastCapture.table)
                    """) ?? "[]"
        }
    }

    private func rename(_ ids: String) throws {
        try device.write { db in
            // The engine's own writes are not captured.
            try db.execute(sql: "DROP TRIGGER least_UPDATE")
            try db.execute(
                sql: """
                    UPDATE item SET id = j.value ->> 1 FROM json_each(?) AS j
                    WHERE item.id = j.value ->> 0
                    """,
                arguments: [ids])
            try db.execute(sql: "DELETE FROM change_set")
        }
    }

    private func keep(_ set: String, in db: Database) throws {
        try db.cachedStatement(sql: "INSERT INTO change_set VALUES (?)").execute(arguments: [set])
    }
}
