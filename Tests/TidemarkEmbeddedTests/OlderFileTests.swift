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

    @Test func `a file without commit times, unlogged values and contacts goes on and gets them`() async throws {
        let zone = try TestZone(
            "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, n INTEGER); INSERT INTO notes VALUES (1, 'a', 1)"
        )
        let edit = { (revision: Int, members: String) in
            #"{"maxRevision":\#(revision),"changeSets":[{"notes":{"update":[1],"attributes":{"1":{\#(members)}}}}]}"#
        }
        _ = try await zone.bytes(edit(1, #""text":"b""#))
        try await zone.store.close()
        try TestZone.write(
            """
            ALTER TABLE tidemark_revision DROP COLUMN committed;
            ALTER TABLE tidemark_log DROP COLUMN unlogged;
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
                    SELECT revision.revision || ' ' || (committed > 0) || ' ' || coalesce(unlogged, '-')
                    FROM tidemark_revision AS revision
                    JOIN tidemark_log USING (revision)
                    ORDER BY revision.revision
                    """
            ) + String.fetchAll(db, sql: "SELECT device FROM tidemark_contact")
        }
        #expect(rows == ["2 0 -", #"3 1 {"n":1}"#, "phone"])
    }
}
