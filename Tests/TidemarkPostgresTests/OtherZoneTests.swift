import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// An app trigger's writes from one zone into another are revisions there, like another program's
/// rows.
@Suite struct OtherZoneTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        CREATE TABLE counter (id INTEGER PRIMARY KEY, n INTEGER);
        """

    /// Two zones; one of them counts the notes of both.
    private func counting() async throws -> PostgresZone {
        let zone = try await PostgresZone(schema: Self.schema, zones: ["north", "admin"])
        try await zone.database.writeOutside(
            """
            CREATE FUNCTION count_notes() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                UPDATE public.counter SET n = n + 1 WHERE zone = 'admin';
                RETURN NULL;
            END $$;
            CREATE TRIGGER count_notes AFTER INSERT ON note
                FOR EACH ROW EXECUTE FUNCTION count_notes();
            INSERT INTO counter (zone, id, n) VALUES ('admin', 1, 0)
            """
        )
        #expect(try await zone.sync(at: 0, zone: "admin").revisions == [1])
        return zone
    }

    @Test func `rule 6: a trigger's write into another zone is a revision of that zone`() async throws {
        let zone = try await counting()
        let north = try await zone.sync(
            at: 0, zone: "north",
            #"{"note":{"create":[-1,-2],"attributes":{"-1":{"text":"milk"},"-2":{"text":"rye"}}}}"#)
        #expect(north.revisions == [1])
        #expect(north.changes == ["create note 1", "create note 2"])
        let admin = try await zone.sync(at: 1, zone: "admin")
        #expect(admin.revisions == [2])
        #expect(admin.changes == ["update counter 1"])
        #expect(admin.text.contains(#""n":2"#))
        let edit = try await zone.sync(at: 2, zone: "admin", #"{"counter":{"update":[1],"attributes":{"1":{"n":7}}}}"#)
        #expect(edit.revisions == [3])
        #expect(try await zone.column("SELECT n FROM counter") == ["7"])
        #expect(try await zone.column("SELECT count(*) FROM tidemark.capture") == ["0"])
        #expect(try await zone.column("SELECT count(*) FROM tidemark.outside") == ["0"])
    }
}
