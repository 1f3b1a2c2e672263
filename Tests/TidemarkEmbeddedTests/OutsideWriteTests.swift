import Foundation
import GRDB
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// The served file stays an ordinary SQLite file: writes of any program are synced.
@Suite struct OutsideWriteTests {
    private static let schema = """
        CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT UNIQUE, logo BLOB);
        CREATE TABLE players (id INTEGER PRIMARY KEY AUTOINCREMENT,
            team_id INTEGER REFERENCES teams ON DELETE CASCADE, name TEXT);
        CREATE TABLE tags (name TEXT PRIMARY KEY, note TEXT);
        CREATE TABLE sizes (size REAL PRIMARY KEY, note TEXT);
        CREATE TABLE pairs (a, b, note TEXT, PRIMARY KEY (a, b));
        INSERT INTO teams VALUES (1, 'Kiel', x'00ff'), (2, 'Flensburg', NULL);
        INSERT INTO players (team_id, name) VALUES (1, 'Anna'), (1, 'Ben'), (2, 'Carla');
        """

    @Test func `F1 F5: transactions of another program are coalesced to one revision`() async throws {
        let zone = try TestZone(Self.schema)
        try await zone.writeOutside("UPDATE teams SET name = 'KIEL' WHERE id = 1")
        try await zone.writeOutside(
            """
            UPDATE teams SET name = 'THW' WHERE id = 1;
            INSERT INTO teams VALUES (7, 'gone soon', NULL);
            INSERT INTO players (team_id, name) VALUES (2, 'Dora');
            """
        )
        try await zone.writeOutside("DELETE FROM teams WHERE id = 7")
        let answer = try await zone.sync(at: 1)
        #expect(answer.revisions == [2])
        let set = try #require(answer.changeSets.first)
        #expect(set.types == ["teams", "players"])
        #expect(set.ids("update", "teams") == [1])
        #expect(set.ids("delete", "teams") == [])
        let team = try #require(set.attributes("teams", "1"))
        #expect(Set(team.keys) == ["revision", "name"], "only the changed column travels")
        #expect(team["name"] as? String == "THW")
        #expect(set.ids("create", "players") == [4])
        #expect(try await zone.sync(at: 2).changeSets.isEmpty)
    }

    @Test func `F1: REPLACE evicts rows by key and by unique value, and devices receive it`() async throws {
        let zone = try TestZone(Self.schema)
        // Replaces row 1, and evicts row 2 by its unique name. No delete trigger fires.
        try await zone.writeOutside("INSERT OR REPLACE INTO teams VALUES (1, 'Flensburg', NULL)", foreignKeys: false)
        try await zone.writeOutside("UPDATE players SET team_id = 1")
        let set = try #require(try await zone.sync(at: 1).changeSets.first)
        #expect(set.ids("update", "teams") == [1])
        #expect(set.ids("delete", "teams") == [2])
        let team = set.attributes("teams", "1")
        #expect(team?["name"] as? String == "Flensburg")
        #expect(team?["logo"] is NSNull)
        #expect(set.ids("update", "players") == [3])
    }

    @Test func `F1: a deletion by another program is logged with its cascade`() async throws {
        let zone = try TestZone(Self.schema)
        try await zone.writeOutside("DELETE FROM teams WHERE id = 1")
        let set = try #require(try await zone.sync(at: 1).changeSets.first)
        #expect(set.ids("delete", "teams") == [1])
        #expect(set.ids("delete", "players") == [1, 2])
    }

