import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkSQL
import TidemarkTestSupport

/// Statements of views, triggers and virtual tables from a malicious server: a device runs none that does
/// more than create its object.
@Suite struct HostileObjectTests {
    private static let table = FileObjects.Object(
        kind: .table, name: "t", sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")

    private static func reason(_ kind: FileObjects.Object.Kind, _ name: String, _ sql: String) throws -> String? {
        let object = FileObjects.Object(kind: kind, name: name, sql: sql)
        let trial = try ObjectTrial([object], beside: [table], synced: ["t"])
        #expect(trial.accepted.isEmpty != (trial.reasons[name] == nil))
        return trial.reasons[name]
    }

    @Test(arguments: [
        ("view", "CREATE VIEW v AS SELECT 1; ATTACH 'x' AS y"), ("view", "ATTACH 'x' AS v"),
        ("view", "CREATE TEMP VIEW v AS SELECT 1"), ("view", "CREATE VIEW temp.v AS SELECT 1"),
        ("view", "CREATE VIEW w AS SELECT 1"), ("view", "CREATE VIEW v AS SELECT * FROM nowhere"),
        ("view", "CREATE TABLE v (a)"), ("view", "PRAGMA user_version = 5"), ("view", ""),
        ("table", "CREATE TABLE v AS SELECT 1"), ("table", "CREATE TABLE v (a); DROP TABLE t"),
        ("table", "CREATE VIRTUAL TABLE v USING fts5(a)"), ("virtual", "CREATE VIRTUAL TABLE v USING dbstat"),
        ("virtual", "CREATE VIRTUAL TABLE v USING csv(filename='/etc/passwd')"),
        ("virtual", "CREATE VIRTUAL TABLE v USING fts5(a); DELETE FROM t"),
        ("trigger", "CREATE TRIGGER v AFTER INSERT ON t BEGIN SELECT load_extension('x'); END; VACUUM INTO 'y'"),
        ("trigger", "CREATE TEMP TRIGGER v AFTER INSERT ON t BEGIN SELECT 1; END"),
        ("trigger", "CREATE TRIGGER v AFTER INSERT ON t BEGIN UPDATE tidemark_state SET applying = 1; END"),
        ("trigger", "CREATE TRIGGER v AFTER INSERT ON tidemark_device BEGIN SELECT 1; END"),
        ("trigger", "CREATE TRIGGER v AFTER INSERT ON t BEGIN DELETE FROM sqlite_master; END"),
        ("index", "CREATE INDEX v ON t (a); DROP TABLE t"),
    ])
    func `rule 22: a statement that does more than create its object is left out`(kind: String, sql: String) throws {
        let kind = try #require(FileObjects.Object.Kind(rawValue: kind))
        #expect(try Self.reason(kind, "v", sql) != nil)
    }

    @Test(arguments: ["tidemark_device", "Tidemark_x", "sqlite_v"])
    func `rule 22: an object with a name of the engine or of SQLite is left out`(name: String) throws {
        #expect(try Self.reason(.view, name, "CREATE VIEW \(name) AS SELECT 1") != nil)
        #expect(try Self.reason(.table, name, "CREATE TABLE \(name) (a)") != nil)
    }

    @Test func `honest objects are accepted, and the effects of triggers are those that SQLite finds`() throws {
        let objects: [FileObjects.Object] = [
            .init(kind: .trigger, name: "deep", sql: "CREATE TRIGGER deep AFTER INSERT ON l BEGIN DELETE FROM t; END"),
            .init(
                kind: .trigger, name: "far",
                sql: "CREATE TRIGGER far AFTER UPDATE OF a ON t BEGIN INSERT INTO l VALUES (1); END"),
            .init(
                kind: .trigger, name: "near",
                sql: "CREATE TRIGGER near AFTER DELETE ON t BEGIN INSERT INTO m VALUES (f(1)); END"),
            .init(
                kind: .trigger, name: "rule",
                sql: "CREATE TRIGGER rule BEFORE INSERT ON t BEGIN SELECT RAISE(ABORT, 'no'); END"),
            .init(kind: .table, name: "l", sql: "CREATE TABLE l (a)"),
            .init(kind: .table, name: "m", sql: "CREATE TABLE m (a)"),
            .init(kind: .view, name: "v", sql: "CREATE VIEW v AS SELECT g(a) FROM t"),
        ]
        let trial = try ObjectTrial(objects, beside: [Self.table], synced: ["t"])
        #expect(trial.reasons == [:])
        #expect(trial.accepted.count == objects.count)
        #expect(trial.effects["deep"]?.writesSynced == true)
        #expect(trial.effects["far"]?.writesSynced == true)
        #expect(trial.effects["near"]?.feedsLocalTables == true)
        #expect(trial.effects["near"]?.unknownFunctions == ["f"])
        #expect(trial.effects["rule"]?.feedsLocalTables == false)
        #expect(trial.unknownFunctions == ["f", "g"])
    }

    @Test(arguments: [
        ("CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END", "insert"),
        ("CREATE TRIGGER begin AFTER INSERT ON t WHEN NEW.a = 'BEGIN' OR 1 -- begin\nBEGIN SELECT 1; END", "insert"),
        ("CREATE TRIGGER \"when\" /* BEGIN */ AFTER INSERT ON [t] WHEN CASE WHEN 1 THEN 1 END BEGIN SELECT 1; END", ""),
    ])
    func `a guarded trigger is the same trigger with one more condition`(sql: String, name: String) throws {
        let guarded = try #require(TriggerGuard.guarded(sql))
        #expect(TriggerGuard.guarded(guarded) == guarded)
        let database = try DatabaseQueue()
        try database.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE tidemark_state (applying)")
            try db.execute(sql: "INSERT INTO tidemark_state VALUES (0)")
            try db.execute(sql: guarded.replacing("SELECT 1;", with: "SELECT RAISE(ABORT, 'ran');"))
            #expect(throws: DatabaseError.self) { try db.execute(sql: "INSERT INTO t (a) VALUES (1)") }
            try db.execute(sql: "UPDATE tidemark_state SET applying = 1; INSERT INTO t (a) VALUES (1)")
        }
    }

