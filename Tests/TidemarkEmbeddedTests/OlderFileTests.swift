import Foundation
import GRDB
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// A zone's file that an earlier version served.
@Suite struct OlderFileTests {
    @Test func `rule 3: verdicts stored whole by an older version are answered unchanged`() async throws {
        let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);"
        let request = #"""
            {"maxRevision":1,"device":"a","changeSets":[{"id":"6f6d3a4e-0000-4000-8000-000000000001",
             "notes":{"create":[-1],"attributes":{"-1":{"text":"new"}}}}]}
            """#
        let zone = try TestZone(schema + "INSERT INTO notes VALUES (1, 'first')")
        let first = try await zone.bytes(request)
        let again = try await zone.bytes(request)
        try await zone.store.close()
        let copy = String(decoding: again, as: UTF8.self)
        let whole = try #require(copy.firstRange(of: #"{"id":"#)).lowerBound
        try TestZone.write(
            """
            CREATE TABLE before AS SELECT id, device, hash, revision, after FROM tidemark_verdict;
            DROP TABLE tidemark_verdict;
            CREATE TABLE tidemark_verdict (id TEXT PRIMARY KEY, device TEXT, hash TEXT NOT NULL,
                revision INTEGER, after TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID;
            INSERT INTO tidemark_verdict SELECT *, '\(copy[whole...].dropLast(2))' FROM before;
            DROP TABLE before;
            """,
            to: zone.path
        )
        let store = try EmbeddedStore(path: zone.path, newEpoch: UUID())
        let later = try await store.sync(zone: EmbeddedStore.zoneName, body: Array(request.utf8))
        #expect(later == again)
        #expect(String(decoding: first, as: UTF8.self).contains(copy[whole...].dropLast(2)))
        let other = #"""
            {"maxRevision":2,"device":"a","changeSets":[{"id":"6f6d3a4e-0000-4000-8000-000000000002",
             "notes":{"create":[-2],"attributes":{"-2":{"text":"newer"}}}}]}
            """#
        let newer = try await store.sync(zone: EmbeddedStore.zoneName, body: Array(other.utf8))
        #expect(try Answer(newer).revisions == [3])
        try await store.close()
    }

    @Test func `a file without commit times, replaced values and contacts goes on and gets them`() async throws {
        let zone = try TestZone(
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, n INTEGER); INSERT INTO notes VALUES (1, 'a', 1)")
        let edit = { (revision: Int, members: String) in
            #"{"maxRevision":\#(revision),"changeSets":[{"notes":{"update":[1],"attributes":{"1":{\#(members)}}}}]}"#
        }
        _ = try await zone.bytes(edit(1, #""text":"b""#))
        try await zone.store.close()
        try TestZone.write(
            """
            ALTER TABLE tidemark_revision DROP COLUMN committed;
            ALTER TABLE tidemark_log DROP COLUMN replaced;
            DROP TABLE tidemark_contact;
            """,
            to: zone.path
        )
        let store = try EmbeddedStore(path: zone.path, newEpoch: UUID())
        _ = try await store.sync(zone: EmbeddedStore.zoneName, body: Array(edit(2, #""text":"c","n":2"#).utf8))
        store.contacts.record("phone", .local(EmbeddedStore.zoneName), at: 3)
        try await store.keepContacts()
        try await store.close()
        let rows = try await DatabaseQueue(path: zone.path).read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT revision.revision || ' ' || (committed > 0) || ' ' || coalesce(replaced, '-')
                    FROM tidemark_revision AS revision
                    JOIN tidemark_log USING (revision)
                    ORDER BY revision.revision
                    """
            ) + String.fetchAll(db, sql: "SELECT device FROM tidemark_contact")
        }
        #expect(rows == ["2 0 -", #"3 1 {"text":"b","n":1}"#, "phone"])
    }

    /// The older version logged no value that an earlier change set had set, so the file gets them from there.
    @Test func `the values that changes of an older version replaced are found in its change sets`() async throws {
        let zone = try TestZone(
            """
            CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, revision INTEGER);
            CREATE TABLE seats (row TEXT, place INTEGER, guest TEXT, PRIMARY KEY (row, place));
            INSERT INTO notes VALUES (1, 'a', 1);
            """
        )
        let sets = [
            #"{"seats":{"create":[["é\"",7]],"attributes":{"[\"é\\\"\",7]":{"guest":"Anna"}}}}"#,
            #"{"notes":{"create":[-1],"attributes":{"-1":{"text":"x","=revision":5}}}}"#,
            #"{"notes":{"update":[1,2],"attributes":{"1":{"text":"b"},"2":{"=revision":6}}}}"#,
            #"{"seats":{"update":[["é\"",7]],"attributes":{"[\"é\\\"\",7]":{"guest":"Ben"}}}}"#,
            #"{"notes":{"update":[1],"attributes":{"1":{"text":"c"}}}}"#, #"{"notes":{"delete":[1,2]}}"#,
        ]
        for (index, set) in sets.enumerated() {
            _ = try await zone.bytes(#"{"maxRevision":\#(index + 1),"changeSets":[\#(set)]}"#)
        }
        try await zone.store.close()
        let logged = """
            SELECT revision || ' ' || tbl || ' ' || key || ' ' || coalesce(replaced, '-')
            FROM tidemark_log
            ORDER BY revision, tbl, key
            """
        let first = try await DatabaseQueue(path: zone.path).read { try String.fetchAll($0, sql: logged) }
        #expect(first.contains(#"7 notes 2 {"text":"x","=revision":6}"#), "\(first)")
        #expect(first.contains(#"5 seats ["é\"",7] {"guest":"Anna"}"#), "\(first)")
        try TestZone.write(
            """
            UPDATE tidemark_log SET replaced = CASE
                WHEN tbl = 'notes' AND key = '1' AND revision = 4 THEN '{"text":"a"}'
                WHEN tbl = 'notes' AND key = '1' AND operation = 'delete' THEN '{"=revision":1}' END;
            ALTER TABLE tidemark_log RENAME COLUMN replaced TO unlogged;
            """,
            to: zone.path
        )
        let store = try EmbeddedStore(path: zone.path, newEpoch: UUID())
        try await store.close()
        let filled = try await DatabaseQueue(path: zone.path).read { try String.fetchAll($0, sql: logged) }
        // The members come in the order of their names.
        #expect(filled.map { $0.sorted() } == first.map { $0.sorted() }, "\(filled)")
    }

    /// A device confirms notes by their numbers, so a number that comes again would hide a loss from its user.
    @Test func `numbers of notes go on after those that an older version gave and deleted`() async throws {
        let zone = try TestZone(
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO notes VALUES (1, 'a')",
            policies: ["notes": .lastWriter])
        let edit = { (device: String, time: Int, number: Int, text: String) in
            #"""
            {"maxRevision":1,"device":"\#(device)","changeSets":[{
             "id":"6f6d3a4e-0000-4000-8000-00000000000\#(number)","time":\#(time),
             "notes":{"update":[1],"attributes":{"1":{"text":"\#(text)"}}}}]}
            """#
        }
        _ = try await zone.bytes(edit("phone", 1_000, 1, "b"))
        _ = try await zone.bytes(edit("laptop", 2_000, 2, "c"))
        try await zone.store.close()
        let read = { (sql: String) in
            try await DatabaseQueue(path: zone.path).read { try Int.fetchAll($0, sql: sql) }
        }
        #expect(try await read("SELECT number FROM tidemark_overruled") == [1])
        try TestZone.write(
            """
            UPDATE sqlite_sequence SET seq = 7 WHERE name = 'tidemark_overruled';
            DELETE FROM tidemark_overruled;
            ALTER TABLE tidemark_zone DROP COLUMN notes;
            """,
            to: zone.path
        )
        let store = try EmbeddedStore(path: zone.path, newEpoch: UUID())
        let body = Array(edit("tablet", 3_000, 3, "d").utf8)
        _ = try await store.sync(zone: EmbeddedStore.zoneName, body: body)
        try await store.close()
        #expect(try await read("SELECT number FROM tidemark_overruled") == [8])
        #expect(try await read("SELECT notes FROM tidemark_zone") == [8])
    }

    @Test func `a damaged file of an earlier version is repaired`() async throws {
        let zone = try TestZone("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
        let create = #"{"maxRevision":0,"changeSets":[{"notes":{"create":[-1],"attributes":{"-1":{"text":"a"}}}}]}"#
        _ = try await zone.bytes(create)
        try await zone.store.close()
        try TestZone.write(
            """
            ALTER TABLE tidemark_zone DROP COLUMN notes;
            DROP INDEX tidemark_log_revision;
            UPDATE tidemark_revision SET body = replace(body, '"a"', '"b"');
            """,
            to: zone.path
        )
        #expect(try ZoneVerification(path: zone.path, repairing: true).damagedEntries.count == 1)
        #expect(try ZoneVerification(path: zone.path, repairing: false).damagedEntries.isEmpty)
    }
}