    @Test func `F1: blobs, doubles, 64-bit integers and NUL survive the way to a device`() async throws {
        let zone = try TestZone(Self.schema)
        try await zone.writeOutside(
            """
            INSERT INTO teams (name, logo) VALUES ('a', x''), ('b', 9223372036854775807),
                ('c', 0.1 + 0.2), ('d', 'x' || char(0) || 'y'), ('e', 1e999), ('f', zeroblob(3)),
                ('g', '"\\' || char(10) || char(127) || 'ü'), ('h', CAST(x'ff' AS TEXT)), ('i', -0.0);
            """
        )
        let bytes = try await zone.bytes(#"{"maxRevision":1}"#)
        let text = String(decoding: bytes, as: UTF8.self)
        for value in [
            #""logo":{"$blob":""}"#, #""logo":9223372036854775807"#, #""logo":0.30000000000000004"#,
            #""logo":{"$text":"eAB5"}"#, #""logo":{"$real":"Infinity"}"#, #""logo":{"$blob":"AAAA"}"#,
            ##""logo":"\"\\\u000aü""##.replacingOccurrences(of: "aü", with: "a\u{7F}ü"), #""logo":{"$text":"/w=="}"#,
        ] { #expect(text.contains(value), "\(value) in \(text)") }
    }

    @Test func `F5 Rule 7: a broken reference stops the zone, is named, and loses nothing`() async throws {
        let zone = try TestZone(Self.schema)
        try await zone.writeOutside(
            "INSERT INTO players VALUES (10, 99, 'Nobody''s'); UPDATE teams SET name = 'K' WHERE id = 1",
            foreignKeys: false)
        let before = try await zone.content()
        let set = #"{"tags":{"create":["x"],"attributes":{"x":{"note":"mine"}}}}"#
        for body in [#"{"maxRevision":1}"#, #"{"maxRevision":1,"changeSets":[\#(set)]}"#] {
            let refusal = try #require(try await zone.refusal(of: body))
            #expect(refusal.code == .unavailable)
            #expect(refusal.recovery == .retry)
            #expect(refusal.place == .init(table: "players", key: "10", column: "team_id"))
            #expect(refusal.message.contains("teams 99"))
            await #expect(throws: TidemarkError.self) { try await zone.store.snapshot(zone: "main", since: nil) }
        }
        #expect(try await zone.content() == before)
        try await zone.writeOutside("INSERT INTO teams VALUES (99, 'Mended', NULL)")
        let answer = try await zone.sync(at: 1, set)
        #expect(answer.revisions == [2, 3])
        #expect(answer.changeSets[0].ids("create", "teams") == [99])
        #expect(answer.changeSets[0].ids("create", "players") == [10])
        #expect(answer.changeSets[0].ids("update", "teams") == [1])
    }

    @Test func `F5 Rule 7: a parent deleted with foreign keys off stops the zone too`() async throws {
        let zone = try TestZone(Self.schema)
        try await zone.writeOutside("DELETE FROM teams WHERE id = 2", foreignKeys: false)
        let refusal = try await zone.refusal(of: #"{"maxRevision":1}"#)
        #expect(refusal?.place == .init(table: "players", key: "3", column: "team_id"))
        try await zone.writeOutside("UPDATE players SET team_id = NULL WHERE id = 3")
        let set = try #require(try await zone.sync(at: 1).changeSets.first)
        #expect(set.ids("delete", "teams") == [2])
        #expect(set.ids("update", "players") == [3])
    }

    @Test func `F5 Rule 7: a referenced unique value changed with foreign keys off stops the zone`() async throws {
        let zone = try TestZone(
            """
            CREATE TABLE country (id INTEGER PRIMARY KEY, code TEXT UNIQUE, name TEXT);
            CREATE TABLE city (id INTEGER PRIMARY KEY, code TEXT REFERENCES country (code));
            INSERT INTO country VALUES (1, 'DE', 'x'); INSERT INTO city VALUES (1, 'DE');
            """
        )
        try await zone.writeOutside("UPDATE country SET name = 'y'", foreignKeys: false)
        #expect(try await zone.refusal(of: #"{"maxRevision":1}"#) == nil)
        try await zone.writeOutside("UPDATE country SET code = 'D'", foreignKeys: false)
        let refusal = try await zone.refusal(of: #"{"maxRevision":1}"#)
        #expect(refusal?.place == .init(table: "city", key: "1", column: "code"))
        try await zone.writeOutside("UPDATE city SET code = 'D'")
        #expect(try await zone.sync(at: 1).revisions == [2, 3])
    }

    @Test(arguments: [
        ("teams", "INSERT INTO teams VALUES (-5, 'x', NULL)", "id = -5"),
        ("teams", "INSERT INTO teams VALUES (4503599627370496, 'x', NULL)", "id > 9999"),
        ("teams", "UPDATE teams SET id = -1 WHERE id = 2", "id = -1"),
        ("tags", "INSERT INTO tags VALUES (NULL, 'x')", "name IS NULL"),
        ("sizes", "INSERT INTO sizes VALUES (NULL, 'x')", "size IS NULL"),
        ("pairs", "INSERT INTO pairs VALUES (1, NULL, 'x')", "b IS NULL"),
    ]) func `F5: a key outside the protocol's range stops the zone until the key is corrected`(
        table: String, sql: String, condition: String
    ) async throws {
        let zone = try TestZone(Self.schema)
        try await zone.writeOutside(sql, foreignKeys: false)
        try await zone.writeOutside("UPDATE teams SET logo = 5 WHERE id = 1")
        let before = try await zone.content()
        let refusal = try #require(try await zone.refusal(of: #"{"maxRevision":1}"#))
        #expect(refusal.code == .unavailable)
        #expect(refusal.place.table == table)
        #expect(refusal.place.key != nil)
        #expect(try await zone.content() == before)
        try await zone.writeOutside("DELETE FROM \(table) WHERE \(condition)", foreignKeys: false)
        try await zone.writeOutside("DELETE FROM players WHERE team_id = 2")
        #expect(try await zone.sync(at: 1).maxRevision == 2)
    }

    @Test func `F1: keys of any type arrive exactly, and return as sent`() async throws {
        let zone = try TestZone(Self.schema)
        try await zone.writeOutside(
            """
            INSERT INTO tags VALUES (x'00', 'g'), ('a' || char(0), 'h'), ('"\\', 'i'), ('', 'j');
            INSERT INTO sizes VALUES (0.1, 'a'), (2, 'b'), (1e300, 'c');
            INSERT INTO pairs VALUES (1, 'x', 'd'), (1.5, x'01', 'e'), ('1', '', 'f');
            """
        )
        let answer = try await zone.sync(at: 1)
        let set = try #require(answer.changeSets.first)
        #expect(set.attributes("sizes", "0.1")?["note"] as? String == "a")
        #expect(set.attributes("sizes", "2.0")?["note"] as? String == "b")
        #expect(set.attributes("pairs", #"[1.5,{"$blob":"AQ=="}]"#)?["note"] as? String == "e")
        #expect(set.attributes("pairs", #"["1",""]"#)?["note"] as? String == "f")
        #expect(set.attributes("tags", #"{"$blob":"AA=="}"#)?["note"] as? String == "g")
        #expect(set.attributes("tags", #"{"$text":"YQA="}"#)?["note"] as? String == "h")
        #expect(set.attributes("tags", #""\"#)?["note"] as? String == "i")
        #expect(set.attributes("tags", "")?["note"] as? String == "j")
        // And back, in the spelling of the request.
        let edit = try await zone.sync(
            at: 2,
            #"""
            {"sizes":{"update":[0.1,2,1.0E300],"attributes":{"0.1":{"note":"A"},"2":{"note":"B"},
             "1e300":{"note":"C"}}},
             "tags":{"update":[{"$text":"YQA="},""],
             "attributes":{"{\"$text\":\"YQA=\"}":{"note":"H"},"":{"note":"J"}}},
             "pairs":{"update":[[1.5,{"$blob":"AQ=="}]],
             "attributes":{"[1.5, {\"$blob\":\"AQ==\"}]":{"note":"E"}}}}
            """#
        )
        #expect(edit.changeSets.first?.isConflict == false)
        let notes = try await zone.column("SELECT group_concat(note) FROM (SELECT note FROM sizes ORDER BY 1)")
        #expect(notes == ["A,B,C"])
        #expect(try await zone.column("SELECT note FROM pairs WHERE a = 1.5") == ["E"])
        #expect(try await zone.column("SELECT note FROM tags ORDER BY 1") == ["H", "J", "g", "i"])
    }

    @Test func `A4: an id is never assigned again, whichever program deleted its record`() async throws {
        let zone = try TestZone(Self.schema)
        let create = #"{"teams":{"create":[-1],"attributes":{"-1":{}}},"players":{"create":[-1]}}"#
        let first = try #require(try await zone.sync(at: 1, create).changeSets.last)
        #expect(first.ids("create", "teams") == [3])
        #expect(first.ids("create", "players") == [4])
        _ = try await zone.sync(at: 2, #"{"teams":{"delete":[3]},"players":{"delete":[4]}}"#)
        let second = try #require(try await zone.sync(at: 3, create).changeSets.last)
        #expect(second.ids("create", "teams") == [4])
        #expect(second.ids("create", "players") == [5])
        // Another program inserts its own ids, and deletes the highest.
        try await zone.writeOutside(
            "INSERT INTO teams VALUES (50, 'x', NULL); INSERT INTO players VALUES (60, 50, 'x')")
        _ = try await zone.sync(at: 4)
        try await zone.writeOutside("DELETE FROM teams WHERE id = 50")
        let third = try #require(try await zone.sync(at: 5, create).changeSets.last)
        #expect(third.ids("create", "teams") == [51])
        #expect(third.ids("create", "players") == [61])
    }

    @Test func `A4: an id that another program used and deleted between two syncs is not reused`() async throws {
        let zone = try TestZone(Self.schema)
        try await zone.writeOutside(
            "INSERT INTO teams VALUES (70, 'x', NULL); INSERT INTO players VALUES (80, 70, 'x')")
        try await zone.writeOutside("DELETE FROM teams WHERE id = 70")
        let set = try #require(try await zone.sync(at: 1, #"{"players":{"create":[-1]}}"#).changeSets.last)
        // AUTOINCREMENT remembers the id, although only that program has seen it.
        #expect(set.ids("create", "players") == [81])
    }

    @Test(arguments: ["4503599627370496", "9223372036854775807"])
    func `A4: an id out of range, used and deleted, does not move the sequence`(id: String) async throws {
        let zone = try TestZone(Self.schema)
        try await zone.writeOutside("INSERT INTO players VALUES (\(id), 1, 'x')")
        #expect(try await zone.refusal(of: #"{"maxRevision":1}"#)?.code == .unavailable)
        try await zone.writeOutside("DELETE FROM players WHERE id = \(id)")
        // AUTOINCREMENT remembers it all the same.
        #expect(try await zone.column("SELECT seq FROM sqlite_sequence WHERE name = 'players'") == [id])
        let set = try #require(try await zone.sync(at: 1, #"{"players":{"create":[-1,-2]}}"#).changeSets.last)
        #expect(set.ids("create", "players") == [4, 5])
    }

    @Test func `A4: without free ids a creation is refused, and everything else works`() async throws {
        let zone = try TestZone(Self.schema)
        try await zone.writeOutside("INSERT INTO players VALUES (2251799813685245, 1, 'x')")
        let create = #"{"players":{"create":[-1,-2]}}"#
        let last = try #require(try await zone.sync(at: 1, create).changeSets.last)
        #expect(last.ids("create", "players") == [2_251_799_813_685_246, 2_251_799_813_685_247])
        let before = try await zone.content()
        for keys in ["-3", "-3,-4"] {
            let body = #"{"maxRevision":3,"changeSets":[{"players":{"create":[\#(keys)]}}]}"#
            let refusal = try #require(try await zone.refusal(of: body))
            #expect(refusal.code == .unavailable)
            #expect(refusal.place.table == "players")
        }
        #expect(try await zone.content() == before)
        #expect(try await zone.sync(at: 3, #"{"teams":{"create":[-1]}}"#).revisions == [4])
    }

    @Test(arguments: [
        """
        ALTER TABLE notes RENAME TO notes_old; CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO notes SELECT id, upper(text) FROM notes_old;
        """,
        """
        ALTER TABLE notes RENAME TO aside; ALTER TABLE memos RENAME TO notes;
        ALTER TABLE aside RENAME TO memos;
        """,
    ]) func `a renamed table in place of another one starts a new history and is captured`(sql: String)
        async throws
    {
        let zone = try TestZone(
            """
            CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
            CREATE TABLE memos (id INTEGER PRIMARY KEY, text TEXT);
            INSERT INTO notes VALUES (1, 'note'); INSERT INTO memos VALUES (1, 'memo');
            """
        )
        let before = try await zone.sync(at: 1)
        try await zone.writeOutside(sql)
        let after = try await zone.sync(at: 1)
        #expect(after.epoch != before.epoch)
        let print = after.object["fingerprint"] as? String
        #expect(print != before.object["fingerprint"] as? String)
        let astray = """
            SELECT name FROM sqlite_master WHERE type = 'trigger' AND name NOT LIKE '%_' || tbl_name
            """
        #expect(try await zone.column(astray).isEmpty)
        let revision = Int64(try #require(after.maxRevision))
        try await zone.writeOutside("UPDATE notes SET text = 'new' WHERE id = 1")
        let sets = try await zone.sync(at: revision).changeSets
        #expect(sets.map(\.types) == [["notes"]])
        #expect(sets.first?.ids("update", "notes") == [1])
    }

    @Test func `rule 17: the fingerprint of a rebuilt table covers its new rows`() async throws {
        let table = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);"
        func fingerprint(_ zone: TestZone) async throws -> String? {
            try await zone.sync(#"{"maxRevision":1}"#).object["fingerprint"] as? String
        }
        let zone = try TestZone(table + "INSERT INTO notes VALUES (1, 'first')")
        let before = try await fingerprint(zone)
        let rows = "INSERT INTO notes VALUES (1, 'other'), (2, 'more')"
        try await zone.writeOutside("DROP TABLE notes;" + table + rows)
        let after = try await fingerprint(zone)
        #expect(after != before)
        #expect(after == (try await fingerprint(TestZone(table + rows))))
    }
}
