import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// Keys of types that read several texts as one value.
@Suite struct KeySpellingTests {
    private static let id = "6f6d3a4e-0000-4000-8000-00000000000a"

    /// A type of PostgreSQL, a key as stored, and the same key in another spelling.
    private static let keys = [
        ("uuid", id, id.uppercased()), ("numeric", "1.00", "1.0"), ("date", "2026-11-23", "23 Nov 2026"),
        ("char(4)", "ab  ", "ab"), ("timestamptz", "2026-11-23T10:00:00Z", "2026-11-23 11:00:00+01"),
    ]

    private func adopted(_ type: String) async throws -> (TestDatabase, PostgresStore) {
        let database = try await TestDatabase()
        try await database.connect().execute("CREATE TABLE badge (id \(type) PRIMARY KEY, text text)")
        var options = PostgresStore.Options(address: database.address, newEpoch: UUID())
        options.adopts = true
        return (database, try await PostgresStore(options))
    }

    private func sync(
        _ store: PostgresStore, at revision: Int, _ operation: String, _ key: String, _ text: String? = nil
    ) async throws -> Reply {
        let attributes = text.map { #","attributes":{"\#(key)":{"text":"\#($0)"}}"# } ?? ""
        let set = #"{"badge":{"\#(operation)":["\#(key)"]\#(attributes)}}"#
        let body = #"{"maxRevision":\#(revision),"device":"d","changeSets":[\#(set)]}"#
        return try Reply(try await store.sync(zone: "main", body: Array(body.utf8)))
    }

    @Test(arguments: keys) func `A6: another spelling of a key does not allow overwriting unseen changes`(
        type: String, key: String, other: String
    ) async throws {
        let (_, store) = try await adopted(type)
        _ = try await sync(store, at: 0, "create", other, "first")
        _ = try await sync(store, at: 1, "update", key, "second")
        for operation in ["update", "delete"] {
            let reply = try await sync(store, at: 1, operation, other, operation == "update" ? "third" : nil)
            #expect(reply.text.contains(#""conflict":true"#), "\(operation)")
        }
        let answer = try await sync(store, at: 2, "update", other, "third")
        #expect(!answer.text.contains(#""conflict":true"#))
        await store.close()
    }

    @Test(arguments: ["uuid", "date", "numeric"])
    func `rule 9: a key that its column cannot read is refused with its place`(type: String) async throws {
        let (_, store) = try await adopted(type)
        for operation in ["create", "update"] {
            let error = await #expect(throws: TidemarkError.self) {
                try await sync(store, at: 0, operation, "abc", "x")
            }
            #expect(error?.code == .invalidKey)
            #expect(error?.place.table == "badge" && error?.place.key == #""abc""#)
            #expect(error?.place.changeSet == 0)
        }
        #expect(try await store.latest(zone: "main").revision == 0)
        await store.close()
    }
}
