import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkTestSupport

/// Rule 9 for comparisons of rows: a malformed one is refused with the reason.
@Suite(.serialized) struct ComparisonInputTests {
    private static let schema = """
        CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE sign (code TEXT PRIMARY KEY, city_id INTEGER REFERENCES city);
        INSERT INTO city VALUES (1, 'Kiel'), (7, 'Bonn');
        INSERT INTO sign VALUES ('KI', 1);
        """

    /// A comparison at revision 1.
    private static func question(_ ranges: String...) -> String {
        #"{"revision":1,"ranges":[\#(ranges.joined(separator: ","))]}"#
    }

    /// A range of a table, with further members.
    private static func range(_ table: String, _ members: String = "", rows: Int = 0) -> String {
        #"{"table":"\#(table)",\#(members)"rows":\#(rows),"fingerprint":"\#(Fingerprint.none)"}"#
    }

    /// Bodies, each with the code and the text that its refusal contains.
    private static let refusals: [(body: String, code: ErrorCode, name: String)] = [
        (#"{"revision":1,"ranges":[],"foo":1}"#, .malformedRequest, "foo"),
        (question(range("city", #""sned":true,"#)), .malformedRequest, "sned"),
        (question(range("city", #""s\u0065nd":true,"#)), .malformedRequest, "escape"),
        (#"{"revision":1,"revision":1,"ranges":[]}"#, .duplicateName, "revision"),
        (question(range("city", #""table":"city","#)), .duplicateName, "table"),
        (#"{"revision":-1,"ranges":[]}"#, .malformedRequest, "revision"),
        (#"{"revision":"1","ranges":[]}"#, .malformedRequest, "revision"),
        (#"{"ranges":[]}"#, .malformedRequest, "revision"),
        (question(range("city"), range("sign", rows: -1)), .malformedRequest, "ranges[1].rows"),
        (question(range("city", #""from":true,"#)), .malformedRequest, "ranges[0].from"),
        (question(#"{"table":"city","rows":0}"#), .malformedRequest, "ranges[0].fingerprint"),
        (question("[]"), .malformedRequest, "ranges[0]"),
        (question(range("city", #""from":5,"to":3,"#)), .malformedRequest, "city"),
        (question(range("sign", #""from":"a","#)), .invalidKey, "sign"),
        (question(range("sign", #""to":"\"a\"\u0000","#)), .invalidKey, "sign"),
        (question(range("sign", #""from":5,"#)), .invalidKey, "sign"),
        (question(range("city"), range("sign"), range("city")), .malformedRequest, "city"),
        (question(range("city", #""to":3,"#), range("sign"), range("city", #""from":3,"#)), .malformedRequest, "city"),
    ]

    @Test(arguments: Store.all) func `Rule 9: a malformed comparison is refused, and the refusal names the member`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let before = try await zone.content()
        for (body, code, name) in Self.refusals {
            do {
                let answer = try await zone.service.fingerprints(zone: "main", body: Array(body.utf8))
                Issue.record("\(body) was answered with \(String(decoding: answer, as: UTF8.self))")
            } catch let error as TidemarkError {
                #expect(error.code == code, "\(body): \(error)")
                #expect(error.message.contains(name), "\(body): \(error)")
            }
        }
        #expect(try await zone.content() == before)
    }

    @Test(arguments: Store.all) func `ranges in the order of their keys, as devices write them, are accepted`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let request = ComparisonRequest(
            epoch: nil,
            schema: nil,
            revision: 1,
            recompute: true,
            ranges: [
                KeyRange(table: "city", to: .integer(5)), KeyRange(table: "city", from: .integer(5), send: false),
                KeyRange(table: "sign", to: .json(#""K""#)),
                KeyRange(table: "sign", from: .json(#""K""#), to: .json(#""L\u0001""#)),
            ]
        )
        let answer = try await zone.service.fingerprints(zone: "main", body: Array(try JSONEncoder().encode(request)))
        #expect(String(decoding: answer, as: UTF8.self).contains(#""differing":[0,1,3]"#))
    }
}
