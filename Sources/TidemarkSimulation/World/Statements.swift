/// A statement of people and programs.
///
/// Every value has the name of its write. `?1` is that name, `?2` and `?3` choose records, `?4` is
/// a small number that many writes share.
struct Statement {
    let name: String
    /// The statements, one after the other.
    let parts: [(sql: String, parameterCount: Int)]
    /// Whether only a device can write it, since it makes temporary ids.
    let isForDevices: Bool

    init(_ name: String, isForDevices: Bool = false, _ parts: String...) {
        self.name = name
        self.isForDevices = isForDevices
        self.parts = parts.map { sql in (sql, (1...4).last { sql.contains("?\($0)") } ?? 0) }
    }
}

/// The statements among which edits choose.
enum Statements {
    static let all: [Statement] = [
        Statement("rename player", "UPDATE player SET name = ?1 WHERE id = \(player2)"),
        Statement("rename team", "UPDATE team SET name = ?1 WHERE id = \(team2)"),
        Statement("new player", "INSERT INTO player (team_id, name) SELECT id, ?1 FROM team WHERE id = \(team2)"),
        Statement("new team", "INSERT INTO team (name, rank) VALUES (?1, NULL)"),
        Statement("remove player", "DELETE FROM player WHERE id = \(player2)"),
        Statement("remove team", "DELETE FROM team WHERE id = \(team2)"),
        Statement("new ranked team", "INSERT OR IGNORE INTO team (name, rank) VALUES (?1, ?4)"),
        Statement("score", "UPDATE player SET score = ?4 + 0.1, name = ?1 WHERE id = \(player2)"),
        Statement("score only", "UPDATE player SET score = ?4 + ?2 / 7.0 WHERE id = \(player3)"),
        Statement("transfer", "UPDATE player SET team_id = \(team2), name = ?1 WHERE id = \(player3)"),
        Statement("captains", "UPDATE player SET captain_id = \(player2), name = ?1 WHERE id % 3 = ?3 % 3"),
        Statement("no captain", "UPDATE player SET captain_id = NULL WHERE id = \(player2)"),
        Statement(
            "new player with captain",
            """
            INSERT INTO player (team_id, name, captain_id)
            SELECT team_id, ?1, id FROM player WHERE id = \(player2)
            """), Statement("rank", "UPDATE team SET rank = ?4, name = ?1 WHERE id = \(team2)"),
        Statement("rank if free", "UPDATE OR IGNORE team SET rank = ?4 WHERE id = \(team2)"),
        Statement("take rank", "UPDATE OR REPLACE team SET rank = ?4, name = ?1 WHERE id = \(team2)"),
        Statement("park rank", "UPDATE team SET rank = NULL WHERE id = \(team2)"),
        Statement("raise ranks", "UPDATE team SET rank = -rank WHERE rank IS NOT NULL"),
        Statement(
            "tag",
            """
            INSERT INTO tag VALUES ('t' || ?4, zeroblob(3), ?1)
            ON CONFLICT (name) DO UPDATE SET colour = CAST(?1 AS BLOB)
            """), Statement("rename tag", "UPDATE tag SET title = ?1 WHERE name = \(tag2)"),
        Statement(
            "tag player",
            """
            INSERT OR REPLACE INTO player_tag
            SELECT p.id, t.name, ?1 FROM player AS p, tag AS t
            WHERE p.id = \(player2) AND t.name = \(tag3)
            """), Statement("note", "UPDATE player_tag SET note = ?1 WHERE player_id = \(player2)"),
        Statement("untag player", "DELETE FROM player_tag WHERE player_id = \(player2)"),
        Statement("remove tag", "DELETE FROM tag WHERE name = \(tag2) AND name NOT IN (SELECT tag FROM player_tag)"),
        Statement("remove used tag", "DELETE FROM tag WHERE name = \(tag2)"),
        Statement(
            "contract",
            """
            INSERT INTO contract SELECT id, ?1 FROM player WHERE id = \(player2)
            ON CONFLICT (player_id) DO UPDATE SET terms = excluded.terms
            """), Statement("end contract", "DELETE FROM contract WHERE player_id = \(player2)"),
        Statement(
            "move contract",
            "UPDATE OR IGNORE contract SET player_id = \(player2), terms = ?1 WHERE player_id = \(player3)"),
        Statement(
            "replace team",
            "INSERT OR REPLACE INTO team (id, name, rank) SELECT id, ?1, rank FROM team WHERE id = \(team2)"),
        Statement(
            "player of the newest team",
            "INSERT INTO player (team_id, name) SELECT id, ?1 FROM team ORDER BY id DESC LIMIT 1"),
        Statement(
            "numbered player",
            isForDevices: true,
            "UPDATE tidemark_temporary SET next = next - 1",
            """
            INSERT INTO player (id, team_id, name)
            SELECT t.next + 1, team.id, ?1 FROM tidemark_temporary AS t, team
            WHERE team.id = \(team2)
            """),
        Statement(
            "rotate ranks", "UPDATE team SET rank = rank + 1000 WHERE rank IS NOT NULL",
            "UPDATE team SET rank = (rank - 999) % 6, name = ?1 WHERE rank IS NOT NULL"),
        Statement("remove all of a team", "DELETE FROM player WHERE team_id = \(team2)"),
        Statement("recreate", "DELETE FROM tag WHERE name = 't' || ?4"),
    ]

    static let team2 = nth("team", key: "id", parameter: 2)
    static let player2 = nth("player", key: "id", parameter: 2)
    static let player3 = nth("player", key: "id", parameter: 3)
    private static let tag2 = nth("tag", key: "name", parameter: 2)
    private static let tag3 = nth("tag", key: "name", parameter: 3)

    /// The record that a parameter chooses.
    static func nth(_ table: String, key: String, parameter: Int) -> String {
        """
        (SELECT \(key) FROM \(table) ORDER BY \(key)
            LIMIT 1 OFFSET ?\(parameter) % max(1, (SELECT count(*) FROM \(table))))
        """
    }
}
