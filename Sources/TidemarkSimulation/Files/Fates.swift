import TidemarkCore

/// The tables of worlds of the profile `fates`, in which every edit is followed to its end.
///
/// Each text in ``texts`` belongs to one write, so that a reader of any file recognises the write. The amount of an
/// item is the sum of its postings, which are written in the same transaction. A part has the mark of its item.
enum Fates {
    /// The version that stands for these tables among ``Migrations/versions``.
    static let version = Stocks.version + 1

    static let sql = """
        CREATE TABLE item (
            id INTEGER PRIMARY KEY AUTOINCREMENT, mark TEXT, name TEXT, note TEXT, extra TEXT,
            amount INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE part (
            id INTEGER PRIMARY KEY, item_id INTEGER NOT NULL REFERENCES item ON DELETE CASCADE, mark TEXT, name TEXT);
        CREATE INDEX part_item ON part (item_id);
        CREATE TABLE posting (
            id INTEGER PRIMARY KEY, item_id INTEGER NOT NULL REFERENCES item ON DELETE CASCADE, name TEXT, n INTEGER);
        CREATE INDEX posting_item ON posting (item_id);
        CREATE TABLE line (id INTEGER PRIMARY KEY, name TEXT, place INTEGER);
        CREATE UNIQUE INDEX line_place ON line (name, place) WHERE place > 0 AND name IS NOT NULL;
        CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT, note TEXT);
        """

    static let rows = """
        INSERT INTO item (id, mark, name) VALUES (1, 'm1', 'b.1'), (2, 'm2', 'b.2'), (3, 'm3', 'b.3');
        INSERT INTO part (item_id, mark, name) VALUES (1, 'm1', 'b.4'), (2, 'm2', 'b.5');
        INSERT INTO line (name, place) VALUES ('b.6', 1), ('b.7', 2), ('b.8', 0);
        INSERT INTO setting VALUES ('k0', 'b.9', 'b.10');
        """

    /// The columns with texts of writes, by table.
    static let texts: [(table: String, columns: [String])] = [
        ("item", ["name", "note", "extra"]), ("part", ["name"]), ("posting", ["name"]), ("line", ["name"]),
        ("setting", ["value", "note"]),
    ]

    static let statements: [Statement] = [
        Statement("rename item", "UPDATE item SET name = ?1 WHERE id = \(item2)"),
        Statement("note item", "UPDATE item SET note = ?1 WHERE id = \(item2)"),
        Statement("extra", "UPDATE item SET extra = ?1 WHERE id = \(item2)"),
        Statement("new item", "INSERT INTO item (mark, name) VALUES ('m' || ?1, ?1)"),
        Statement("numbered item", "INSERT OR IGNORE INTO item (id, mark, name) VALUES (100 + ?4, 'm' || ?1, ?1)"),
        Statement("remove item", "DELETE FROM item WHERE id = \(item2)"),
        Statement(
            "new part", "INSERT INTO part (item_id, mark, name) SELECT id, mark, ?1 FROM item WHERE id = \(item2)"),
        Statement(
            "part of the newest item",
            "INSERT INTO part (item_id, mark, name) SELECT id, mark, ?1 FROM item ORDER BY id DESC LIMIT 1"),
        Statement("rename part", "UPDATE part SET name = ?1 WHERE id = \(part2)"),
        Statement("remove part", "DELETE FROM part WHERE id = \(part2)"),
        Statement(
            "add", "INSERT INTO posting (item_id, name, n) SELECT id, ?1, 1 FROM item WHERE id = \(item2)",
            "UPDATE item SET amount = amount + 1 WHERE id = \(item2) AND ?1 IS NOT NULL"),
        Statement(
            "count anew",
            "INSERT INTO posting (item_id, name, n) SELECT id, ?1, ?4 - amount FROM item WHERE id = \(item2)",
            "UPDATE item SET amount = ?4 WHERE id = \(item2)"),
        Statement("new line", "INSERT INTO line (name, place) VALUES (?1, ?4)"),
        Statement("change line", "UPDATE line SET name = ?1 WHERE id = \(line2)"),
        Statement("remove line", "DELETE FROM line WHERE id = \(line2)"),
        Statement("setting", "INSERT OR IGNORE INTO setting (key, value) VALUES ('k' || ?4, ?1)"),
        Statement("change setting", "UPDATE setting SET value = ?1 WHERE key = 'k' || ?4"),
        Statement("note setting", "UPDATE setting SET note = ?1 WHERE key = 'k' || ?4"),
        Statement("remove setting", "DELETE FROM setting WHERE key = 'k' || ?4"),
    ]

    static let item2 = Statements.nth("item", key: "id", parameter: 2)
    private static let part2 = Statements.nth("part", key: "id", parameter: 2)
    private static let line2 = Statements.nth("line", key: "id", parameter: 2)

    /// Amounts add up under each of the mixes.
    static let mixes: [[String: ConflictPolicy]] = [ConflictPolicy.reject, .columns].map { policy in
        Dictionary(uniqueKeysWithValues: texts.map { ($0.table, policy) } + [("item.amount", .add)])
    }
}
