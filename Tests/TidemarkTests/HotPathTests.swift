#if !canImport(Darwin)
import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// SQLite's plans for the statements of pushes, pulls and idle syncs, of the embedded
/// store and of devices: for zones and histories of any size, none scans them.
@Suite struct HotPathTests {
    /// The tables that may be scanned: they do not grow with the zone or its history.
    private static let small = [
        "tidemark_zone": "one row", "tidemark_state": "one row", "tidemark_device": "one row",
        "tidemark_lock": "one row", "tidemark_lineage": "a row each time that the zone was restored or rebuilt",
        "tidemark_served_column": "a row a column", "tidemark_identity": "a row a table",
        "tidemark_temporary": "a row a table", "sqlite_sequence": "a row a table",
        "tidemark_changeset": "what waits on the device", "tidemark_outbox": "what waits on the device",
        "tidemark_after": "what waits on the device", "tidemark_base": "what waits on the device",
        "tidemark_outside": "what waits on the device, or for a decision", "tidemark_independent": "a row a table",
        "tidemark_conflict": "what waits for a decision", "tidemark_conflict_record": "what waits for a decision",
        "tidemark_capture": "captured since the last round", "tidemark_collation": "a row a collation",
    ]

    /// The same for tables of captured rows.
    private static let smallPrefixes = ["tidemark_capture_", "tidemark_evicted_"]

    /// The tables in which not even the rows of one table or device may be scanned.
    private static let histories: Set = ["tidemark_log", "tidemark_idmap"]