    @Test func `rule 22: a server's hostile objects leave the device's rows and file as they were, and are named`()
        async throws
    {
        let cluster = try Cluster(
            schema: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT); CREATE VIEW fine AS SELECT * FROM note")
        let anna = try await cluster.device("anna")
        try await anna.write("INSERT INTO note (text) VALUES ('kept')")
        let evil =
            #"{"kind":"trigger","name":"evil","sql":"CREATE TRIGGER evil AFTER INSERT ON note BEGIN "#
            + #"DELETE FROM tidemark_changeset; END"},"#
        let way = SchemaTransport(anna.transport) { $0.replacing(#""objects":["#, with: #""objects":["# + evil) }
        let engine = try await SyncEngine(anna.database, server: "http://cluster.test", transport: way)
        try cluster.writeOutside("CREATE VIEW more AS SELECT 1")
        await #expect(throws: TidemarkError.self) { try await engine.sync() }
        #expect(try await anna.rows("SELECT name FROM sqlite_master WHERE name = 'evil'") == [])
        #expect(try await anna.database.read { try SchemaReport($0) }.leftOut["evil"] != nil)
        #expect(try await anna.rows("SELECT text FROM note") == ["kept"])
        try await cluster.converge(anna)
    }
}

/// A transport that changes the schema that the server sends.
private final class SchemaTransport: ForwardingTransport {
    let real: InProcessTransport
    private let change: @Sendable (String) -> String

    init(_ real: InProcessTransport, _ change: @escaping @Sendable (String) -> String) {
        self.real = real
        self.change = change
    }

    func schema(zone: String) async throws -> [UInt8] {
        Array(change(String(decoding: try await real.schema(zone: zone), as: UTF8.self)).utf8)
    }
}
