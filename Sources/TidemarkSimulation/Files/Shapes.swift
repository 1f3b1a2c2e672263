import TidemarkHistory

/// The tables of worlds of the profile `shapes`.
///
/// They refer to themselves under unique and partial indexes. They include a strict table with a
/// generated column, texts that differ in case only, a table without a primary key, a composite
/// foreign key, a trigger of the app at the server, and values at the ends of their types.
enum Shapes {
    /// The version that stands for these tables among ``Migrations/versions``.
    static let version = Migrations.steps.count + 1

    static let sql = """
        CREATE TABLE folder (
            id INTEGER PRIMARY KEY, parent_id INTEGER REFERENCES folder ON DELETE SET NULL,
            pos INTEGER, name TEXT NOT NULL COLLATE NOCASE,
            label TEXT AS (name || '/' || pos) VIRTUAL, UNIQUE (parent_id, pos)) STRICT;
        CREATE UNIQUE INDEX folder_root ON folder (name) WHERE parent_id IS NULL;
        CREATE TABLE page (
            book TEXT NOT NULL, number INTEGER NOT NULL, text TEXT, weight REAL, image BLOB,
            next_book TEXT, next_number INTEGER,
            folder_id INTEGER REFERENCES folder ON DELETE CASCADE, length INTEGER,
            UNIQUE (book, number),
            FOREIGN KEY (next_book, next_number) REFERENCES page (book, number) ON DELETE SET NULL);
        CREATE INDEX page_folder ON page (folder_id);
        CREATE INDEX page_next ON page (next_book, next_number);
        CREATE TABLE pin (
            id INTEGER PRIMARY KEY, folder_id INTEGER UNIQUE REFERENCES folder ON DELETE SET NULL,
            note TEXT);
        """

    /// The app's trigger at the server, and the zone's first rows.
    static let rows = """
        CREATE TRIGGER page_length AFTER UPDATE OF text ON page BEGIN
            UPDATE page SET length = length(NEW.text) WHERE book = NEW.book AND number = NEW.number;
        END;
        INSERT INTO folder (id, parent_id, pos, name) VALUES
            (1, NULL, NULL, 'Home'), (2, 1, 0, 's.1'), (3, 1, 1, 's.2'), (4, 2, 0, 's.3');
        INSERT INTO page (book, number, text, folder_id) VALUES ('b0', 0, 's.4', 2), ('b1', 1, 's.5', 3);
        INSERT INTO pin (id, folder_id, note) VALUES (1, 2, 's.6'), (2, 4, 's.7');
        """

    static let tables: [ZoneSchema.Table] = {
        var folder = ZoneSchema.Table("folder", ["id", "parent_id", "pos", "name"], key: [0])
        folder.hasAssignedKeys = true
        folder.references = [(["parent_id"], "folder")]
        folder.unique = [["parent_id", "pos"], .init(["name"], foldingCase: true, whereNull: "parent_id")]
        var page = ZoneSchema.Table(
            "page", ["book", "number", "text", "weight", "image", "next_book", "next_number", "folder_id", "length"],
            key: [0, 1])
        page.references = [(["next_book", "next_number"], "page"), (["folder_id"], "folder")]
        page.triggered = ["length"]
        var pin = ZoneSchema.Table("pin", ["id", "folder_id", "note"], key: [0])
        pin.hasAssignedKeys = true
        pin.references = [(["folder_id"], "folder")]
        pin.unique = [["folder_id"]]
        return [folder, page, pin]
    }()

    static let statements: [Statement] = [
        Statement(
            "new folder",
            """
            INSERT OR IGNORE INTO folder (parent_id, pos, name)
            SELECT id, ?4, ?1 FROM folder WHERE id = \(folder2)
            """), Statement("new root", "INSERT OR IGNORE INTO folder (name) VALUES (iif(?3 % 2, 'F', 'f') || ?4)"),
        Statement("rename folder", "UPDATE folder SET name = ?1 WHERE id = \(folder2)"),
        Statement("name root", "UPDATE OR IGNORE folder SET name = iif(?3 % 2, 'F', 'f') || ?4 WHERE id = \(folder2)"),
        Statement("move folder", "UPDATE OR IGNORE folder SET parent_id = \(folder3), pos = ?4 WHERE id = \(folder2)"),
        Statement("make root", "UPDATE OR IGNORE folder SET parent_id = NULL WHERE id = \(folder2)"),
        Statement(
            "reverse", "UPDATE folder SET pos = -1 - pos WHERE parent_id = \(folder2)",
            "UPDATE folder SET pos = (pos + 7) % 6, name = ?1 WHERE parent_id = \(folder2)"),
        Statement(
            "far end",
            """
            UPDATE OR IGNORE folder SET pos = iif(?4 % 2, 9223372036854775807, -9223372036854775807)
            WHERE id = \(folder2)
            """), Statement("remove folder", "DELETE FROM folder WHERE id = \(folder2)"),
        Statement(
            "page",
            """
            INSERT INTO page (book, number, text, folder_id)
            SELECT 'b' || ?4 % 3, ?3 % 3, ?1, id FROM folder WHERE id = \(folder2)
            ON CONFLICT (book, number) DO UPDATE SET text = excluded.text
            """), Statement("write page", "UPDATE page SET text = ?1 WHERE number = ?3 % 3"),
        Statement(
            "next page",
            """
            UPDATE page SET (next_book, next_number) = (
                SELECT book, number FROM page ORDER BY book, number
                LIMIT 1 OFFSET ?2 % max(1, (SELECT count(*) FROM page))), text = ?1
            WHERE number = ?3 % 3
            """), Statement("half a reference", "UPDATE page SET next_book = NULL WHERE number = ?3 % 3"),
        Statement("no next page", "UPDATE page SET next_number = NULL WHERE number = ?3 % 3"),
        Statement("renumber", "UPDATE page SET number = number + 3 WHERE book = 'b' || ?4 % 3"),
        Statement(
            "weigh",
            """
            UPDATE page SET weight = CASE ?4 WHEN 0 THEN -0.0 WHEN 1 THEN 1.7976931348623157e308
                WHEN 2 THEN 4.9406564584124654e-324 WHEN 3 THEN 0.1 + 0.2 WHEN 4 THEN 1e15
                ELSE 9007199254740993.0 END WHERE number = ?3 % 3
            """),
        Statement(
            "image",
            """
            UPDATE page SET image = CASE ?4 % 3 WHEN 0 THEN zeroblob(0) WHEN 1 THEN x'00ff' END,
                text = iif(?4 < 3, '', ?1) WHERE number = ?3 % 3
            """), Statement("remove page", "DELETE FROM page WHERE number = ?3 % 3 AND book = 'b' || ?4 % 3"),
        Statement(
            "pin", "INSERT OR REPLACE INTO pin (folder_id, note) SELECT id, ?1 FROM folder WHERE id = \(folder2)"),
        Statement("move pin", "UPDATE OR REPLACE pin SET folder_id = \(folder3), note = ?1 WHERE id = \(pin2)"),
        Statement("rewrite pin", "INSERT OR REPLACE INTO pin SELECT id, folder_id, ?1 FROM pin WHERE id = \(pin2)"),
        Statement("unpin", "DELETE FROM pin WHERE id = \(pin2)"),
    ]

    private static let folder2 = Statements.nth("folder", key: "id", parameter: 2)
    private static let folder3 = Statements.nth("folder", key: "id", parameter: 3)
    private static let pin2 = Statements.nth("pin", key: "id", parameter: 2)
}
