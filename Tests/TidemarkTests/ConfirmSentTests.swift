import Synchronization
import Testing
import TidemarkCore
import TidemarkTestSupport

@testable import Tidemark

/// A push answered with new ids only: the rows stay in place, and equal those of all other devices.
@Suite struct ConfirmSentTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE, lead INTEGER REFERENCES player (id));
        CREATE TABLE player (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id), name TEXT,
            boss INTEGER REFERENCES player (id), score REAL DEFAULT 1.5, photo BLOB);
        CREATE TABLE plays (player INTEGER REFERENCES player (id), game TEXT, note TEXT,
            PRIMARY KEY (player, game)) WITHOUT ROWID;
        CREATE TABLE badge (id INTEGER PRIMARY KEY REFERENCES player (id), text TEXT);
        """
    private static let seed = """
        INSERT INTO team VALUES (1, 'red', NULL);
        INSERT INTO player VALUES (1, 1, 'Anna', NULL, 0.1, x'00ff');
        INSERT INTO plays VALUES (1, 'chess', NULL);
        """

    /// A cluster, and two devices with the server's fingerprint.
    private func meeting() async throws -> (cluster: Cluster, TestDevice, TestDevice) {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna", limits: .withoutLending)
        let ben = try await cluster.device("ben", limits: .withoutLending)
        for device in [anna, ben] { try await device.engine.sync() }
        return (cluster, anna, ben)
    }

    /// The number of answers so far with ids only.
    private func short(_ device: TestDevice) -> Int {
        device.transport.faults.answers.count { $0.contains(#""echo":"ids""#) }
    }

    @Test func `A3 A4: one request gives related new rows their ids in keys and references`() async throws {
        let (cluster, anna, ben) = try await meeting()
        try await anna.write(
            """
            INSERT INTO team (name) VALUES ('blue');
            INSERT INTO player (team, name) SELECT id, 'Cleo' FROM team WHERE name = 'blue';
            INSERT INTO player (team, name, boss) SELECT team, 'Dan', id FROM player WHERE name = 'Cleo';
            UPDATE team SET lead = (SELECT id FROM player WHERE name = 'Dan') WHERE name = 'blue';
            INSERT INTO plays SELECT id, 'go', 'x' FROM player WHERE name = 'Dan';
            INSERT INTO badge SELECT id, 'x' FROM player WHERE name = 'Dan';
            """
        )
        try await anna.write("UPDATE player SET team = (SELECT id FROM team WHERE name = 'blue') WHERE id = 1")
        try await anna.write("DELETE FROM plays WHERE player = 1")
        let events = try await anna.events { try await anna.engine.sync() }
        #expect(short(anna) == 1)
        #expect(anna.transport.faults.requests.count == 1)
        #expect(
            events.contains { if case .identitiesAssigned("player", let ids) = $0 { ids.count == 2 } else { false } })
        let family = """
            SELECT t.id || ' ' || t.lead || ' ' || p.id || ' ' || p.name || ' ' || ifnull(p.boss, '-') || ' '
                || ifnull((SELECT game FROM plays WHERE player = p.id), '-') || ' '
                || ifnull((SELECT text FROM badge WHERE id = p.id), '-')
            FROM team AS t JOIN player AS p ON p.team = t.id ORDER BY p.id
            """
        let rows = ["2 3 1 Anna - - -", "2 3 2 Cleo - - -", "2 3 3 Dan 2 go x"]
        #expect(try await anna.rows(family) == rows)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows(family) == rows)
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_base") == ["0"])
    }

    @Test(arguments: [
        "UPDATE player SET score = 7 WHERE name IN ('Anna', 'Cleo')", "UPDATE player SET name = name || '!'",
        "DELETE FROM player WHERE name = 'Cleo'",
        "DELETE FROM player WHERE name = 'Cleo'; INSERT INTO player (name) VALUES ('Cleo')",
        "UPDATE player SET boss = (SELECT id FROM player WHERE name = 'Cleo') WHERE name = 'Anna'",
        "INSERT INTO plays SELECT id, 'go', 'x' FROM player WHERE name = 'Cleo'",
        "INSERT OR REPLACE INTO player SELECT id, team, 'Eve', boss, 2, photo FROM player WHERE name = 'Anna'",
    ]) func `A4 A6: edits made during a request are sent next, with the confirmed rows as base`(edit: String)
        async throws
    {
        let (cluster, anna, ben) = try await meeting()
        try await anna.write("INSERT INTO player (team, name) VALUES (1, 'Cleo')")
        try await anna.write("UPDATE player SET score = 3, photo = x'01' WHERE name = 'Anna'")
        anna.transport.faults.whileInFlight { try await anna.write(edit) }
        try await anna.engine.sync()
        #expect(short(anna) > 0)
        let answers = anna.transport.faults.requests.count
        try await cluster.converge(anna, ben)
        #expect(anna.transport.faults.requests.count <= answers + 2)
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_base") == ["0"])
        // The confirmed rows equal the server's: a copy of the file agrees.
        let verification = try await anna.engine.verify()
        #expect(verification.records.isEmpty)
    }

    @Test func `rule 3: after a lost answer the retry returns whole rows, and later edits stay`() async throws {
        let (cluster, anna, ben) = try await meeting()
        try await anna.write("INSERT INTO player (team, name) VALUES (1, 'Cleo')")
        anna.transport.faults.add(.answerLost)
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        try await anna.write("UPDATE player SET name = 'Clea' WHERE name = 'Cleo'")
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT name FROM player ORDER BY id") == ["Anna", "Clea"])
        #expect(try await cluster.rows("SELECT count(*) FROM player") == ["2"])
    }

    @Test func `A5 A6: after others' changes, or with a conflict, the answer has whole rows`() async throws {
        let (cluster, anna, ben) = try await meeting()
        try await ben.write("UPDATE player SET score = 9 WHERE id = 1")
        try await ben.engine.sync()
        try await anna.write("INSERT INTO player (team, name) VALUES (1, 'Cleo')")
        try await anna.engine.sync()
        #expect(short(anna) == 0)
        try await ben.engine.sync()
        // Two devices use one name: the second is refused, and gets the current rows.
        try await ben.write("INSERT INTO team (name) VALUES ('green')")
        try await ben.engine.sync()
        try await anna.write("INSERT INTO team (name) VALUES ('green')")
        try await anna.engine.sync()
        #expect(short(anna) == 0)
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT name FROM team ORDER BY name") == ["green", "red"])
    }

    @Test func `the answer contains the effects of the server's triggers and cascades`() async throws {
        let (cluster, anna, ben) = try await meeting()
        try cluster.writeOutside(
            """
            CREATE TRIGGER loud AFTER UPDATE OF name ON player
            BEGIN UPDATE player SET name = upper(new.name) WHERE id = new.id; END
            """
        )
        try await anna.write("UPDATE player SET name = 'cleo' WHERE id = 1")
        try await anna.engine.sync()
        #expect(short(anna) == 0)
        #expect(try await anna.rows("SELECT name FROM player") == ["CLEO"])
        try await cluster.converge(anna, ben)
    }

    @Test func `rule 17: a row changed behind the triggers is noticed by the next check of all rows`() async throws {
        let (cluster, anna, ben) = try await meeting()
        try await anna.write("UPDATE player SET score = 5 WHERE id = 1")
        // The edit disappears from the table but not from the outbox, as after a disk fault.
        anna.transport.faults.whileInFlight {
            try await anna.database.write { db in
                try DeviceFile.whileApplying(db) { try db.execute(sql: "UPDATE player SET score = 0.1 WHERE id = 1") }
            }
        }
        try await anna.engine.sync()
        #expect(short(anna) == 1)
        // The drain has summed the edit, so its confirmation reads no row.
        #expect(anna.transport.faults.requests.count == 1)
        #expect(try await anna.rows("SELECT score FROM player") == ["0.1"])
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT score FROM player") == ["5.0"])
        try await cluster.converge(anna, ben)
    }

    @Test func `a short answer without a fingerprint makes the device ask for whole rows`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let setUp = try await cluster.device("anna", limits: .withoutLending)
        let way = Lying(setUp.transport, #""fingerprint""#, #""fingerprinX""#)
        let anna = try await cluster.device("liar", over: way, limits: .withoutLending)
        try await anna.engine.sync()
        try await anna.write("INSERT INTO player (team, name) VALUES (1, 'Cleo')")
        way.isLying = true
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_changeset") == ["0"])
        #expect(try await anna.rows("SELECT name FROM player ORDER BY id") == ["Anna", "Cleo"])
        way.isLying = false
        try await cluster.converge(anna)
    }

    @Test func `a short answer that gives a new record another's id changes nothing`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let setUp = try await cluster.device("anna", limits: .withoutLending)
        let way = Lying(setUp.transport, #"{"create":[2]"#, #"{"create":[1]"#)
        let anna = try await cluster.device("liar", over: way, limits: .withoutLending)
        try await anna.engine.sync()
        try await anna.write("INSERT INTO player (team, name) VALUES (1, 'Cleo')")
        let before = try await anna.rows("SELECT * FROM player")
        way.isLying = true
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        #expect(try await anna.rows("SELECT * FROM player") == before)
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_changeset") == ["1"])
        way.isLying = false
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT name FROM player ORDER BY id") == ["Anna", "Cleo"])
    }
}

/// A transport that changes answers.
private final class Lying: ForwardingTransport {
    let real: InProcessTransport
    private let (old, new): (String, String)
    private let state = Mutex(false)

    init(_ real: InProcessTransport, _ old: String, _ new: String) {
        self.real = real
        self.old = old
        self.new = new
    }

    var isLying: Bool {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }

    func news(zone: String, device: String, since tag: ZoneTag) async throws -> [UInt8]? {
        try await real.news(zone: zone, device: device, since: tag)
    }

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let answer = try await real.sync(zone: zone, body: body)
        guard isLying else { return answer }
        let text = String(decoding: answer, as: UTF8.self)
        let first = text.range(of: old).map { text.replacingCharacters(in: $0, with: new) }
        return Array((first ?? text).utf8)
    }

    func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        guard !isLying else { throw TidemarkError(.invalidResponse, "No snapshot of Tidemark.", fix: "f") }
        try await real.snapshot(zone: zone, since: base, to: path, progress: progress)
    }
}
