import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// The server's file was replaced: its revisions have another meaning now.
@Suite struct ResetTests {
    @Test func `rule 1 and 14: an edit whose base is in a lost history overwrites nothing`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)",
            seed: "INSERT INTO notes (text) VALUES ('milk'), ('bread')")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await ben.write("UPDATE notes SET text = 'rice milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'rye bread' WHERE id = 2")
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.engine.sync()
        // As after adopting the same tables afresh: the rows are revision 1, and there is no log.
        try cluster.writeOutside(
            """
            DELETE FROM tidemark_log;
            DELETE FROM tidemark_revision;
            UPDATE tidemark_zone SET revision = 1, horizon = 1, adopted = 1,
                epoch = '00000000-0000-4000-8000-00000000beef'
            """
        )
        try await ben.engine.sync()
        let conflicts = try await ben.engine.conflicts()
        #expect(conflicts.count == 1)
        let record = try #require(conflicts.first?.records.first)
        #expect(record.base == #"{"text":"milk"}"#)
        #expect(record.mine == #"{"text":"rice milk"}"#)
        #expect(record.theirs == #"{"text":"oat milk"}"#)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT text FROM notes ORDER BY id") == ["oat milk", "rye bread"])
    }
}
