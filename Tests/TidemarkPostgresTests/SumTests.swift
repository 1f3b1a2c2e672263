import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// Rule 39: sums in tables that PostgreSQL had before, and that psql alters.
@Suite(.serialized) struct SumTests {
    private static let schema = """
        CREATE TABLE item (
            id integer PRIMARY KEY, small smallint, whole integer DEFAULT 0, large bigint, exact numeric, flag boolean);
        INSERT INTO item VALUES (1, 32760, 2147483640, 5, 5, true);
        CREATE TABLE price (id integer PRIMARY KEY, amount numeric(3, 2));
        INSERT INTO price VALUES (1, 5);
        """

    private static func store(_ policies: [String: ConflictPolicy]) async throws -> (TestDatabase, PostgresStore) {
        let database = try await TestDatabase()
        try await database.connect().execute(schema)
        var options = PostgresStore.Options(address: database.address, newEpoch: UUID())
        options.adopts = true
        options.policies = policies
        return (database, try await PostgresStore(options))
    }

    private static func body(_ column: String, _ delta: Int) -> [UInt8] {
        let attributes = #"{"1":{"\#(column)":{"$add":\#(delta)}}}"#
        return Array(#"{"maxRevision":1,"changeSets":[{"item":{"update":[1],"attributes":\#(attributes)}}]}"#.utf8)
    }

    @Test func `A9: every integer type of an adopted table adds up, and refuses a sum beyond its range`() async throws {
        let names = ["small", "whole", "large"]
        let policies = Dictionary(uniqueKeysWithValues: names.map { ("item.\($0)", ConflictPolicy.add) })
        let (database, store) = try await Self.store(policies)
        for column in names {
            _ = try await store.sync(zone: "main", body: Self.body(column, 5))
            _ = try await store.sync(zone: "main", body: Self.body(column, 2))
        }
        let sums = "SELECT small || ' ' || whole || ' ' || large FROM item"
        #expect(try await database.connect().column(sums) == ["32767 2147483647 12"])
        for (column, delta) in [("small", 1), ("whole", 1), ("large", Int.max)] {
            let error = await #expect(throws: TidemarkError.self) {
                try await store.sync(zone: "main", body: Self.body(column, delta))
            }
            #expect(error?.code == .constraintViolated)
            #expect(error?.message == "The table refuses a record: adding gives no integer that fits.")
        }
        await store.close()
    }

    @Test func `rule 9: a number that is too large is not called a sum because another table adds up`() async throws {
        let (_, store) = try await Self.store(["item.large": .add])
        let price = #""price":{"update":[1],"attributes":{"1":{"amount":10}}}"#
        let item = #""item":{"update":[1],"attributes":{"1":{"large":{"$add":1}}}}"#
        let error = await #expect(throws: TidemarkError.self) {
            let body = #"{"maxRevision":1,"changeSets":[{\#(item),\#(price)}]}"#
            return try await store.sync(zone: "main", body: Array(body.utf8))
        }
        #expect(error?.code == .invalidValue)
        #expect(error?.place.table == "price")
        await store.close()
    }

    @Test func `numbers with a fraction and truth values of an adopted table cannot add up`() async throws {
        for column in ["exact", "flag"] {
            let error = await #expect(throws: TidemarkError.self) { try await Self.store(["item.\(column)": .add]) }
            #expect(error?.code == .invalidArgument)
        }
    }

    @Test func `C3: a column keeps its policy when psql renames it`() async throws {
        let (database, store) = try await Self.store(["item.large": .add])
        try await database.writeOutside("ALTER TABLE item RENAME COLUMN large TO stock")
        for _ in 1...2 { _ = try await store.sync(zone: "main", body: Self.body("stock", 2)) }
        // A device that froze its change set before uses the former name.
        _ = try await store.sync(zone: "main", body: Self.body("large", 2))
        #expect(try await database.connect().column("SELECT stock FROM item") == ["11"])
        await store.close()
    }
}
