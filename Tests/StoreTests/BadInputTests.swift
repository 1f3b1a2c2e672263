import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkTestSupport

/// Rule 9: a refused request changes nothing, and its error names the problem, the place and the
/// cure; any bytes give a typed error, never a defect.
@Suite(.serialized) struct BadInputTests {
    @Test(arguments: Store.all) func `Rule 9: every malformed request is refused with its own code and changes nothing`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, BadRequest.schema)
        // Revision 2 deletes a screen.
        try await zone.writeOutside("DELETE FROM screens WHERE id = 2")
        _ = try await zone.sync(at: 1)
        let before = try await zone.content()
        #expect(BadRequest.all.count >= 60)
        for request in BadRequest.all {
            do {
                let answer = try await zone.service.sync(zone: "main", body: request.body)
                Issue.record("\(request) was answered with \(String(decoding: answer, as: UTF8.self))")
            } catch let error as TidemarkError {
                #expect(error.code == request.code, "\(request): \(error)")
                #expect(!error.message.isEmpty && !error.fix.isEmpty, "\(request): \(error)")
            } catch { Issue.record("\(request) ended in a defect: \(error)") }
            let position = try await zone.column("SELECT revision FROM tidemark_zone")
            if position != ["2"] { Issue.record("\(request) changed the zone") }
        }
        #expect(try await zone.content() == before)
        let answer = try await zone.sync(at: 2)
        #expect(answer.maxRevision == 2)
    }

    @Test(arguments: [(Store.embedded, ErrorCode.constraintViolated), (Store.postgres, ErrorCode.invalidValue)])
    func `Rule 9: text for a STRICT integer is refused, by SQLite or by the column's type`(
        store: Store, code: ErrorCode
    ) async throws {
        let zone = try await Zone(store, BadRequest.schema)
        let refusal = try await zone.refusal(
            of: #"{"maxRevision":1,"changeSets":[{"counts":{"update":[1],"attributes":{"1":{"n":"many"}}}}]}"#)
        #expect(refusal?.code == code)
        #expect(refusal?.place.table == "counts")
    }

    @Test(arguments: Store.all)
    func `Rule 9: a request for another zone is refused without revealing whether it exists`(store: Store) async throws
    {
        let zone = try await Zone(store, BadRequest.schema)
        for name in ["other", "", "main\0", "MAIN", "../main", "main' OR 1=1 --"] {
            await #expect(throws: TidemarkError.self, "\(name)") {
                try await zone.service.sync(zone: name, body: Array(#"{"maxRevision":1}"#.utf8))
            }
        }
    }

    @Test(arguments: Store.all) func `Rule 9: a refusal names change set, table, key and column`(store: Store)
        async throws
    {
        let zone = try await Zone(store, BadRequest.schema)
        let refusal = try await zone.refusal(
            of: #"""
                {"maxRevision":1,"changeSets":[{},
                 {"screens":{"update":[1],"attributes":{"1":{"name":"x","color":"red"}}}}]}
                """#
        )
        let error = try #require(refusal)
        #expect(error.code == .unknownColumn)
        #expect(error.place == .init(changeSet: 1, table: "screens", key: "1", column: "color"))
        #expect(error.recovery == .permanent)
    }

    @Test(arguments: Store.all) func `Rule 21: a request may carry the maximal number of change sets and no more`(
        store: Store
    ) async throws {
        var limits = Limits.standard
        limits.changeSetsPerRequestMax = 3
        let zone = try await Zone(store, BadRequest.schema, limits: limits)
        let sets = Array(repeating: "{}", count: 4)
        let refusal = try await zone.refusal(of: #"{"maxRevision":1,"changeSets":[\#(sets.joined(separator: ","))]}"#)
        #expect(refusal?.code == .tooLarge)
        let answer = try await zone.sync(at: 1, "{}", "{}", "{}")
        #expect(answer.changeSets.count == 3)
    }

    @Test(arguments: Store.all) func `Rule 21: a million of any item is refused by the limit before further checks`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, BadRequest.schema)
        let list = { (element: String, count: Int) in Array(repeating: element, count: count).joined(separator: ",") }
        let id = #""6f6d3a4e-0000-4000-8000-000000000001""#
        let sets = try await zone.refusal(of: #"{"maxRevision":1,"changeSets":[\#(list("{}", 1_000_000))]}"#)
        #expect(sets?.code == .tooLarge)
        #expect(sets?.message.contains("10000") == true)
        for member in ["recall", "known"] {
            let refusal = try await zone.refusal(of: #"{"maxRevision":1,"\#(member)":[\#(list(id, 20_000))]}"#)
            #expect(refusal?.code == .malformedRequest)
            #expect(refusal?.fix.contains("10000") == true)
        }
        let laps = try await zone.refusal(
            of: #"{"maxRevision":1,"lap":{"last":null,"open":[\#(list(id, 1_001))],"next":\#(id)}}"#)
        #expect(laps?.code == .malformedRequest)
        #expect(laps?.fix.contains("1000") == true)
        let most = try await zone.refusal(
            of: #"{"maxRevision":1,"lap":{"last":null,"open":[\#(list(id, 1_000))],"next":\#(id)}}"#)
        #expect(most == nil)
    }

    @Test(arguments: Store.all) func `Rule 9: of 20,000 unknown members, the refusal names the first`(store: Store)
        async throws
    {
        let zone = try await Zone(store, BadRequest.schema)
        let members = (0..<20_000).map { #""m\#($0)":"x""# }.joined(separator: ",")
        let unknown = try await zone.refusal(of: #"{"maxRevision":1,\#(members)}"#)
        #expect(unknown?.code == .malformedRequest)
        #expect(unknown?.message == "The request has a member m0.")
        let devices = Array(repeating: #""device":"d""#, count: 20_000).joined(separator: ",")
        let twice = try await zone.refusal(of: #"{"maxRevision":1,\#(devices)}"#)
        #expect(twice?.code == .duplicateName)
    }

    @Test(arguments: Store.all) func `Rule 9: each refusal of a change set names its index and id`(store: Store)
        async throws
    {
        let zone = try await Zone(store, BadRequest.schema)
        let id = "1111aaaa-2222-4333-8444-555555555555"
        for members in [
            #""walls":{}"#, #""types":["walls"]"#, #""tags":{},"tags":{}"#, #""time":-1"#, #""after":5"#,
            #""tags":{"create":[],"create":[]}"#, #""tags":{"rename":[]}"#, #""tags":{"create":[5]}"#,
            #""screens":{"create":[5]}"#, #""tags":{"create":["q9"],"attributes":{"q9":{"nope":1}}}"#,
            #""tags":{"create":["q9"],"attributes":{"q9":{"note":[]}}}"#,
            #""counts":{"update":[1],"attributes":{"1":{"n":"many"}}}"#,
        ] {
            let refusal = try await zone.refusal(
                of: #"{"maxRevision":1,"changeSets":[{},{"id":"\#(id.uppercased())",\#(members)}]}"#)
            #expect(refusal?.place.changeSet == 1, "\(members)")
            #expect(refusal?.place.id == id, "\(members)")
        }
        let refusal = try await zone.refusal(
            of:
                #"{"maxRevision":1,"changeSets":[{"id":"\#(id)","tags":{"create":["q9"],"attributes":{"q9":{"nope":1}}}}]}"#
        )
        #expect(refusal?.place == .init(changeSet: 0, id: id, table: "tags", key: #""q9""#, column: "nope"))
    }
}
