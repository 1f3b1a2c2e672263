import TidemarkCore
import TidemarkHistory

/// The steps of the tables in worlds of the profile `schema`.
///
/// Each app and the server migrate at any time, and in the end all have.
enum Migrations {
    /// A step from one version to the next.
    struct Step {
        let sql: String
        /// The statements of the migration that write into the server's rows, and into an app's.
        var backfill = (server: "", app: "")
        /// Columns that are renamed.
        var renames: [ColumnRename] = []
        /// The statements that write into the new tables and columns.
        let statements: [Statement]
        /// The names of statements that use dropped tables or columns.
        var retired: Set<String> = []
        /// The effect on the tables, for a reader outside the engine.
        let alter: @Sendable (inout [ZoneSchema.Table]) -> Void
    }

    static let steps = [columns, table, renamed]

    private static let columns = Step(
        sql: """
            ALTER TABLE team ADD COLUMN town TEXT DEFAULT 'nowhere';
            ALTER TABLE player ADD COLUMN stars INTEGER DEFAULT 3;
            """,
        statements: [
            Statement("town", "UPDATE team SET town = ?1 WHERE id = \(Statements.team2)"),
            Statement("no town", "UPDATE team SET town = NULL WHERE id = \(Statements.team2)"),
            Statement("stars", "UPDATE player SET stars = ?4 WHERE id % 3 = ?3 % 3"),
        ]
    ) { tables in
        tables[0].add("town", default: "\"nowhere\"")
        tables[1].add("stars", default: "3")
    }

    private static let table = Step(
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
                "INSERT INTO medal (player_id, kind) SELECT id, ?1 FROM player WHERE id = \(Statements.player2)"),
            Statement("other medal", "UPDATE medal SET kind = ?1 WHERE id % 3 = ?3 % 3"),
            Statement("no medal", "DELETE FROM medal WHERE player_id = \(Statements.player2)"),
            Statement("motto", "UPDATE team SET motto = ?1 WHERE id = \(Statements.team2)"),
        ]
    ) { tables in
        var medal = ZoneSchema.Table("medal", ["id", "player_id", "kind"], key: [0])
        medal.hasAssignedKeys = true
        medal.references = [(["player_id"], "player")]
        tables.append(medal)
        tables[0].add("motto", default: "\"none\"")
    }

    private static let renamed = Step(
        sql: """
            ALTER TABLE team RENAME COLUMN town TO city;
            ALTER TABLE player ADD COLUMN height REAL DEFAULT 1.5;
            CREATE TABLE prize (code TEXT PRIMARY KEY, title TEXT, worth INTEGER DEFAULT 1);
            """,
        backfill: (
            "UPDATE team SET motto = 'm' || rank WHERE rank IS NOT NULL",
            "UPDATE team SET motto = iif(rank % 2, 'm', 'a') || rank WHERE rank IS NOT NULL"
        ),
        renames: [ColumnRename(table: "team", old: "town", new: "city")],
        statements: [
            Statement("city", "UPDATE team SET city = ?1 WHERE id = \(Statements.team2)"),
            Statement("no city", "UPDATE team SET city = NULL WHERE id = \(Statements.team2)"),
            Statement("height", "UPDATE player SET height = ?4 + 0.1 WHERE id = \(Statements.player2)"),
            Statement(
                "prize",
                """
                INSERT INTO prize (code, title) VALUES ('p' || ?4, ?1)
                ON CONFLICT (code) DO UPDATE SET title = excluded.title
                """), Statement("worth", "UPDATE prize SET worth = ?3 WHERE code = 'p' || ?4"),
            Statement("no prize", "DELETE FROM prize WHERE code = 'p' || ?4"),
        ],
        retired: ["town", "no town"]
    ) { tables in
        tables[0].rename("town", to: "city")
        tables[1].add("height", default: "1.5")
        var prize = ZoneSchema.Table("prize", ["code", "title", "worth"], key: [0], defaults: ["worth": "1"])
        prize.isText = true
        tables.append(prize)
    }

    /// The tables of each version, and those that no migration leads to: ``Shapes``, ``Stocks``, and ``Fates``, whose
    /// ledger reads rows by itself.
    static let versions: [[ZoneSchema.Table]] =
        steps.reduce(into: [ZoneSchema.tables]) {
            var next = $0[$0.count - 1]
            $1.alter(&next)
            $0.append(next)
        } + [Shapes.tables, ZoneSchema.tables + [Stocks.table], []]

    /// Every table that a world may have, in its last version.
    static let allTables = versions[steps.count] + Shapes.tables + [Stocks.table]

    /// The steps that lead to a version.
    private static func steps(to version: Int) -> ArraySlice<Step> {
        version > steps.count ? [] : steps.prefix(version)
    }

    /// The layout of a version's tables, as the history has it.
    static func layout(_ version: Int) -> Layout {
        Layout(
            Dictionary(
                uniqueKeysWithValues: versions[version].map { table in
                    let columns = table.columns.map { ($0, table.defaults[$0] ?? "null") }
                    return (table.name, Cells(uniqueKeysWithValues: columns))
                }
            ))
    }

    /// The first name of each renamed column, by table and later name.
    static let formerNames: [String: [String: String]] = steps.flatMap(\.renames).reduce(into: [:]) {
        $0[$1.table, default: [:]][$1.new] = $1.old
    }

    /// The renames that the app of a version declares.
    static func renames(_ version: Int) -> [ColumnRename] { steps(to: version).flatMap(\.renames) }

    /// The statements that bring tables from the first version to another one.
    static func sql(_ version: Int) -> String { steps(to: version).map(\.sql).joined() }

    /// The statements for the tables of a version, besides ``Statements/all``.
    static func statements(_ version: Int) -> [Statement] {
        if version == Stocks.version { return Stocks.statements }
        let retired = steps(to: version).reduce(Set<String>()) { $0.union($1.retired) }
        return steps(to: version).flatMap(\.statements).filter { !retired.contains($0.name) }
    }
}
