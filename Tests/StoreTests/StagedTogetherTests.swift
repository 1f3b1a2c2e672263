import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

/// Short requests of a group are staged together, with the answers that they would get alone.
@Suite(.serialized) struct StagedTogetherTests {
    private static let schema = """
        CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE players (
            id INTEGER PRIMARY KEY, team INTEGER NOT NULL REFERENCES teams (id), name TEXT CHECK (name <> '')
        );
        INSERT INTO teams VALUES (1, 'first');
        """

    private static func id(_ number: Int) -> String { "6f6d3a4e-0000-4000-8000-\(String(format: "%012d", number))" }

    private static func request(_ device: Int, at revision: Int = 1, _ sets: String...) -> String {
        #"{"maxRevision":\#(revision),"device":"\#(device)","changeSets":[\#(sets.joined(separator: ","))]}"#
    }

    /// A team and a player of it, both under temporary ids.
    private static func team(_ number: Int, _ name: String) -> String {
        #"{"id":"\#(id(number))","teams":{"create":[-1],"attributes":{"-1":{"name":"\#(name)"}}},"#
            + #""players":{"create":[-1],"attributes":{"-1":{"team":-1,"name":"\#(name)'s"}}}}"#
    }

    /// A player of a team from another change set.
    private static func player(_ number: Int, of team: Int, _ name: String) -> String {
        #"{"id":"\#(id(number))","players":{"create":[-\#(number)],"attributes":"#
            + #"{"-\#(number)":{"team":\#(team),"name":"\#(name)"}}}}"#
    }

    private static let long = String(repeating: "long ", count: 4_000)

    /// Requests of several devices at once: all with the same temporary ids, and other cases.
    private static let bodies = [
        request(1, team(10, "one")), request(2, team(20, "two"), player(21, of: -1, "second of two")),
        // White space, an escape and a character beyond the first plane.
        request(3, team(30, #"thr\u00e9e \ud83c\udfd0"#)).replacing(",", with: " ,\n "), #"{"maxRevision":1}"#,
        // Another device's temporary id is unknown here.
        request(4, player(41, of: -1, "of no team")), request(5, team(50, "five"), player(51, of: -1, "")),
        #"{"maxRevision":1,"device":"6","changeSets":[{"nothings":{"create":[-1]}}]}"#, request(7, team(70, "one")),
        request(8, #"{"id":"\#(id(80))","teams":{"update":[1],"attributes":{"1":{"name":"\#(long)"}}}}"#),
        request(9, #"{"id":"\#(id(90))","teams":{"update":[1],"attributes":{"1":{"name":"late"}}}}"#),
        request(2, player(22, of: -1, "third of two")), request(1, team(10, "one")),
        request(11, #"{"id":"\#(id(110))","after":"\#(id(111))","teams":{"update":[1]}}"#), request(12, "[]"),
    ]

    private static func zone(_ store: Store) async throws -> Zone {
        let zone = try await Zone(store, schema, epoch: UUID(uuidString: id(0)) ?? UUID(), now: { 1_000 })
        // A sequence of PostgreSQL skips the ids of a refused request.
        try await zone.database?.dropIdentities()
        return zone
    }

    private static func describe(_ result: Result<[UInt8], any Error>) -> String {
        switch result {
        case .success(let answer): String(decoding: answer, as: UTF8.self)
        case .failure(let error): "\(error)"
        }
    }

    private static func alone(_ bodies: [String], in zone: Zone) async throws -> [String] {
        var answers: [String] = []
        for body in bodies {
            do { answers.append(describe(.success(try await zone.bytes(body)))) } catch let error as TidemarkError {
                answers.append(describe(.failure(error)))
            }
        }
        return answers
    }

    @Test(arguments: Store.all) func `rule 2: each request of a group gets the answer that it would get alone`(
        store: Store
    ) async throws {
        let crowd = try await Self.zone(store)
        let line = try await Self.zone(store)
        let alone = try await Self.alone(Self.bodies, in: line)
        #expect(try await crowd.together(Self.bodies).map(Self.describe) == alone)
        #expect(try await crowd.content() == line.content())
        // An error names the place in its own request.
        #expect(alone[5].contains("change set 1"))
    }

    /// These bodies are valid, so that they are staged together.
    @Test(arguments: Store.all) func `A3: the temporary ids of the devices of a group are independent`(store: Store)
        async throws
    {
        let bodies = [0, 1, 2, 3, 4, 5, 7, 10, 11].map { Self.bodies[$0] }
        let crowd = try await Self.zone(store)
        let line = try await Self.zone(store)
        let alone = try await Self.alone(bodies, in: line)
        #expect(try await crowd.together(bodies).map(Self.describe) == alone)
        #expect(try await crowd.content() == line.content())
        #expect(alone[4].contains("unknownTemporaryId"))
        #expect(alone[5].contains("change set 1"))
        let pairs = "SELECT t.name || ': ' || p.name FROM teams AS t JOIN players AS p ON p.team = t.id ORDER BY 1"
        #expect(
            try await crowd.column(pairs) == [
                "one: one's", "thrée 🏐: thrée 🏐's", "two: second of two", "two: third of two", "two: two's",
            ]
        )
    }

    /// Long lists are extracted from a body staged alone, but not in a group.
    @Test(arguments: Store.all) func `rule 3: a change set committed alone is a retry when it comes again in a group`(
        store: Store
    ) async throws {
        let ids = (1...60).map { "-\($0)" }
        let attributes = ids.map { #""\#($0)":{"name":"caf\u00e9 \/ \#($0)"}"# }
        let body = Self.request(
            1,
            #"{"id":"\#(Self.id(10))","teams":{"create":[\#(ids.joined(separator: ","))],"#
                + #""attributes":{\#(attributes.joined(separator: ","))}}}"#)
        #expect((2_048..<8_192).contains(body.utf8.count))
        let zone = try await Self.zone(store)
        let first = try await zone.bytes(body)
        let other = Self.request(2, at: 2, Self.team(20, "two"))
        let again = try await zone.together([body, other, body]).map(Self.describe)
        #expect(again[0] == Self.describe(.success(first)))
        #expect(again[2].contains(#""revision":2,"conflict":false"#))
        #expect(try await zone.revision() == 3)
    }
}
