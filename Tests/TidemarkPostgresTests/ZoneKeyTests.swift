import Foundation
import StoreTestSupport
import Testing
import TidemarkPostgres
import TidemarkTestSupport

/// Tables and statements that can be distributed by the zone: every key begins with it, and no
/// statement of the hot path names two.
@Suite struct ZoneKeyTests {
    @Test func `A9: every primary key, unique index and foreign key begins with the zone`() async throws {
        let zone = try await PostgresZone()
        let keys = try await zone.database.connect().table(
            """
            SELECT c.relname, i.indexrelid::regclass::text, a.attname
            FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
            JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
            WHERE c.relnamespace IN ('public'::regnamespace, 'tidemark'::regnamespace)
                AND i.indisunique AND c.relname <> 'served'
            """,
            columns: 3
        )
        #expect(keys.count > 15)
        for key in keys { #expect(key[2] == "zone", "\(key[1]) of \(key[0])") }
        let references = try await zone.database.connect().table(
            """
            SELECT conrelid::regclass::text, conname, a.attname, p.attname
            FROM pg_constraint AS c
            JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
            JOIN pg_attribute AS p ON p.attrelid = c.confrelid AND p.attnum = c.confkey[1]
            WHERE contype = 'f'
            """,
            columns: 4
        )
        #expect(references.count == 3)
        for reference in references { #expect(reference[2...] == ["zone", "zone"], "\(reference)") }
    }

    @Test func `A9: two zones have equal ids and unique values, and do not see each other`() async throws {
        let zone = try await PostgresZone(zones: ["north", "south"])
        let set = #"{"team":{"create":[-1],"attributes":{"-1":{"name":"Kiel","rank":1}}}}"#
        let north = try await zone.sync(at: 0, zone: "north", set)
        #expect(north.changes == ["create team 1"])
        try await zone.database.writeOutside("INSERT INTO team (zone, id, name, rank) VALUES ('south', 1, 'Kiel', 1)")
        let south = try await zone.sync(at: 0, zone: "south")
        #expect(south.changes == ["create team 1"])
        #expect(try await zone.column("SELECT zone FROM team ORDER BY zone") == ["north", "south"])
        await #expect(throws: (any Error).self) { try await zone.sync(at: 0, zone: "west") }
    }

    @Test func `A9: existing rows of an unserved zone become its first revision when it is served`() async throws {
        let zone = try await PostgresZone()
        try await zone.database.writeOutside("INSERT INTO team (id, name, zone) VALUES (5, 'Ulm', 'west')")
        #expect(try await zone.column("SELECT count(*) FROM tidemark.capture") == ["0"])
        var options = PostgresStore.Options(address: zone.database.address, newEpoch: UUID())
        options.zones = ["west"]
        let other = try await PostgresStore(options)
        #expect(try await other.latest(zone: "west").revision == 1)
        #expect(try await other.latest(zone: "main").revision == 0)
        try await zone.database.writeOutside("UPDATE team SET name = 'Uelzen' WHERE zone = 'west'")
        let answer = try Reply(try await other.sync(zone: "west", body: Array(#"{"maxRevision":1}"#.utf8)))
        #expect(answer.changes == ["update team 5"])
        await other.close()
    }
}
