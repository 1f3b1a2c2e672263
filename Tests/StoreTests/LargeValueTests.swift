import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// Values beyond the limit, from a client other than a device.
@Suite(.serialized) struct LargeValueTests {
    private static let schema = """
        CREATE TABLE notes (id TEXT PRIMARY KEY, n INTEGER, body TEXT);
        INSERT INTO notes VALUES ('seed', 1, '')
        """

    private static var limits: Limits {
        var limits = Limits.standard
        limits.valueBytesMax = 3_000
        return limits
    }

    private static func body(_ value: String, key: String = "a b", space: String = "") -> String {
        #"{"maxRevision":1,\#(space)"changeSets":[{"notes":{"create":["x"]}},"#
            + #"{"notes":{"create":["\#(key)"],"attributes":{"\#(key)":{"n":1,"body":\#(value)}}}}]}"#
    }

    private static func blob(_ count: Int) -> String { #"{"$blob":"\#(Data(count: count).base64EncodedString())"}"# }

    private static func text(_ count: Int) -> String { "\"\(String(repeating: "x", count: count))\"" }

    /// Strings of `count` bytes, written with escapes that are longer.
    private static func escaped(_ count: Int) -> String { "\"\(String(repeating: #"\n\u0007\""#, count: count / 3))\"" }

    @Test(arguments: Store.all) func `Rule 9: a value beyond the limit is refused with its place and has no effect`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema, limits: Self.limits)
        let before = try await zone.content()
        for value in [Self.text(3_001), Self.escaped(3_003), Self.blob(3_001)] {
            let error = try #require(try await zone.refusal(of: Self.body(value)))
            #expect(error.code == .tooLarge)
            #expect(error.place == .init(changeSet: 1, table: "notes", key: #""a b""#, column: "body"))
            #expect(error.message.contains("at most 3000"))
            #expect(error.recovery == .permanent)
        }
        #expect(try await zone.content() == before)
    }

    @Test(arguments: Store.all) func `Rule 9: a string that no value may contain is refused in every position`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema, limits: Self.limits)
        let spaced = Self.body(Self.text(5_000), space: "\n ")
        let device = #"{"maxRevision":1,"device":\#(Self.text(5_000))}"#
        let key = Self.body("1", key: String(repeating: "k", count: 5_000))
        for body in [spaced, device, key] {
            let error = try #require(try await zone.refusal(of: body))
            #expect(error.code == .tooLarge)
        }
        #expect(try await zone.revision() == 1)
    }

    @Test func `Rule 9: a value of exactly the limit is accepted in every notation`() async throws {
        let zone = try await Zone(.embedded, Self.schema, limits: Self.limits)
        for (number, value) in [Self.text(3_000), Self.escaped(3_000), Self.blob(3_000)].enumerated() {
            let answer = try await zone.sync(
                #"{"maxRevision":1,"changeSets":[{"notes":{"create":["\#(number)"],"attributes":"#
                    + #"{"\#(number)":{"body":\#(value)}}}}]}"#)
            #expect(answer.maxRevision == number + 2)
        }
        #expect(
            try await zone.column("SELECT length(CAST(body AS BLOB)) FROM notes WHERE id <> 'seed'") == [
                "3000", "3000", "3000",
            ]
        )
    }
}
