import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// Frameworks note in a table of the file which of their migrations it has had.
///
/// A note that reached a device without the columns would keep the app from making them, for ever.
@Suite struct FrameworkTableTests {
    /// A framework's own statements, as its command writes them for migrations 1, 2 and 3.
    struct Framework: Sendable, CustomTestStringConvertible {
        let name: String
        let table: String
        let create: String
        /// The statement for migration `$`.
        let note: String
        /// What tells the migrations apart.
        let columns: String
        /// Whether each migration replaces the row of the one before.
        var keepsOneRow = false
        var testDescription: String { name }

        func notes(_ migrations: ClosedRange<Int>) -> String {
            migrations.map { note.replacing("$", with: String($0)) }.joined(separator: "; ")
        }

        /// What the table says after a migration, by the columns that tell them apart.
        func expected(_ migration: Int) throws -> [String] {
            try DatabaseQueue().write { db in
                try db.execute(sql: "\(create); \(notes(1...migration))")
                return try rows(db)
            }
        }

        func rows(_ db: Database) throws -> [String] {
            try String.fetchAll(db, sql: "SELECT \(columns) FROM \"\(table)\" ORDER BY 1")
        }
    }

    private static let frameworks = [
        Framework(
            name: "Django", table: "django_migrations",
            create: """
                CREATE TABLE "django_migrations" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
                    "app" varchar(255) NOT NULL, "name" varchar(255) NOT NULL, "applied" datetime NOT NULL)
                """,
            note: """
                INSERT INTO django_migrations (app, name, applied)
                VALUES ('app', '000$', strftime('%Y-%m-%d %H:%M:%f', 'now'))
                """, columns: "app || ' ' || name"),
        Framework(
            name: "Rails", table: "schema_migrations",
            create: """
                CREATE TABLE "schema_migrations" ("version" varchar NOT NULL PRIMARY KEY);
                CREATE TABLE "ar_internal_metadata" ("key" varchar NOT NULL PRIMARY KEY, "value" varchar,
                    "created_at" datetime(6) NOT NULL, "updated_at" datetime(6) NOT NULL);
                INSERT INTO ar_internal_metadata VALUES ('environment', 'production', '2026', '2026')
                """, note: "INSERT INTO schema_migrations VALUES ('2026010$')", columns: "version"),
        Framework(
            name: "Alembic", table: "alembic_version",
            create: """
                CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,
                    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))
                """, note: "DELETE FROM alembic_version; INSERT INTO alembic_version VALUES ('a$')",
            columns: "version_num", keepsOneRow: true),
        Framework(
            name: "EF Core", table: "__EFMigrationsHistory",
            create: """
                CREATE TABLE "__EFMigrationsHistory" ("MigrationId" TEXT NOT NULL CONSTRAINT "PK" PRIMARY KEY,
                    "ProductVersion" TEXT NOT NULL);
                CREATE TABLE "__EFMigrationsLock" ("Id" INTEGER NOT NULL CONSTRAINT "PK_L" PRIMARY KEY,
                    "Timestamp" TEXT NOT NULL)
                """, note: #"INSERT INTO "__EFMigrationsHistory" VALUES ('2026_$', '9.0')"#, columns: "MigrationId"),
        Framework(
            name: "Room", table: "room_master_table",
            create: "CREATE TABLE room_master_table (id INTEGER PRIMARY KEY,identity_hash TEXT)",
            note: "INSERT OR REPLACE INTO room_master_table (id,identity_hash) VALUES (42, 'hash$')",
            columns: "id || ' ' || identity_hash", keepsOneRow: true),
        Framework(
            name: "golang-migrate", table: "schema_migrations",
            create: """
                CREATE TABLE schema_migrations (version uint64, dirty bool);
                CREATE UNIQUE INDEX version_unique ON schema_migrations (version)
                """, note: "DELETE FROM schema_migrations; INSERT INTO schema_migrations VALUES ($, 0)",
            columns: "version", keepsOneRow: true),
        Framework(
            name: "Flyway", table: "flyway_schema_history",
            create: """
                CREATE TABLE flyway_schema_history (installed_rank INT NOT NULL PRIMARY KEY, version VARCHAR(50),
                    description VARCHAR(200) NOT NULL, script VARCHAR(1000) NOT NULL,
                    installed_on TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')))
                """,
            note: """
                INSERT INTO flyway_schema_history (installed_rank, version, description, script)
                SELECT coalesce(max(installed_rank), 0) + 1, '$', 'step', 'V$.sql' FROM flyway_schema_history
                """, columns: "version || ' ' || script"),
        Framework(
            name: "Prisma", table: "_prisma_migrations",
            create: """
                CREATE TABLE "_prisma_migrations" ("id" TEXT PRIMARY KEY NOT NULL, "migration_name" TEXT NOT NULL,
                    "started_at" DATETIME NOT NULL DEFAULT current_timestamp)
                """,
            note: "INSERT INTO _prisma_migrations (id, migration_name) VALUES (hex(randomblob(8)), 'm$')",
            columns: "migration_name"),
        Framework(
            name: "one that must be declared", table: "changes_made",
            create: """
                CREATE TABLE changes_made (number INTEGER PRIMARY KEY AUTOINCREMENT, title VARCHAR(80), at TIMESTAMP)
                """, note: "INSERT INTO changes_made (title, at) VALUES ('step $', current_timestamp)",
            columns: "title"),
    ]

    private static let app = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO note (text) VALUES ('one'), ('two')
        """
    private static let addColumn = "ALTER TABLE note ADD COLUMN stars INTEGER"

    private static func cluster(_ framework: Framework, _ migration: Int) throws -> Cluster {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("framework-\(UUID()).sqlite")
        defer { try? FileManager.default.removeItem(at: file) }  // a file left behind harms no other test
        try DatabaseQueue(path: file.path).write { db in
            try db.execute(sql: "\(app); \(framework.create); \(framework.notes(1...migration))")
        }
        let isKnown = framework.table != "changes_made"
        return try Cluster(
            adopting: file, objects: ObjectDeclarations(migrationTables: isKnown ? [] : [framework.table]))
    }

    private static func notes(_ device: TestDevice, _ framework: Framework) async throws -> [String] {
        try await device.database.read { try framework.rows($0) }
    }

    private static func notes(_ cluster: Cluster, _ framework: Framework) throws -> [String] {
        try DatabaseQueue(path: cluster.zonePath).read { try framework.rows($0) }
    }

    @Test(arguments: frameworks) func `a file that joins has the notes, and what its program notes stays there`(
        framework: Framework
    ) async throws {
        let cluster = try Self.cluster(framework, 2)
        let anna = try await cluster.device("anna")
        #expect(try await Self.notes(anna, framework) == framework.expected(2))
        try anna.writeOutside("\(Self.addColumn); \(framework.notes(3...3))")
        let updated = try await anna.reopened()
        try await updated.write("UPDATE note SET text = 'mine' WHERE id = 1")
        try await updated.engine.sync()
        #expect(try await cluster.rows("SELECT text FROM note WHERE id = 1") == ["mine"])
        #expect(try Self.notes(cluster, framework) == framework.expected(2))
        #expect(try await Self.notes(updated, framework) == framework.expected(3))
        #expect(try await updated.engine.conflicts() == [])
    }

    @Test(arguments: frameworks) func `a note reaches a device with the columns only`(framework: Framework) async throws
    {
        let cluster = try Self.cluster(framework, 1)
        let anna = try await cluster.device("anna")
        try cluster.writeOutside("\(Self.addColumn); UPDATE note SET stars = 5; \(framework.notes(2...2))")
        try await anna.engine.sync()
        #expect(try await Self.notes(anna, framework) == framework.expected(1), "the app must make the column itself")
        try anna.writeOutside("\(Self.addColumn); \(framework.notes(2...2))")
        let updated = try await anna.reopened()
        try await updated.engine.sync()
        #expect(try await updated.rows("SELECT stars FROM note") == ["5", "5"])
        #expect(try await Self.notes(updated, framework) == framework.expected(2), "no note is there twice")
        // A migration that only changes rows has run for all.
        try cluster.writeOutside("UPDATE note SET stars = 4; \(framework.notes(3...3))")
        try await updated.engine.sync()
        #expect(try await updated.rows("SELECT stars FROM note") == ["4", "4"])
        #expect(try await Self.notes(updated, framework) == framework.expected(3))
    }

    @Test(arguments: frameworks) func `the server's program may follow the device's`(framework: Framework) async throws
    {
        let cluster = try Self.cluster(framework, 1)
        let anna = try await cluster.device("anna")
        try anna.writeOutside("\(Self.addColumn); UPDATE note SET stars = 1; \(framework.notes(2...3))")
        let updated = try await anna.reopened()
        try await updated.engine.sync()
        try cluster.writeOutside("\(Self.addColumn); \(framework.notes(2...2))")
        try await updated.engine.sync()
        #expect(try await Self.notes(updated, framework) == framework.expected(3), "the device's program is ahead")
        try cluster.writeOutside(framework.notes(3...3))
        try await updated.engine.sync()
        #expect(try await Self.notes(updated, framework) == framework.expected(3))
        #expect(try await cluster.rows("SELECT stars FROM note") == ["1", "1"])
    }

    @Test func `edits of the old app are sent after its update, without a hand`() async throws {
        let django = Self.frameworks[0]
        let cluster = try Self.cluster(django, 1)
        let anna = try await cluster.device("anna")
        // Django makes a table again for a column without a default.
        let migrate = """
            CREATE TABLE new__note (id INTEGER PRIMARY KEY, text TEXT, stars integer NOT NULL);
            INSERT INTO new__note SELECT id, text, 0 FROM note; DROP TABLE note; ALTER TABLE new__note RENAME TO note;
            \(django.notes(2...2))
            """
        try cluster.writeOutside(migrate)
        try await anna.write("INSERT INTO note (text) VALUES ('from the old app')")
        try await anna.write("UPDATE note SET text = text || '!' WHERE text LIKE 'from%'")
        try await anna.engine.sync()
        #expect(try await anna.engine.conflicts().first?.reasons.map(\.rule) == ["deviceBehind"])
        try anna.writeOutside(migrate)
        let updated = try await anna.reopened()
        try await updated.engine.sync()
        try await updated.engine.sync()
        #expect(try await updated.engine.conflicts() == [])
        #expect(
            try await cluster.rows("SELECT text, stars FROM note ORDER BY id") == [
                "one|0", "two|0", "from the old app!|0",
            ])
        #expect(
            try await updated.rows("SELECT text FROM note ORDER BY id")
                == cluster.rows("SELECT text FROM note ORDER BY id"))
    }

    @Test func `an app that is updated before the server sends its new rows, and its edits of the new column`()
        async throws
    {
        let cluster = try Self.cluster(Self.frameworks[0], 1)
        let anna = try await cluster.device("anna")
        let migrate = """
            CREATE TABLE new__note (id INTEGER PRIMARY KEY, text TEXT, stars integer NOT NULL);
            INSERT INTO new__note SELECT id, text, 0 FROM note; DROP TABLE note; ALTER TABLE new__note RENAME TO note;
            """
        try anna.writeOutside(migrate)
        let updated = try await anna.reopened()
        await #expect(throws: TidemarkError.self) { try await updated.engine.sync() }
        try await updated.write(
            "INSERT INTO note (text, stars) VALUES ('new', 2); UPDATE note SET stars = 7 WHERE id = 1")
        try cluster.writeOutside(migrate)
        try await updated.engine.sync()
        try await updated.engine.sync()
        #expect(try await updated.engine.conflicts() == [])
        let rows = "SELECT text, stars FROM note ORDER BY id"
        #expect(try await cluster.rows(rows) == ["one|7", "two|0", "new|2"])
        #expect(try await updated.rows(rows) == cluster.rows(rows))
    }

    @Test func `where the migration gave the rows different values, a person decides about new ones`() async throws {
        let django = Self.frameworks[0]
        let cluster = try Self.cluster(django, 1)
        let anna = try await cluster.device("anna")
        let migrate = """
            CREATE TABLE new__note (id INTEGER PRIMARY KEY, text TEXT, stars integer NOT NULL);
            INSERT INTO new__note SELECT id, text, id FROM note; DROP TABLE note; ALTER TABLE new__note RENAME TO note;
            """
        try cluster.writeOutside(migrate)
        try await anna.write("INSERT INTO note (text) VALUES ('from the old app')")
        try await anna.engine.sync()
        try anna.writeOutside(migrate)
        let updated = try await anna.reopened()
        try await updated.engine.sync()
        let conflict = try #require(try await updated.engine.conflicts().first)
        let record = try #require(conflict.records.first)
        let merged = MergedRecord(table: "note", key: record.key, columns: ["stars": 3.databaseValue])
        try await updated.engine.resolve(conflict.id, with: .merge([merged]))
        try await cluster.converge(updated)
        #expect(try await cluster.rows("SELECT text, stars FROM note WHERE stars = 3") == ["from the old app|3"])
    }
}
