import GRDB

/// How the tables of worlds of the profile `schema` grow: each app and the server migrate when they
/// like, and in the end all have.
enum Migrations {
    /// A step from one version to the next, and what is written into what is new.
    struct Step {
        let sql: String
        let statements: [Statement]
    }

    static let steps: [Step] = [
        Step(
            sql: """
                ALTER TABLE team ADD COLUMN town TEXT DEFAULT 'nowhere';
                ALTER TABLE player ADD COLUMN stars INTEGER DEFAULT 3;
                """,
            statements: [
                Statement("town", "UPDATE team SET town = ?1 WHERE id = \(Statements.team2)"),
                Statement("no town", "UPDATE team SET town = NULL WHERE id = \(Statements.team2)"),
                Statement("stars", "UPDATE player SET stars = ?4 WHERE id % 3 = ?3 % 3"),
            ]
        ),
        Step(
            sql: """
                CREATE TABLE medal (
                    id INTEGER PRIMARY KEY, player_id INTEGER NOT NULL REFERENCES player ON DELETE CASCADE,
                    kind TEXT);
                CREATE INDEX medal_player ON medal (player_id);
                ALTER TABLE team ADD COLUMN motto TEXT NOT NULL DEFAULT 'none';
                """,
            statements: [
                Statement(
                    "new medal",
                    "INSERT INTO medal (player_id, kind) SELECT id, ?1 FROM player WHERE id = \(Statements.player2)"
                ),
                Statement("other medal", "UPDATE medal SET kind = ?1 WHERE id % 3 = ?3 % 3"),
                Statement("no medal", "DELETE FROM medal WHERE player_id = \(Statements.player2)"),
                Statement("motto", "UPDATE team SET motto = ?1 WHERE id = \(Statements.team2)"),
            ]
        ),
    ]

    /// The statements that bring tables from the first version to another one.
    static func sql(_ version: Int) -> String {
        steps.prefix(version).map(\.sql).joined()
    }

    /// What can be written into the tables of a version, besides ``Statements/all``.
    static func statements(_ version: Int) -> [Statement] {
        steps.prefix(version).flatMap(\.statements)
    }

    /// All rows of all tables but the bookkeeping, with all columns, read by plain `SELECT`.
    static func rows(_ db: Database) throws -> [(table: String, bytes: [UInt8])] {
        let tables = try String.fetchAll(
            db,
            sql: """
                SELECT name FROM main.sqlite_master WHERE type = 'table'
                    AND name NOT LIKE 'tidemark~_%' ESCAPE '~' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'
                ORDER BY name
                """
        )
        return try tables.map { table in
            let columns = try String.fetchAll(
                db,
                sql: "SELECT name FROM pragma_table_info(?) ORDER BY pk = 0, pk, name",
                arguments: [table]
            )
            let list = columns.joined(separator: ", ")
            let sql = "SELECT \(list) FROM main.\(table) ORDER BY \(list)"
            return (table, try RowBytes.read(sql, columns: columns.count, in: db))
        }
    }
}
