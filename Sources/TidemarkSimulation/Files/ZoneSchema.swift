import TidemarkHistory

/// The tables of every world: parents and children, cascades, references that are emptied, unique
/// values, and every kind of key.
enum ZoneSchema {
    /// A table, for a reader outside the engine.
    struct Table {
        let name: String
        /// All columns, in table order, by their first names.
        private(set) var columns: [String]
        /// The defaults of columns, in canonical JSON; NULL if not listed.
        private(set) var defaults: [String: String]
        /// The indexes of the key's columns in `columns`.
        let key: [Int]
        /// Whether the server gives the keys.
        var hasAssignedKeys = false
        /// Whether the key is one text.
        var isText = false
        var references: [(columns: [String], parent: String)] = []
        var unique: [Rules.Unique] = []
        /// The columns that the app's triggers at the server write.
        var triggered: Set<String> = []
        /// The least integers that a CHECK allows, by column.
        var minimums: [String: Int64] = [:]
        /// The later names of renamed columns.
        private(set) var renames: [String: String] = [:]
        /// The query for all rows in key order.
        private(set) var rowsSQL = ""

        init(_ name: String, _ columns: [String], key: [Int], defaults: [String: String] = [:]) {
            self.name = name
            self.columns = columns
            self.key = key
            self.defaults = defaults
            makeSQL()
        }

        /// Adds a column.
        mutating func add(_ column: String, default value: String) {
            columns.append(column)
            defaults[column] = value
            makeSQL()
        }

        /// Renames a column.
        mutating func rename(_ column: String, to name: String) {
            renames[column] = name
            makeSQL()
        }

        private mutating func makeSQL() {
            let names = columns.map { renames[$0] ?? $0 }
            let order = key.map { names[$0] }.joined(separator: ", ")
            rowsSQL = "SELECT \(names.joined(separator: ", ")) FROM main.\(name) ORDER BY \(order)"
        }

        /// The columns with ids that the server gives: the key, or a reference to one.
        var ids: [Int] {
            let parents = ["team", "player", "folder"]
            let columns = references.filter { parents.contains($0.parent) }.flatMap(\.columns)
            return (hasAssignedKeys ? [key[0]] : [])
                + self.columns.indices.filter { columns.contains(self.columns[$0]) }
        }
    }

    static let sql = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL, rank INTEGER UNIQUE);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES team ON DELETE CASCADE,
            name TEXT, score REAL DEFAULT 0.5, captain_id INTEGER REFERENCES player ON DELETE SET NULL);
        CREATE INDEX player_team ON player (team_id);
        CREATE INDEX player_captain ON player (captain_id);
        CREATE TABLE tag (name TEXT PRIMARY KEY, colour BLOB, title TEXT);
        CREATE TABLE player_tag (
            player_id INTEGER NOT NULL REFERENCES player ON DELETE CASCADE,
            tag TEXT NOT NULL REFERENCES tag, note TEXT, PRIMARY KEY (player_id, tag)) WITHOUT ROWID;
        CREATE INDEX player_tag_tag ON player_tag (tag);
        CREATE TABLE contract (
            player_id BIGINT PRIMARY KEY REFERENCES player ON DELETE CASCADE, terms TEXT);
        """

    static let rows = """
        INSERT INTO team VALUES (1, 's.1', 1), (2, 's.2', 2), (3, 's.3', NULL);
        INSERT INTO player (id, team_id, name) VALUES (1, 1, 's.4'), (2, 1, 's.5'), (3, 2, 's.6');
        INSERT INTO tag VALUES ('red', x'ff0000', 's.7'), ('blue', x'0000ff', 's.8');
        INSERT INTO player_tag VALUES (1, 'red', 's.9'), (3, 'blue', 's.10');
        INSERT INTO contract VALUES (2, 's.11');
        """

    static let tables: [Table] = {
        var team = Table("team", ["id", "name", "rank"], key: [0])
        team.hasAssignedKeys = true
        team.unique = [["rank"]]
        var player = Table(
            "player", ["id", "team_id", "name", "score", "captain_id"], key: [0], defaults: ["score": "0.5"])
        player.hasAssignedKeys = true
        player.references = [(["team_id"], "team"), (["captain_id"], "player")]
        var tag = Table("tag", ["name", "colour", "title"], key: [0])
        tag.isText = true
        var playerTag = Table("player_tag", ["player_id", "tag", "note"], key: [0, 1])
        playerTag.references = [(["player_id"], "player"), (["tag"], "tag")]
        var contract = Table("contract", ["player_id", "terms"], key: [0])
        contract.references = [(["player_id"], "player")]
        return [team, player, tag, playerTag, contract]
    }()
}
