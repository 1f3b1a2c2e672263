import Foundation
import GRDB
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkSQL
import TidemarkTestSupport

@testable import TidemarkEmbedded

/// Changes of the main zone's tables and policies in zones that exist already, each in a file of its own.
@Suite struct AlignZoneTests {
    private static let schema = """
        CREATE TABLE list (id INTEGER PRIMARY KEY, title TEXT NOT NULL, UNIQUE (title));
        CREATE TABLE item (id INTEGER PRIMARY KEY AUTOINCREMENT, list_id INTEGER NOT NULL REFERENCES list (id)
            ON DELETE CASCADE, text TEXT, count INTEGER);
        CREATE INDEX item_list ON item (list_id);
        CREATE VIEW items AS SELECT list.title, item.text FROM item JOIN list ON list.id = item.list_id;
        """
    private static let rows = #"""
        {"maxRevision":0,"changeSets":[{"types":["list","item"],
        "list":{"create":[-1,-2],"attributes":{"-1":{"title":"a"},"-2":{"title":"b"}}},
        "item":{"create":[-3,-4],"attributes":{"-3":{"list_id":-1,"text":"x","count":1},
        "-4":{"list_id":-2,"text":"y","count":2}}}}]}
        """#

    /// The names of zones, always the same ones.
    private static func zones(_ count: Int) -> [String] {
        var generator = SeededGenerator(seed: 7)
        return (0..<count).map { _ in ZoneName.make(using: &generator) }
    }

    /// Makes zones with rows.
    private static func fill(_ zones: [String], _ directory: ZoneDirectory) async throws {
        for zone in zones {
            try await directory.makeZone(zone)
            _ = try await directory.sync(.local(zone), body: Array(rows.utf8))
        }
    }

    private static func schema(_ zone: String, _ directory: ZoneDirectory) async throws -> String? {
        try Answer(try await directory.schema(.local(zone)).json).schema
    }

    // MARK: Many zones

    @Test func `policies, a rename, a column and a table of the main zone reach two hundred zones, closed or not`()
        async throws
    {
        let place = try ZonePlace(Self.schema)
        let zones = Self.zones(200)
        try await place.serving { try await Self.fill(zones, $0) }
        let epochs = try zones.map { try place.read("SELECT epoch FROM tidemark_zone", of: $0) }
        try place.write(
            """
            ALTER TABLE item RENAME COLUMN text TO body;
            ALTER TABLE list ADD COLUMN colour TEXT DEFAULT 'red';
            CREATE TABLE label (id INTEGER PRIMARY KEY, name TEXT);
            PRAGMA user_version = 3;
            """,
            into: "main"
        )
        let rename = try ColumnRename("item.text", to: "item.body")
        try await place.serving(renames: [rename], policies: ["item": .columns, "item.count": .add]) { directory in
            let main = try await Self.schema("main", directory)
            for zone in zones {
                #expect(try await Self.schema(zone, directory) == main, "\(zone)")
                // An old app names the column as before.
                let body = #"{"maxRevision":1,"changeSets":[{"item":{"update":[1],"attributes":{"1":{"text":"z"}}}}]}"#
                let answer = try Answer(try await directory.sync(.local(zone), body: Array(body.utf8)))
                #expect(answer.changeSets.last?.isConflict == false)
            }
            #expect(directory.unservedZones.isEmpty)
        }
        for (zone, epoch) in zip(zones, epochs) {
            #expect(try place.read("SELECT body FROM item ORDER BY id", of: zone) == ["z", "y"])
            #expect(try place.read("SELECT epoch FROM tidemark_zone", of: zone) == epoch, "the history goes on")
            #expect(try place.read("PRAGMA user_version", of: zone) == ["3"])
        }
        // The next start opens them as they are.
        try await place.serving { directory in
            for zone in zones.prefix(3) {
                let main = try await Self.schema("main", directory)
                #expect(try await Self.schema(zone, directory) == main)
            }
        }
        #expect(place.warnings.withLock { $0 } == [])
    }

    @Test func `a zone made after a rename knows the former name, too`() async throws {
        let place = try ZonePlace(Self.schema)
        try await place.serving { _ in }
        try place.write("ALTER TABLE item RENAME COLUMN text TO body", into: "main")
        let rename = try ColumnRename("item.text", to: "item.body")
        try await place.serving(renames: [rename]) { directory in
            try await Self.fill(Self.zones(1), directory)
            let main = try await Self.schema("main", directory)
            #expect(try await Self.schema(Self.zones(1)[0], directory) == main)
        }
        #expect(try place.read("SELECT body FROM item ORDER BY id", of: Self.zones(1)[0]) == ["x", "y"])
    }

    @Test func `a zone whose rows do not fit is named with its reason, and all others go on`() async throws {
        let place = try ZonePlace(Self.schema)
        let zones = Self.zones(20)
        try await place.serving { try await Self.fill(zones, $0) }
        try place.write("UPDATE item SET count = NULL", into: zones[4])
        try place.write(Self.rebuiltItem, into: "main")
        let broken = try await place.serving { directory in
            for zone in zones where zone != zones[4] { _ = try await directory.latest(.local(zone)) }
            for zone in zones where zone != zones[4] { _ = try await directory.schema(.local(zone)) }
            #expect(directory.unservedZones.isEmpty)
            let error = await #expect(throws: TidemarkError.self) { _ = try await directory.schema(.local(zones[4])) }
            #expect(error?.code == .unavailable)
            #expect(error?.message.contains("NOT NULL constraint failed: item.count") == true, "\(error as Any)")
            _ = await #expect(throws: TidemarkError.self) { _ = try await directory.schema(.local(zones[4])) }
            return directory.unservedZones
        }
        #expect(broken.count == 1 && broken[0].hasPrefix(zones[4]))
        #expect(place.warnings.withLock { $0 }.count == 1, "said once")
        #expect(try place.read("SELECT sql FROM sqlite_master WHERE name = 'item'", of: zones[4])[0].contains("text"))
        // Mended, it follows at its next opening.
        try place.write("UPDATE item SET count = 0 WHERE count IS NULL", into: zones[4])
        try await place.serving { directory in
            let main = try await Self.schema("main", directory)
            #expect(try await Self.schema(zones[4], directory) == main)
        }
    }

    @Test func `a column without a value for the rows of a zone asks for a default in the main file`() async throws {
        let place = try ZonePlace("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)")
        let zone = Self.zones(1)[0]
        try await place.serving { try await $0.makeZone(zone) }
        try place.write("INSERT INTO note (text) VALUES ('a')", into: zone)
        try place.write("ALTER TABLE note ADD COLUMN req TEXT NOT NULL", into: "main")
        try await place.serving { directory in
            let error = await #expect(throws: TidemarkError.self) { _ = try await directory.schema(.local(zone)) }
            #expect(error?.code == .unavailable)
            #expect(error?.message.contains("note.req is NOT NULL without a default") == true, "\(error as Any)")
            #expect(error?.fix.contains("in the main zone's file, with a default for req") == true, "\(error as Any)")
        }
        try place.write(
            """
            CREATE TABLE note_new (id INTEGER PRIMARY KEY, text TEXT, req TEXT NOT NULL DEFAULT '');
            INSERT INTO note_new SELECT * FROM note;
            DROP TABLE note;
            ALTER TABLE note_new RENAME TO note;
            """,
            into: "main"
        )
        try await place.serving { directory in
            _ = try await directory.schema(.local(zone))
            #expect(directory.unservedZones.isEmpty)
        }
        #expect(try place.read("SELECT text || ':' || req FROM note", of: zone) == ["a:"])
    }

    /// A migration that makes the table again, without the column `text` and with a rule.
    private static let rebuiltItem = """
        CREATE TABLE item_new (id INTEGER PRIMARY KEY AUTOINCREMENT, list_id INTEGER NOT NULL REFERENCES list (id)
            ON DELETE CASCADE, count INTEGER NOT NULL CHECK (count >= 0));
        INSERT INTO item_new SELECT id, list_id, count FROM item;
        DROP VIEW items;
        DROP TABLE item;
        ALTER TABLE item_new RENAME TO item;
        CREATE INDEX item_list ON item (list_id);
        CREATE VIEW items AS SELECT list.title, item.count FROM item JOIN list ON list.id = item.list_id;
        """

    @Test func `a rebuilt table keeps ids, children, captures and the zone's history`() async throws {
        let place = try ZonePlace(Self.schema)
        let zone = Self.zones(1)[0]
        try await place.serving { try await Self.fill([zone], $0) }
        let epoch = try place.read("SELECT epoch FROM tidemark_zone", of: zone)
        // A program's edit waits in the file to be logged, and the last id of the table is gone.
        try place.write("UPDATE item SET count = 7 WHERE id = 1; DELETE FROM item WHERE id = 2", into: zone)
        try place.write(Self.rebuiltItem, into: "main")
        try place.write(Self.rebuiltList, into: "main")
        try await place.serving { directory in
            let main = try await Self.schema("main", directory)
            #expect(try await Self.schema(zone, directory) == main)
            try await directory.look(zone: zone)
            #expect(try await directory.latest(.local(zone)).revision == 2)
            let body =
                #"{"maxRevision":2,"changeSets":[{"item":{"create":[-1],"#
                + #""attributes":{"-1":{"list_id":1,"count":3}}}}]}"#
            _ = try await directory.sync(.local(zone), body: Array(body.utf8))
        }
        #expect(try place.read("SELECT epoch FROM tidemark_zone", of: zone) == epoch)
        #expect(try place.read("SELECT id || ':' || count FROM item ORDER BY id", of: zone).first == "1:7")
        #expect(try place.read("SELECT count(*) FROM item WHERE id = 2", of: zone) == ["0"], "no id is used twice")
        #expect(try place.read("SELECT title FROM list ORDER BY id", of: zone) == ["a", "b"])
        #expect(try place.read("PRAGMA foreign_key_check", of: zone).isEmpty)
    }

    /// A migration of the parent table.
    private static let rebuiltList = """
        CREATE TABLE list_new (id INTEGER PRIMARY KEY, title TEXT NOT NULL CHECK (length(title) > 0), note TEXT);
        INSERT INTO list_new (id, title) SELECT id, title FROM list;
        DROP VIEW items;
        DROP TABLE list;
        ALTER TABLE list_new RENAME TO list;
        CREATE VIEW items AS SELECT list.title, item.count FROM item JOIN list ON list.id = item.list_id;
        """

    @Test func `a column that may be a renamed one waits for the operator's word, and no value is lost`() async throws {
        let place = try ZonePlace(Self.schema)
        let zone = Self.zones(1)[0]
        try await place.serving { try await Self.fill([zone], $0) }
        try place.write("ALTER TABLE item RENAME COLUMN text TO body", into: "main")
        try await place.serving { directory in
            let error = await #expect(throws: TidemarkError.self) { _ = try await directory.schema(.local(zone)) }
            #expect(error?.code == .unavailable)
            #expect(error?.fix.contains("--rename item.text=item.body") == true)
        }
        try await place.serving(renames: [try ColumnRename("item.text", to: "item.body")]) { directory in
            _ = try await directory.schema(.local(zone))
            #expect(directory.unservedZones.isEmpty)
        }
        #expect(try place.read("SELECT body FROM item ORDER BY id", of: zone) == ["x", "y"])
    }

    @Test func `a table without a key gets the main zone's key in every zone`() async throws {
        let place = try ZonePlace("CREATE TABLE list (id INTEGER PRIMARY KEY, title TEXT)")
        let zones = Self.zones(2)
        try await place.serving { try await $0.makeZone(zones[0]) }
        let pair = "CREATE TABLE pair (a TEXT NOT NULL, b TEXT NOT NULL); CREATE UNIQUE INDEX p ON pair (a, b)"
        try place.write(pair, into: "main")
        let main = try EmbeddedStore(path: place.path("main"), newEpoch: UUID(), keys: ["pair": ["b", "a"]])
        try await main.close()
        try await place.serving { directory in
            try await directory.makeZone(zones[1])
            let expected = try await Self.schema("main", directory)
            for zone in zones { #expect(try await Self.schema(zone, directory) == expected, "\(zone)") }
        }
    }

    // MARK: Statements

    @Test(
        arguments: [
            ("CREATE TABLE a (x INT)", "CREATE TABLE a (x INT, y TEXT)", ["y TEXT"]),
            (
                "CREATE TABLE a (x INT)", "CREATE TABLE a (x INT, y TEXT DEFAULT ',)', z INT CHECK (z IN (1, 2)))",
                ["y TEXT DEFAULT ',)'", "z INT CHECK (z IN (1, 2))"]
            ),
            ("CREATE TABLE a (x INT) STRICT", "CREATE TABLE a (x INT, y INT) STRICT", ["y INT"]),
            (
                "CREATE TABLE a (x INT, UNIQUE (x))", "CREATE TABLE a (x INT, y INT, z INT, UNIQUE (x))",
                ["y INT", "z INT"]
            ),
            ("CREATE TABLE a (x INT -- no\n)", "CREATE TABLE \"a\"(\n  [x] INT, `y` INT)", ["`y` INT"]),
            ("CREATE TABLE a (x INT)", "CREATE TABLE a (x INT NOT NULL)", nil),
            ("CREATE TABLE a (x INT)", "CREATE TABLE a (x TEXT, y INT)", nil),
            ("CREATE TABLE a (x INT)", "CREATE TABLE a (x INT, UNIQUE (x))", nil),
            ("CREATE TABLE a (x INT CHECK (x))", "CREATE TABLE a (x INT CHECK (x, y))", nil),
        ] as [(String, String, [String]?)]
    )
    func `the added columns follow from the statements`(old: String, new: String, columns: [String]?) {
        #expect(StatementTokens.addedColumns(from: old, to: new) == columns)
    }

    @Test func `statements that differ in white space, comments and quotes of names are equal, others are not`() {
        let plain = StatementTokens("CREATE TABLE a (x INT DEFAULT 'it''s (', y)")
        #expect(plain == StatementTokens("CREATE TABLE [a](\"x\" /* , */ INT DEFAULT 'it''s (',\n\ty) -- end"))
        for other in ["CREATE TABLE a (x INT DEFAULT 'it''s', y)", "CREATE TABLE a (X INT DEFAULT 'it''s (', y)"] {
            #expect(plain != StatementTokens(other))
        }
    }

    @Test func `the CHECK constraints of a statement are found, and words that only look like them are not`() {
        let sql = """
            CREATE TABLE a ("check" INT CHECK ( x > ')' ), checks INT DEFAULT 'CHECK (1)', -- CHECK (2)
                check(y IN (1, 2)), CONSTRAINT c CHECK ([(] > 0))
            """
        #expect(StatementTokens(sql).checks == ["x > ')'", "y IN (1, 2)", "[(] > 0"])
    }
}
