import StoreTestSupport
import Testing
import TidemarkCore

/// A table without a primary key is known by unique columns that are NOT NULL.
@Suite struct UniqueKeyTests {
    private static let schema = """
        CREATE TABLE setting (name TEXT NOT NULL, value TEXT, UNIQUE (name));
        CREATE TABLE pair (x INTEGER NOT NULL, y INTEGER NOT NULL, note TEXT);
        CREATE UNIQUE INDEX pair_key ON pair (x, y);
        """

    @Test(arguments: Store.all)
    func `records are created, updated, contended and deleted by their unique values`(kind: Store) async throws {
        let zone = try await Zone(kind, Self.schema)
        let creation = """
            {"types":["setting","pair"],"setting":{"create":["a"],"attributes":{"a":{"value":"1"}}},\
            "pair":{"create":[[1,2]],"attributes":{"[1,2]":{"note":"n"}}}}
            """
        #expect(try await zone.sync(at: 0, creation).changeSets[0].revision == 1)
        let update = #"{"types":["pair"],"pair":{"update":[[1,2]],"attributes":{"[1,2]":{"note":"m"}}}}"#
        #expect(try await zone.sync(at: 1, update).changeSets[0].revision == 2)
        let again = #"{"types":["setting"],"setting":{"create":["a"],"attributes":{"a":{"value":"2"}}}}"#
        #expect(try await zone.sync(at: 2, again).changeSets[0].isConflict == true)
        let deletion = #"{"types":["setting"],"setting":{"delete":["a"]}}"#
        #expect(try await zone.sync(at: 2, deletion).changeSets[0].revision == 3)
        try await zone.writeOutside("INSERT INTO setting (name, value) VALUES ('out', 'side')")
        let answer = try await zone.sync(at: 3)
        #expect(answer.changeSets[0].attributes("setting", "out")?["value"] as? String == "side")
        #expect(try await zone.column("SELECT note FROM pair") == ["m"])
    }
}
