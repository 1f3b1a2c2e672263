import GRDB
import Testing
import TidemarkCore

@testable import TidemarkSQL

/// The app's own triggers update a captured row again.
///
/// SQLite does not promise the order of triggers, and it depends on the order of their creation.
@Suite struct TriggerOrderTests {
    private static let touch = """
        CREATE TRIGGER touch AFTER UPDATE OF a ON t
        BEGIN UPDATE t SET n = n + 1 WHERE id = NEW.id; END
        """

    /// A captured table with an app trigger, created before capture or in a later migration.
    private func file(_ trigger: String, isLater: Bool) throws -> CapturedFile {
        let table = "CREATE TABLE t (id INTEGER PRIMARY KEY, a, n DEFAULT 0)"
        let file = try CapturedFile(isLater ? table : "\(table); \(trigger)", rows: "INSERT INTO t VALUES (1, 'x', 0)")
        if isLater { try file.write(trigger) }
        return file
    }

    @Test(arguments: [false, true]) func `rule 1: an edit survives an app trigger that updates the same row`(
        isLater: Bool
    ) throws {
        let file = try file(Self.touch, isLater: isLater)
        try file.write("UPDATE t SET a = 'y'")
        let changes = try file.changes()
        #expect(changes.map(\.line) == [#"update t 1 {"a":"y","n":1}"#])
        #expect(changes.first?.before == #"{"a":"x","n":0}"#)
    }

    @Test(arguments: [false, true]) func `many edits with such a trigger are coalesced to the last values`(
        isLater: Bool
    )
        throws
    {
        let file = try file(Self.touch, isLater: isLater)
        for text in ["y", "z", "x", "w"] { try file.write("UPDATE t SET a = ?", [text]) }
        #expect(try file.drain() == [#"update t 1 {"a":"w","n":4}"#])
    }

    @Test(arguments: [false, true]) func `a trigger that reverts the edit leaves nothing to send`(isLater: Bool)
        throws
    {
        let file = try file(
            """
            CREATE TRIGGER never AFTER UPDATE OF a ON t WHEN NEW.a = 'no'
            BEGIN UPDATE t SET a = OLD.a WHERE id = NEW.id; END
            """,
            isLater: isLater
        )
        try file.write("UPDATE t SET a = 'no'")
        #expect(try file.drain() == [])
        #expect(try file.value("SELECT a FROM t") == "x")
    }

    @Test(arguments: [false, true]) func `a new row completed by an app trigger is captured complete`(isLater: Bool)
        throws
    {
        let file = try file(
            """
            CREATE TRIGGER complete AFTER INSERT ON t
            BEGIN UPDATE t SET n = 7 WHERE id = NEW.id; UPDATE t SET a = upper(a) WHERE id = NEW.id; END
            """,
            isLater: isLater
        )
        try file.write("INSERT INTO t VALUES (5, 'y', 1)")
        let changes = try file.changes()
        #expect(changes.map(\.line) == [#"create t 5 {"a":"Y","n":7}"#])
        #expect(changes.first?.before == nil)
    }

    @Test(arguments: [false, true]) func `a new row deleted by an app trigger is not captured`(isLater: Bool) throws {
        let file = try file(
            """
            CREATE TRIGGER refuse AFTER INSERT ON t WHEN NEW.a = 'no'
            BEGIN UPDATE t SET n = 9 WHERE id = NEW.id; DELETE FROM t WHERE id = NEW.id; END
            """,
            isLater: isLater
        )
        try file.write("INSERT INTO t VALUES (5, 'no', 1)")
        #expect(try file.drain() == [])
    }

    @Test(arguments: [false, true])
    func `an update whose app trigger deletes the row is a deletion of the original values`(isLater: Bool) throws {
        let file = try file(
            """
            CREATE TRIGGER sweep AFTER UPDATE OF a ON t WHEN NEW.a IS NULL
            BEGIN DELETE FROM t WHERE id = NEW.id; END
            """,
            isLater: isLater
        )
        try file.write("UPDATE t SET a = NULL")
        let changes = try file.changes()
        #expect(changes.map(\.line) == ["delete t 1"])
        #expect(changes.first?.before == #"{"a":"x","n":0}"#)
    }
}
