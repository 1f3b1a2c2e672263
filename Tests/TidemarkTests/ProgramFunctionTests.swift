import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkSQL
import TidemarkTestSupport

/// Views, triggers and tables of a server that call functions: the shell of SQLite has some that run commands.
@Suite struct ProgramFunctionTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        CREATE VIEW plain AS SELECT upper(text) AS text FROM note;
        CREATE VIEW nice AS SELECT id, text FROM note UNION ALL SELECT 0, edit('x', 'touch FILE #');
        CREATE VIEW over AS SELECT text FROM nice;
        CREATE VIEW sorted AS SELECT title_sort(text) AS text FROM note;
        CREATE TRIGGER writes INSTEAD OF INSERT ON sorted BEGIN INSERT INTO note (text) VALUES (NEW.text); END;
        CREATE TABLE log (text TEXT);
        CREATE TRIGGER logs AFTER INSERT ON note BEGIN INSERT INTO log VALUES (title_sort(NEW.text)); END;
        """
    private static let objects =
        "SELECT name FROM sqlite_master WHERE type IN ('view', 'trigger') "
        + "AND name NOT LIKE 'tidemark%' ORDER BY name"

    private static func cluster() throws -> Cluster {
        try Cluster(schema: schema, excluding: ["log"], objects: ObjectDeclarations(triggers: ["logs": true]))
    }

    /// Joins a file that permits functions, and returns the names of its views and triggers.
    private static func join(_ cluster: Cluster, permitting functions: [String]) async throws -> DatabaseQueue {
        let path = cluster.folder.appending(path: "\(UUID()).sqlite").path
        var join = DeviceFileJoin(transport: InProcessTransport(to: cluster.service), server: "http://cluster.test")
        join.functions = functions
        _ = try await join.join(path: path)
        return try DatabaseQueue(path: path)
    }

    @Test func `rule 22: a device leaves out what calls functions that SQLite does not have, and names it`()
        async throws
    {
        let cluster = try Self.cluster()
        #expect(
            cluster.store.programCalls == ["view nice (edit)", "view sorted (title_sort)", "trigger logs (title_sort)"])
        let anna = try await cluster.device("anna")
        #expect(try await anna.rows(Self.objects) == ["plain"])
        let reasons = try await anna.database.read { try SchemaReport($0) }.leftOut
        #expect(reasons.keys.sorted() == ["logs", "nice", "over", "sorted", "writes"])
        #expect(reasons["nice"] == "calls edit, which acts on more than the file")
        #expect(reasons["logs"]?.contains("--function title_sort") == true)
        try await anna.write("INSERT INTO note (text) VALUES ('a')")
        try await cluster.converge(anna)
        #expect(try await anna.rows("SELECT text FROM plain") == ["A"])
    }

    @Test func `a function that the owner of a file permits is called there; one that runs commands never is`()
        async throws
    {
        let cluster = try Self.cluster()
        let file = try await Self.join(cluster, permitting: ["Title_Sort", "edit"])
        #expect(try await file.read { try $0.textRows(Self.objects) } == ["logs", "plain", "sorted", "writes"])
        let engine = try await SyncEngine(
            file, server: "http://cluster.test", transport: InProcessTransport(to: cluster.service))
        // The permission stays with the file.
        try cluster.writeOutside("CREATE VIEW later AS SELECT title_sort('x'), text FROM note")
        try await engine.sync()
        #expect(try await file.read { try $0.textRows(Self.objects) }.contains("later"))
    }

    @Test func `a program that has registered the function gets what calls it`() async throws {
        let cluster = try Self.cluster()
        let anna = try await cluster.device("anna")
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            db.add(function: DatabaseFunction("title_sort", argumentCount: 1, pure: true) { $0[0] })
        }
        let file = try DatabaseQueue(path: anna.path, configuration: configuration)
        let engine = try await SyncEngine(
            file, server: "http://cluster.test", transport: InProcessTransport(to: cluster.service))
        // Two rounds: a stand-in of an earlier one is no function of the program's.
        for view in ["first", "second"] {
            try cluster.writeOutside("CREATE VIEW \(view) AS SELECT title_sort(text), edit(text) FROM note")
            try cluster.writeOutside("CREATE VIEW mine_\(view) AS SELECT title_sort(text) FROM note")
            try await engine.sync()
        }
        let objects = try await file.read { try $0.textRows(Self.objects) }
        #expect(objects == ["logs", "mine_first", "mine_second", "plain", "sorted", "writes"])
    }

    @Test(arguments: [
        "text TEXT DEFAULT (edit('x', 'y'))", "text TEXT CHECK (edit(text, 'y') IS NOT 1)",
        "text TEXT AS (edit('x', 'y'))",
    ])
    func `rule 22: a table that calls such a function is neither served nor joined`(column: String) async throws {
        let served = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID()).sqlite")
        try await DatabaseQueue(path: served.path).write { db in
            db.add(function: DatabaseFunction("edit", argumentCount: 2, pure: true) { $0[0] })
            try db.execute(sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, \(column), other TEXT)")
        }
        let refusal = try #require(throws: UnsyncableSchema.self) {
            try EmbeddedStore(path: served.path, newEpoch: UUID())
        }
        #expect("\(refusal)".contains("calls the function edit"))
        try FileManager.default.removeItem(at: served)

        let cluster = try Cluster(schema: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, other TEXT)")
        let path = cluster.folder.appending(path: "new.sqlite").path
        let join = DeviceFileJoin(
            transport: ForgedTable(real: InProcessTransport(to: cluster.service), column: column),
            server: "http://cluster.test")
        let error = await #expect(throws: TidemarkError.self) { _ = try await join.join(path: path) }
        #expect(error?.message.contains("edit") == true)
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test func `rule 22: a trigger on a table in which a full-text table keeps its content is left out`() throws {
        let objects: [FileObjects.Object] = [
            .init(kind: .virtual, name: "found", sql: "CREATE VIRTUAL TABLE found USING fts5(text)"),
            .init(
                kind: .trigger, name: "deep",
                sql: "CREATE TRIGGER deep AFTER INSERT ON found_data BEGIN DELETE FROM note; END"),
        ]
        let note = FileObjects.Object(kind: .table, name: "note", sql: "CREATE TABLE note (id INTEGER PRIMARY KEY)")
        let trial = try ObjectTrial(objects, beside: [note], synced: ["note"])
        #expect(trial.accepted.map(\.name) == ["found"])
        #expect(trial.reasons["deep"]?.contains("found_data") == true)
    }
}

/// A transport whose snapshots have a table with another column.
private struct ForgedTable: ForwardingTransport {
    let real: InProcessTransport
    let column: String

    func snapshot(zone: String, since base: DeltaBase?, to path: String, progress: @Sendable (Int64, Int64?) -> Void)
        async throws
    {
        try await real.snapshot(zone: zone, since: base, to: path, progress: progress)
        try await DatabaseQueue(path: path).write { db in
            try db.execute(
                sql: "UPDATE tidemark_snapshot SET schema = replace(schema, 'text TEXT', ?)", arguments: [column])
        }
    }
}