    /// Permitted scans: a part of their text or plan, and the reason.
    private static let excepted = [
        "ORDER BY number DESC LIMIT 1) AS last_note": "ends at the first row",
        "FROM tidemark_kept WINDOW newest": "Limits.keptChangeSetsMax bounds that table",
        "INDEX tidemark_idmap_offered": "a partial index, of ids that are offered again just now",
        "SELECT count(*) FROM (\n    SELECT 1 FROM main.": "looks at no more rows than Limits.fingerprintRowsMax",
        "AS c\nWHERE c.": "after another program has deleted parents, and where a set is refused",
    ]

    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE, rank INTEGER);
        CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT,
            team_id INTEGER REFERENCES team ON DELETE CASCADE);
        CREATE TABLE tag (name TEXT PRIMARY KEY);
        CREATE TABLE player_tag (
            player_id INTEGER REFERENCES player ON DELETE CASCADE, tag TEXT REFERENCES tag,
            PRIMARY KEY (player_id, tag)) WITHOUT ROWID;
        CREATE INDEX player_tag_tag ON player_tag (tag);
        """
    private static let index = "CREATE INDEX player_team ON player (team_id);"
    private static let seed = """
        INSERT INTO team (name) VALUES ('Kiel'), ('Bonn'), ('Ulm');
        INSERT INTO player (name, team_id) VALUES ('Anna', 1), ('Ben', 2), ('Cleo', 3);
        INSERT INTO tag VALUES ('red'), ('blue');
        INSERT INTO player_tag VALUES (1, 'red'), (3, 'blue');
        """

    @Test func `A9: no statement of a push, a pull or an idle sync scans a zone`() async throws {
        let (statements, scans) = try await Self.scans(Self.schema + Self.index)
        for scan in scans {
            let plan = scan.statement.plan.joined(separator: "; ")
            Issue.record("\(scan.tables.sorted()) in \(scan.statement.file): \(scan.statement.sql): \(plan)")
        }
        let files = Dictionary(grouping: statements, by: \.file).mapValues(\.count)
        // Both sides have statements: the recording has missed neither.
        for name in ["zone.sqlite", "anna.sqlite", "ben.sqlite"] { #expect(files[name, default: 0] > 60, "\(name)") }
        for table in ["tidemark_log", "tidemark_verdict", "tidemark_idmap", "tidemark_kept", "tidemark_revision_rest"] {
            #expect(statements.contains { $0.sql.contains(table) }, "\(table)")
        }
    }

    @Test func `an app's reference without an index shows as a scan at a deletion`() async throws {
        let (_, scans) = try await Self.scans(Self.schema)
        #expect(scans.contains { $0.statement.file == "zone.sqlite" })
        for scan in scans { #expect(scan.tables == ["player"], "\(scan.statement)") }
    }

    /// The statements of a typical day in miniature, and the scans among them.
    private static func scans(_ schema: String) async throws -> (
        statements: [StatementPlans.Statement], scans: [(tables: Set<String>, statement: StatementPlans.Statement)]
    ) {
        let policies = ["player": ConflictPolicy.latest]
        // The log is compacted meanwhile.
        var serverLimits = Limits.standard
        serverLimits.revisionsKept = 4
        serverLimits.compactionStepMin = 1
        let cluster = try Cluster(schema: schema, seed: seed, policies: policies)
        let plans = StatementPlans(of: cluster.folder)
        // Reopened, so that the recorder sees its connections and no statement is cached.
        try await cluster.store.close()
        cluster.service.store = try EmbeddedStore(
            path: cluster.zonePath, newEpoch: UUID(), policies: policies, limits: serverLimits)
        // With so few rows a device would compute their fingerprint at each sync.
        var limits = Limits.standard
        limits.fingerprintRowsMax = 1
        let anna = try await cluster.device("anna", limits: limits)
        let ben = try await cluster.device("ben", limits: limits)
        let statements = try await plans.recording { try await day(cluster, anna, ben) }
        var scans: [(tables: Set<String>, statement: StatementPlans.Statement)] = []
        for (file, statements) in Dictionary(grouping: statements, by: \.file) {
            let path = cluster.folder.appending(path: file).path
            let tables = try await DatabaseQueue(path: path).read { db in
                try String.fetchSet(db, sql: "SELECT name FROM sqlite_master WHERE type = 'table'")
            }
            for statement in statements {
                let text = statement.sql + statement.plan.joined()
                guard !excepted.keys.contains(where: text.contains) else { continue }
                let scanned = statement.scanned(of: tables, histories: histories).filter { name in
                    small[name] == nil && !smallPrefixes.contains(where: name.hasPrefix)
                }
                if !scanned.isEmpty { scans.append((scanned, statement)) }
            }
        }
        return (statements, scans)
    }

    private static func day(_ cluster: Cluster, _ anna: TestDevice, _ ben: TestDevice) async throws {
        // New records that refer to each other, an edit, a deletion with a cascade.
        try await anna.write(
            """
            INSERT INTO team (name) VALUES ('Jena');
            INSERT INTO player (name, team_id) VALUES ('Dora', last_insert_rowid());
            INSERT INTO player_tag VALUES (last_insert_rowid(), 'red');
            UPDATE team SET rank = 1 WHERE id = 1;
            DELETE FROM team WHERE id = 3
            """
        )
        try await anna.engine.sync()
        try await ben.engine.sync()
        // A change of the same values: one is refused, the other overrules.
        for (device, number) in [(anna, 1), (ben, 2)] {
            try await device.write(
                """
                UPDATE team SET name = 'Kiel \(number)' WHERE id = 1;
                UPDATE player SET name = 'Anna \(number)' WHERE id = 1;
                REPLACE INTO tag VALUES ('red')
                """
            )
        }
        for device in [anna, ben, anna] { try await device.engine.sync() }
        // Another program's writes into the server's file, and a device's edit beside them.
        for sql in ["UPDATE player SET name = 'Bea' WHERE id = 2", "DELETE FROM team WHERE id = 2"] {
            try cluster.writeOutside(sql)
            try await cluster.store.look(zone: "main")
        }
        try await ben.write("INSERT INTO tag VALUES ('green')")
        for device in [ben, anna, ben] { try await device.engine.sync() }
        // A sync without any news.
        for device in [anna, ben] {
            try await device.engine.sync()
            _ = try await device.engine.status()
        }
        _ = try await cluster.store.latest(zone: "main")
        for rank in 1...8 {
            try await anna.write("UPDATE team SET rank = \(rank * 10) WHERE id = 1")
            for device in [anna, ben] { try await device.engine.sync() }
        }
    }
}
#endif
