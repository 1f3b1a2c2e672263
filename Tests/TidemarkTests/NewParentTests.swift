import Testing
import TidemarkCore
import TidemarkTestSupport

/// Rule 1: an edit that references a new record depends on the change set that created it, by any
/// key.
@Suite struct NewParentTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE tag (name TEXT PRIMARY KEY, colour TEXT);
        CREATE TABLE place (town TEXT, street TEXT, note TEXT, PRIMARY KEY (town, street));
        CREATE TABLE club (id TEXT PRIMARY KEY, short TEXT UNIQUE);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, name TEXT, team INTEGER REFERENCES team, tag TEXT REFERENCES tag,
            town TEXT, street TEXT, club TEXT REFERENCES club (short),
            FOREIGN KEY (town, street) REFERENCES place);
        CREATE TABLE tagged (
            player INTEGER REFERENCES player, tag TEXT REFERENCES tag, PRIMARY KEY (player, tag));
        """
    private static let seed = """
        INSERT INTO team VALUES (1, 'Kiel'); INSERT INTO player (id, name) VALUES (1, 'Anna');
        """

    @Test(arguments: [
        ("INSERT INTO team VALUES (NULL, 'new')", "UPDATE player SET team = (SELECT max(id) FROM team)"),
        ("INSERT INTO tag VALUES ('new', 'red')", "UPDATE player SET tag = 'new'"),
        ("INSERT INTO tag VALUES ('n\"1', 'red')", "INSERT INTO tagged VALUES (1, 'n\"1')"),
        (
            "INSERT INTO place VALUES ('Kiel', 'new', NULL)",
            "INSERT INTO player (name, town, street) VALUES ('Ben', 'Kiel', 'new')"
        ), ("INSERT INTO club VALUES ('c1', 'new')", "UPDATE player SET club = 'new'"),
    ]) func `edits that reference a refused new record are parked with it`(parent: String, child: String) async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        // The new record is in a change set with an edit that conflicts.
        try await anna.write("UPDATE team SET name = 'a' WHERE id = 1; \(parent)")
        try await anna.write(child)
        try await ben.write("UPDATE team SET name = 'b' WHERE id = 1")
        try await ben.engine.sync()
        try await cluster.converge(anna, ben)
        let conflicts = try await anna.engine.conflicts()
        #expect(conflicts.map(\.reasons.first?.rule) == ["changed", "predecessor"])
        // Another device creates the same record meanwhile, and there is no second one.
        if !parent.contains("NULL, 'new'") {
            try await ben.write(parent)
            try await ben.engine.sync()
            try await cluster.converge(anna, ben)
        }
        #expect(try await anna.engine.conflicts().count == 2)
    }

    @Test func `edits that reference an older record do not depend on a new one`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed + "INSERT INTO tag VALUES ('old', 'red');")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE team SET name = 'a' WHERE id = 1; INSERT INTO tag VALUES ('new', 'red')")
        try await anna.write("INSERT INTO tagged VALUES (1, 'old')")
        try await ben.write("UPDATE team SET name = 'b' WHERE id = 1")
        try await ben.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(try await anna.engine.conflicts().map(\.reasons.first?.rule) == ["changed"])
        #expect(try await cluster.rows("SELECT tag FROM tagged") == ["old"])
    }
}
