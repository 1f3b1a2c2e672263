import Foundation
import GRDB

/// The measured table: eight columns, some 150 bytes a row.
enum Items {
    static let columns = """
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, note TEXT NOT NULL, amount INTEGER NOT NULL,
        price REAL NOT NULL, made TEXT NOT NULL, kind TEXT NOT NULL, mark TEXT
        """
    static let schema = "CREATE TABLE item (\(columns)); CREATE INDEX item_name ON item (name);"

    /// Rows with ids from a number on, as a query.
    static func rows(_ count: Int, from first: Int = 1) -> String {
        """
        WITH RECURSIVE n (i) AS (
            SELECT \(first) UNION ALL SELECT i + 1 FROM n WHERE i < \(first + count - 1)
        )
        SELECT i AS id, 'item number ' || i AS name,
            'a note of some words about item ' || i || ', in some forty characters' AS note,
            i % 1000 AS amount, i / 8.0 AS price, '2026-11-21T10:00:00Z' AS made,
            'kind ' || (i % 7) AS kind, hex(i * 2654435761 % 4294967296) AS mark
        FROM n
        """
    }

    /// The statement that inserts new rows without ids.
    static func insertion(_ count: Int, from first: Int) -> String {
        let names = "name, note, amount, price, made, kind, mark"
        return "INSERT INTO item (\(names)) SELECT \(names) FROM (\(rows(count, from: first)))"
    }

    /// Makes a file with a number of rows, and with more tables by the given statements.
    static func make(_ count: Int, at path: String, more sql: String = "") throws {
        let file = try DatabaseQueue(path: path)
        try file.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL")
            try db.inTransaction {
                try db.execute(sql: schema)
                try db.execute(sql: sql)
                if count > 0 { try db.execute(sql: "INSERT INTO item \(rows(count))") }
                return .commit
            }
            try db.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)")
        }
        try file.close()
    }
}
