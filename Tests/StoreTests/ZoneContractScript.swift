import Foundation
import StoreTestSupport
import Testing

@testable import TidemarkCore
@testable import TidemarkEngine

/// The whole seam at once: the same requests have the same answers.
extension ZoneContractTests {
    private static func id(_ number: Int) -> String { "6f6d3a4e-0000-4000-8000-\(100_000_000_000 + number)" }

    /// A request of a device with change sets; each is the JSON of its tables, and has a number as its id.
    private static func push(_ device: String, at revision: Int64, echo: String = "all", _ sets: (Int, String)...)
        -> ZoneRequest.Kind
    {
        let list = sets.map { #"{"id":"\#(id($0.0))",\#($0.1)}"# }.joined(separator: ",")
        let body = #"{"maxRevision":\#(revision),"device":"\#(device)","echo":"\#(echo)","changeSets":[\#(list)]}"#
        return .sync(Array(body.utf8))
    }

    private static func write(
        _ number: Int, _ method: WriteRequest.Method, _ path: String, _ body: String? = nil,
        if precondition: Precondition = .present
    ) -> ZoneRequest.Kind {
        let parts = path.split(separator: "/").map(String.init)
        let request = WriteRequest(
            method: method, table: parts[0], key: parts.count > 1 ? parts[1] : nil, body: body,
            precondition: precondition)
        return .write(ClientWrites(id: id(number), requests: [request]))
    }

    /// A device without rows compares a table.
    private static var comparison: String {
        let range = #"{"table":"team","rows":0,"fingerprint":"\#(Fingerprint.none)","send":true}"#
        return #"{"revision":12,"recompute":true,"ranges":[\#(range)]}"#
    }

    private static func text(_ json: String) -> ZoneRequest.Kind { .sync(Array(json.utf8)) }

    /// The requests of devices a and b and of a client without rows: each group is one transaction.
    private static var script: [[ZoneRequest.Kind]] {
        let first = (
            1,
            #"""
            "team":{"create":[-1],"attributes":{"-1":{"name":"Kiel","rank":1}}},
            "player":{"create":[-2,-3],"attributes":{"-2":{"team_id":-1,"name":"Anna"},
                "-3":{"team_id":-1,"mentor_id":-2,"name":"Ben"}}}
            """#
        )
        let claim = (2, #""team":{"create":[-1],"attributes":{"-1":{"name":"Kiel"}}}"#)
        return [
            [push("a", at: 0, echo: "ids", first)],
            // The name is a's, and b learns so.
            [push("b", at: 0, claim)],
            [push("a", at: 1, (3, #""team":{"update":[1],"attributes":{"1":{"rank":2}}}"#))],
            // Another column merges, and the same one is a conflict.
            [push("b", at: 1, (4, #""team":{"update":[1],"attributes":{"1":{"note":"sea"}}}"#))],
            [push("b", at: 1, (5, #""team":{"update":[1],"attributes":{"1":{"rank":9}}}"#))],
            // A policy chooses between two notes, and b gets its own one back with its next answer.
            [push("a", at: 2, (16, #""team":{"update":[1],"attributes":{"1":{"note":"bay"}}}"#))],
            // Retries: of an accepted change set, of a refused one, and of an id with another content.
            [push("a", at: 0, echo: "ids", first)], [push("b", at: 3, claim)],
            [push("a", at: 4, (1, #""team":{"update":[1],"attributes":{"1":{"rank":0}}}"#))],
            // A temporary id of an earlier request, and two devices in one transaction.
            [
                push("a", at: 4, (6, #""player":{"create":[-4],"attributes":{"-4":{"team_id":-1,"name":"Cleo"}}}"#)),
                push(
                    "b", at: 4,
                    (7, #""team":{"create":[-1,-2],"attributes":{"-1":{"name":"Ulm"},"-2":{"name":"Trier"}}}"#),
                    (8, #""cup":{"create":["gold"],"attributes":{"gold":{"team_id":-2,"year":1999}}}"#)),
                text(#"{"maxRevision":0,"device":"c","changeSets":[]}"#),
            ],
            [push("a", at: 7, (9, #""team":{"update":[2,3],"attributes":{"2":{"name":"Trier"},"3":{"name":"Ulm"}}}"#))],
            // A cascade that b has not seen whole, and one that it has.
            [push("b", at: 3, (10, #""team":{"delete":[1]}"#))], [push("b", at: 8, (11, #""team":{"delete":[1]}"#))],
            // Parents that were deleted, never existed, or are held.
            [push("a", at: 8, (12, #""player":{"create":[-5],"attributes":{"-5":{"team_id":1,"name":"Dora"}}}"#))],
            [push("a", at: 8, (13, #""player":{"create":[-6],"attributes":{"-6":{"team_id":99,"name":"Emil"}}}"#))],
            [push("a", at: 9, (14, #""team":{"delete":[3]}"#))],
            [push("a", at: 9, (15, #""team":{"update":[2],"attributes":{"2":{"name":null}}}"#))],
            // A client without rows.
            [write(20, .post, "player", #"{"team_id":2,"name":"Finn"}"#, if: .missing)],
            [write(21, .patch, "team/2", #"{"rank":5}"#)], [write(21, .patch, "team/2", #"{"rank":5}"#)],
            [write(22, .patch, "team/2", #"{"name":"Ulm"}"#)], [write(23, .delete, "cup/gold")],
            [write(24, .patch, "cup/gold", #"{"year":1}"#)],
            [text(#"{"maxRevision":12,"device":"a","changeSets":[],"recall":["\#(id(12))","\#(id(3))"]}"#)],
            [.fingerprints(Array(comparison.utf8))],
            [text(#"{"maxRevision":0,"device":"d","changeSets":[]}"#)],
        ]
    }

    static func text(_ result: ZoneResult) -> String {
        switch result.map(\.content) {
        case .success(.text(let bytes)): String(decoding: bytes, as: UTF8.self)
        case .success(.writes(let answers)): "\(answers)"
        case .success(.news(let news)): String(describing: news)
        case .failure(let error): "\(error)"
        }
    }

    private static func answers(_ kind: SeamZone.Kind) async throws -> [String] {
        let epoch = try #require(UUID(uuidString: "1b60e08c-0000-4000-8000-000000000001"))
        let zone = try await SeamZone(
            kind, schema, epoch: epoch, policies: ["team": .columns, "team.note": .lastWriter], gapless: true)
        var answers: [String] = []
        for group in script {
            let requests = group.map { ZoneRequest($0, access: .local("main")) }
            answers += try await zone.answer(requests).map(text)
        }
        return answers
    }

    @Test func `both stores answer a script of two devices and a client as the model does, byte for byte`()
        async throws
    {
        let model = try await Self.answers(.model)
        #expect(model.count == Self.script.reduce(0) { $0 + $1.count })
        for kind in [SeamZone.Kind.embedded, .postgres] {
            let answers = try await Self.answers(kind)
            for (number, pair) in zip(model, answers).enumerated() {
                #expect(pair.0 == pair.1, "answer \(number) of \(kind)")
            }
            #expect(answers.count == model.count)
        }
        // The script means what its comments say.
        let refused = model.filter { $0.contains(#""conflict":true"#) }.count
        #expect(refused == 7, "\(model.joined(separator: "\n"))")
    }
}
