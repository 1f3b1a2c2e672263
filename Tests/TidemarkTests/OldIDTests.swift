import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Cases 39 and 40: temporary ids are unique whoever draws them, and still work after the
/// permanent ones came.
@Suite struct OldIDTests {
    private struct Note: Codable, FetchableRecord, SyncedRecord {
        static let databaseTableName = "notes"
        var id: Int64?
        var text: String
    }

    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"

    @Test func `case 40: a screen that holds the old id reads, updates and deletes the record`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: "INSERT INTO notes VALUES (7, 'x')")
        let anna = try await cluster.device("anna")
        let made = try await anna.database.write { db in
            var note = Note(text: "milk")
            try note.insert(db)
            return note
        }
        #expect(made.id == -1)
        try await anna.engine.sync()
        let read = try await anna.database.read { try Note.fetchResolved($0, id: -1) }
        #expect(read?.id == 8)
        try await anna.database.write { db in
            var note = made
            note.text = "oat milk"
            try note.updateResolved(db)
            #expect(note.id == 8)
        }
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 8") == ["oat milk"])
        // Any program can do the same in SQL.
        try anna.writeOutside(
            """
            UPDATE notes SET text = text || '!' WHERE id = coalesce(
                (SELECT permanent FROM tidemark_idmap WHERE tbl = 'notes' AND temporary = -1), -1)
            """
        )
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 8") == ["oat milk!"])
        let isGone = try await anna.database.write { db in
            var note = made
            return try note.deleteResolved(db)
        }
        #expect(isGone)
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT id FROM notes") == ["7"])
    }

    @Test func `case 39: two programs that create at once never draw one id twice`() async throws {
        let cluster = try Cluster(schema: Self.schema)
        let anna = try await cluster.device("anna")
        let path = anna.path
        try await withThrowingTaskGroup(of: Void.self) { group in
            for name in ["one", "two"] {
                group.addTask {
                    var configuration = Configuration()
                    configuration.busyMode = .timeout(60)
                    let file = try DatabaseQueue(path: path, configuration: configuration)
                    for part in 0..<20 {
                        try await file.write { db in
                            for number in 0..<250 {
                                try db.execute(
                                    sql: "INSERT INTO notes (text) VALUES (?)",
                                    arguments: ["\(name) plain \(part) \(number)"]
                                )
                                var note = Note(text: "\(name) drawn \(part) \(number)")
                                try note.insert(db)
                            }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        try await cluster.converge(anna)
        #expect(
            try await cluster.rows("SELECT count(*), count(DISTINCT text), max(id) FROM notes")
                == ["20000|20000|20000"]
        )
    }
}
