import StoreTestSupport
import Testing
import TidemarkCore

/// What people can read of refused change sets.
@Suite struct KeptRefusalTests {
    /// A change set without a device leaves no contact, with which those of devices go.
    @Test(arguments: Store.all) func `a zone that only clients without rows write keeps the latest 10,000 refusals`(
        store: Store
    ) async throws {
        let zone = try await Zone(
            store, "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT); INSERT INTO note VALUES (1, 'a')")
        func rename(_ text: String, id: Int) async throws {
            _ = try await zone.sync(
                #"""
                {"maxRevision":1,"changeSets":[{"id":"6f6d3a4e-0000-4000-8000-00000000000\#(id)",
                 "note":{"update":[1],"attributes":{"1":{"text":"\#(text)"}}}}]}
                """#
            )
        }
        for id in 1...3 { try await rename("b\(id)", id: id) }
        let numbers = "SELECT number FROM tidemark_refused ORDER BY number"
        #expect(try await zone.column(numbers) == ["1", "2"])
        try await zone.writeOutside("UPDATE tidemark_refused SET number = 10001 WHERE number = 2")
        try await rename("c", id: 4)
        #expect(try await zone.column(numbers) == ["10001", "10002"])
    }
}
