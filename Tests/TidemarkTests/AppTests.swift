import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// An app's use of the engine: its own database, its own migrations, ordinary GRDB.
@Suite struct AppTests {
    private struct Note: Codable, Equatable, FetchableRecord, SyncedRecord {
        static let databaseTableName = "notes"
        var id: Int64?
        var text: String
        var done = false
    }

    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL, done BOOLEAN NOT NULL)
        """
    private static let seed = "INSERT INTO notes (text, done) VALUES ('milk', 0)"

    /// A database that an app has just created and migrated.
    private static func database(in cluster: Cluster) throws -> DatabasePool {
        let path = cluster.folder.appendingPathComponent("app.sqlite").path
        let database = try DatabasePool(path: path)
        var migrator = DatabaseMigrator()
        migrator.registerMigration("notes") { db in
            try db.create(table: "notes") { table in
                table.autoIncrementedPrimaryKey("id")
                table.column("text", .text).notNull()
                table.column("done", .boolean).notNull()
            }
        }
        try migrator.migrate(database)
        return database
    }

    private static func engine(_ database: any DatabaseWriter, _ cluster: Cluster, limits: Limits = .standard)
        async throws -> SyncEngine
    {
        try await SyncEngine(
            database, server: "http://cluster.test", transport: InProcessTransport(to: cluster.store), limits: limits)
    }

    @Test func `A3: the first sync fills a migrated, empty app database`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let database = try Self.database(in: cluster)
        let engine = try await Self.engine(database, cluster)
        #expect(try await engine.status().epoch == nil)
        try await engine.sync()
        #expect(try await database.read { try Note.fetchAll($0) } == [Note(id: 1, text: "milk")])
        let status = try await engine.status()
        #expect(status.epoch != nil && status.revision == 1 && status.lastContact != nil)
        #expect(status.pendingChangeSets == 0 && status.conflicts == 0)
    }

    @Test func `A10: notes written before the first sync are sent too`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let database = try Self.database(in: cluster)
        let engine = try await Self.engine(database, cluster)
        try await database.write { db in
            var note = Note(text: "written on the plane")
            try note.insert(db)
        }
        try await engine.sync()
        #expect(
            try await cluster.rows("SELECT id, text FROM notes ORDER BY id") == ["1|milk", "2|written on the plane"])
        #expect(try await database.read { try Note.fetchCount($0) } == 2)
    }

    @Test func `A4: a view of a synced record finds its permanent id, and pending counts down`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let database = try Self.database(in: cluster)
        let engine = try await Self.engine(database, cluster, limits: .withoutLending)
        try await engine.sync()
        let notes = try await database.write { db in
            var notes = [Note(text: "bread"), Note(text: "salt")]
            for index in notes.indices { try notes[index].insert(db) }
            return notes
        }
        #expect(notes.map(\.id) == [-1, -2])
        #expect(try await engine.permanentID(for: -1, in: "notes") == nil)
        #expect(try await !engine.state(of: RecordName("notes", -1)).isSynced)
        #expect(try await engine.state(of: RecordName("notes", 1)).isSynced)
        try await engine.sync()
        #expect(try await engine.permanentID(for: -1, in: "notes") == 2)
        #expect(try await engine.permanentID(for: -2, in: "notes") == 3)
        #expect(try await engine.state(of: RecordName("notes", -1)).isSynced)
        #expect(try await engine.state(of: RecordName("notes", 2)).isSynced)
        #expect(try await database.read { try Note.fetchOne($0, key: 3)?.text } == "salt")
    }

    @Test(.timeLimit(.minutes(30))) func `A11: a view that observes the notes shows other devices' changes`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let ben = try await cluster.device("ben")
        let database = try Self.database(in: cluster)
        let engine = try await Self.engine(database, cluster)
        try await engine.sync()
        var observations = ValueObservation.tracking { try Note.order(Column("id")).fetchAll($0) }.values(in: database)
            .makeAsyncIterator()
        #expect(try await observations.next()?.map(\.text) == ["milk"])
        try await ben.write("UPDATE notes SET done = 1; INSERT INTO notes (text, done) VALUES ('tea', 0)")
        try await ben.engine.sync()
        try await engine.sync()
        while let notes = try await observations.next() {
            guard notes.count == 2 else { continue }
            #expect(notes == [Note(id: 1, text: "milk", done: true), Note(id: 2, text: "tea")])
            break
        }
    }

    @Test(.timeLimit(.minutes(30))) func `A10: in the background, a commit is synced without a call`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let ben = try await cluster.device("ben")
        let database = try Self.database(in: cluster)
        let engine = try await Self.engine(database, cluster)
        try await engine.sync()
        let events = engine.deviceEvents
        await engine.start(every: .seconds(3600))
        try await database.write { db in
            var note = Note(text: "tea")
            try note.insert(db)
        }
        for await event in events {
            guard case .sent(let count) = event else { continue }
            #expect(count == 1)
            break
        }
        await engine.stop()
        try await ben.engine.sync()
        #expect(try await ben.rows("SELECT text FROM notes ORDER BY id") == ["milk", "tea"])
    }

    @Test(.timeLimit(.minutes(30))) func `rule 20: in the background, a failure is reported and retried`() async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let ben = try await cluster.device("ben")
        ben.transport.faults.add(.requestLost)
        var events = ben.engine.deviceEvents.makeAsyncIterator()
        try await ben.write("INSERT INTO notes (text, done) VALUES ('tea', 0)")
        let id = try await ben.rows("SELECT max(id) FROM notes").first.flatMap { Int64($0) }
        await ben.engine.start(every: .seconds(3600))
        let failure = await events.next()
        #expect(failure == .failed(FaultPlan.lost))
        let ids = try [#require(id): Int64(2)]
        #expect(await events.next() == .sent(changeSets: 1))
        #expect(await events.next() == .identitiesAssigned(table: "notes", ids: ids))
        await ben.engine.stop()
    }

    @Test(.timeLimit(.minutes(30))) func `A11: a status bar shows that edits are pending, and that they are sent`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let ben = try await cluster.device("ben")
        var statuses = ben.engine.statuses.makeAsyncIterator()
        try await ben.write("UPDATE notes SET done = 1")
        ben.transport.faults.add(.requestLost)
        await ben.syncInVain()
        let failed = try #require(await statuses.next())
        #expect(failed.pendingChangeSets == 1 && failed.pendingRecords == 1)
        try await ben.engine.sync()
        let done = try #require(await statuses.next())
        #expect(done.pendingChangeSets == 0 && done.pendingRecords == 0 && done.revision == 2)
    }

    @Test func `rows older than the engine are refused with advice`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let database = try Self.database(in: cluster)
        try await database.write { db in try db.execute(sql: "INSERT INTO notes (text, done) VALUES ('old', 0)") }
        let error = await #expect(throws: TidemarkError.self) { try await Self.engine(database, cluster) }
        #expect(error?.code == .unusableFile && error?.place.table == "notes")
        #expect(error?.fix.contains("tidemark serve") == true)
        let tables = try await database.read { db in
            try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE name LIKE 'tide%'")
        }
        #expect(tables.isEmpty)
    }

    @Test func `an unsuitable table is named before any change to the file`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let database = try DatabaseQueue()
        try await database.write { try $0.execute(sql: "CREATE TABLE loose (rowid, _rowid_, oid)") }
        let error = await #expect(throws: UnsyncableSchema.self) { try await Self.engine(database, cluster) }
        #expect(error?.problems.map(\.table) == ["loose"])
    }

    @Test func `A15: a queue in memory is a device like any other`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let database = try DatabaseQueue()
        try await database.write { try $0.execute(sql: Self.schema) }
        let engine = try await Self.engine(database, cluster)
        try await engine.sync()
        try await database.write { db in
            var note = Note(text: "tea")
            try note.insert(db)
        }
        try await engine.sync()
        #expect(try await cluster.rows("SELECT id, text FROM notes ORDER BY id") == ["1|milk", "2|tea"])
    }
}
