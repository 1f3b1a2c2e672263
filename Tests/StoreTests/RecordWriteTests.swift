import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

/// Writes of clients without rows: each is a change set, and the same judge decides.
@Suite(.serialized) struct RecordWriteTests {
    @Test(arguments: Store.all)
    func `B2: a POST without a key gets an id of the server, and the record comes back with its defaults`(store: Store)
        async throws
    {
        let client = try await RowClient(store)
        let answer = try await client.write(.post, "player", #"{"team_id": 2, "name": "Dora"}"#)
        #expect(answer.status == 201)
        #expect(answer.location == "tables/player/3")
        #expect(RowClient.isTag(answer.entityTag, of: 2))
        #expect(answer.record == #"{"id":3,"team_id":2,"name":"Dora","goals":0,"$revision":2}"#)
    }

    @Test(arguments: Store.all)
    func `every method leaves the same log as the change set that a device would send`(store: Store) async throws {
        let client = try await RowClient(store)
        _ = try await client.write(.post, "team", #"{"name":"Lemgo"}"#, id: RowClient.id(1))
        _ = try await client.write(.patch, "player/1", #"{"goals":7}"#, ifMatch: RowClient.tag(1), id: RowClient.id(2))
        _ = try await client.write(
            .put, "state/DE,SH", #"{"size":9.5e2,"country":"DE","code":"SH"}"#, ifMatch: "*", id: RowClient.id(3))
        _ = try await client.write(.put, "country/FR", #"{"name":null}"#, ifNoneMatch: "*", id: RowClient.id(4))
        _ = try await client.write(.delete, "team/1", ifMatch: RowClient.tag(1), id: RowClient.id(5), seen: 5)

        let device = try await RowClient(store).zone
        let sets = [
            #""team":{"create":[-1],"attributes":{"-1":{"name":"Lemgo"}}}"#,
            #""player":{"update":[1],"attributes":{"1":{"goals":7}}}"#,
            #""state":{"update":[["DE","SH"]],"attributes":{"[\"DE\",\"SH\"]":{"size":9.5e2}}}"#,
            #""country":{"create":["FR"],"attributes":{"FR":{"name":null}}}"#, #""team":{"delete":[1]}"#,
        ]
        for (index, set) in sets.enumerated() {
            _ = try await device.sync(at: Int64(index + 1), #"{"id":"\#(RowClient.id(index + 1))",\#(set)}"#)
        }
        for query in [
            "SELECT body FROM tidemark_revision ORDER BY revision",
            "SELECT chain FROM tidemark_revision ORDER BY revision",
            "SELECT id FROM tidemark_revision ORDER BY revision",
            "SELECT tbl || key || revision || operation || coalesce(columns, '') FROM tidemark_log ORDER BY 1",
        ] {
            let written = try await client.zone.column(query)
            #expect(written == (try await device.column(query)), "\(query)")
            #expect(written.count >= 5)
        }
        #expect(try await client.zone.service.digest(zone: "main") == device.service.digest(zone: "main"))
        #expect(try await client.zone.column("SELECT name FROM player") == [])
    }

    @Test(arguments: Store.all)
    func `rule 1: a PATCH with an old tag is refused with the present record, and nothing is done`(store: Store)
        async throws
    {
        let client = try await RowClient(store)
        let first = try await client.write(.patch, "player/1", #"{"goals":5}"#, ifMatch: RowClient.tag(1))
        #expect(first.status == 200)
        #expect(RowClient.isTag(first.entityTag, of: 2))
        for ifMatch in [RowClient.tag(1), "\"2-ffffffff\"", "\"99-1b60e08c\"", "W/\"2-1b60e08c\"", "\"etag\""] {
            let problem = try await RowClient.problem {
                _ = try await client.write(.patch, "player/1", #"{"goals":9}"#, ifMatch: ifMatch)
            }
            #expect(problem?.error.code == .preconditionFailed, "\(ifMatch)")
            #expect(problem?.current == #"{"id":1,"team_id":1,"name":"Anna","goals":5,"$revision":2}"#)
            #expect(problem?.error.place.key == "1")
        }
        let problem = try await RowClient.problem {
            _ = try await client.write(.patch, "player/1", #"{"goals":9}"#, ifMatch: RowClient.tag(1))
        }
        #expect(
            problem?.reasons == [
                #"{"table":"player","key":"1","columns":["goals"],"rule":"changed","#
                    + #""message":"Somebody else changed this record since your base."}"#
            ])
        #expect(try await client.zone.revision() == 2)
        let any = try await client.write(.patch, "player/1", #"{"goals":9}"#, ifMatch: "*")
        #expect(RowClient.isTag(any.entityTag, of: 3))
    }

    @Test(arguments: Store.all)
    func `rule 39: an old tag is refused for a counter, also when the value is the present one`(store: Store)
        async throws
    {
        let client = try await RowClient(store, policies: ["player.goals": .add])
        _ = try await client.write(.patch, "player/1", #"{"goals":3}"#, ifMatch: RowClient.tag(1))
        let problem = try await RowClient.problem {
            _ = try await client.write(.patch, "player/1", #"{"goals":3}"#, ifMatch: RowClient.tag(1))
        }
        #expect(problem?.error.code == .preconditionFailed)
        let inBatch = try await RowClient.problem {
            _ = try await client.batch(
                #"""
                [{"method":"POST","path":"tables/team","body":{"name":"Lemgo"}},
                 {"method":"PATCH","path":"tables/player/1","ifMatch":"1-1b60e08c","body":{"goals":3}}]
                """#
            )
        }
        #expect(inBatch?.error.code == .preconditionFailed)
        #expect(try await client.zone.column("SELECT name FROM team ORDER BY id") == ["Kiel", "Flensburg"])
        let again = try await client.write(.patch, "player/1", #"{"goals":5}"#, ifMatch: RowClient.tag(2))
        #expect(again.status == 200)
    }

    @Test(arguments: Store.all)
    func `a repeated request gets the first verdict, and has no second effect`(store: Store) async throws {
        let client = try await RowClient(store)
        let created = try await client.write(.post, "team", #"{"name":"Lemgo"}"#, id: RowClient.id(1))
        let patched = try await client.write(
            .patch, "player/1", #"{"goals":5}"#, ifMatch: RowClient.tag(1), id: RowClient.id(2))
        let deleted = try await client.write(.delete, "player/2", ifMatch: "*", id: RowClient.id(3))
        #expect([created.status, patched.status, deleted.status] == [201, 200, 204])
        // Another client moves the zone on, so that `*` and the tag name other revisions than before.
        _ = try await client.zone.sync(
            at: 4, device: "d", #"{"team":{"create":[-1],"attributes":{"-1":{"name":"x"}}}}"#)
        let again = (
            try await client.write(.post, "team", #"{ "name" : "Lemgo" }"#, id: RowClient.id(1)),
            try await client.write(
                .patch, "player/1", #"{"goals":5}"#, ifMatch: RowClient.tag(1), id: RowClient.id(2), isMinimal: true),
            try await client.write(.delete, "player/2", ifMatch: "*", id: RowClient.id(3))
        )
        #expect(again.0 == created)
        #expect(again.1.entityTag == patched.entityTag)
        #expect(again.1.status == 204)
        #expect(again.2 == deleted)
        #expect(try await client.zone.revision() == 5)
        let other = try await RowClient.problem {
            _ = try await client.write(.patch, "player/1", #"{"goals":6}"#, ifMatch: "*", id: RowClient.id(2))
        }
        #expect(other?.error.code == .changeSetIdReused)
        let refused = try await RowClient.problem {
            _ = try await client.write(
                .patch, "player/1", #"{"goals":6}"#, ifMatch: RowClient.tag(1), id: RowClient.id(4))
        }
        #expect(refused?.error.code == .preconditionFailed)
    }

    @Test(arguments: Store.all)
    func `rule 1: of 50 clients that change one record from one state, exactly one succeeds`(store: Store) async throws
    {
        let client = try await RowClient(store)
        let codes = try await withThrowingTaskGroup(of: ErrorCode?.self) { group in
            for number in 1...50 {
                group.addTask {
                    try await RowClient.problem {
                        let goals = #"{"goals":\#(number + 10)}"#
                        _ = try await client.write(.patch, "player/1", goals, ifMatch: RowClient.tag(1))
                    }?.error.code
                }
            }
            return try await group.reduce(into: [ErrorCode?]()) { $0.append($1) }
        }
        #expect(codes.count { $0 == nil } == 1)
        #expect(codes.count { $0 == .preconditionFailed } == 49)
        #expect(try await client.zone.revision() == 2)
    }

    // MARK: Problems

    private struct Refusal: CustomTestStringConvertible {
        let name: String
        let code: ErrorCode
        var column: String?
        let send: @Sendable (RowClient) async throws -> Void

        var testDescription: String { name }
    }

    private static let refusals: [Refusal] = [
        Refusal(name: "a table that is not there", code: .unknownTable) {
            _ = try await $0.write(.post, "tems", "{}")
        },
        Refusal(name: "a PATCH of a record that is not there", code: .unknownRecord) {
            _ = try await $0.write(.patch, "player/77", #"{"goals":1}"#, ifMatch: "*")
        },
        Refusal(name: "a DELETE of a record that is not there", code: .unknownRecord) {
            _ = try await $0.write(.delete, "state/DE,HH", ifMatch: "*")
        },
        Refusal(name: "a PATCH without If-Match", code: .preconditionRequired) {
            _ = try await $0.write(.patch, "player/1", #"{"goals":1}"#)
        },
        Refusal(name: "a PUT that lacks columns", code: .incompleteRecord, column: "team_id") {
            _ = try await $0.write(.put, "player/1", #"{"name":"Anna"}"#, ifMatch: "*")
        },
        Refusal(name: "a POST without a part of the key", code: .incompleteRecord, column: "code") {
            _ = try await $0.write(.post, "state", #"{"country":"FR"}"#)
        },
        Refusal(name: "a PUT that would replace a record unseen", code: .preconditionFailed) {
            _ = try await $0.write(.put, "country/DE", #"{"name":"x"}"#, ifNoneMatch: "*")
        },
        Refusal(name: "a PUT under a temporary id", code: .invalidKey) {
            _ = try await $0.write(.put, "team/-5", #"{"name":"x"}"#, ifNoneMatch: "*")
        },
        Refusal(name: "a POST of a key that is there", code: .conflict) {
            _ = try await $0.write(.post, "country", #"{"code":"DE","name":"x"}"#)
        },
        Refusal(name: "a unique value that is taken", code: .conflict) {
            _ = try await $0.write(.post, "team", #"{"name":"Kiel"}"#)
        },
        Refusal(name: "another key than the path's", code: .invalidKey, column: "id") {
            _ = try await $0.write(.patch, "player/1", #"{"id":2}"#, ifMatch: "*")
        },
        Refusal(name: "a key that is no integer", code: .invalidKey) {
            _ = try await $0.write(.patch, "player/one", #"{"goals":1}"#, ifMatch: "*")
        },
        Refusal(name: "a CHECK that fails", code: .constraintViolated) {
            _ = try await $0.write(.patch, "player/1", #"{"goals":-1}"#, ifMatch: "*")
        },
        Refusal(name: "a reference to nothing", code: .brokenReference) {
            _ = try await $0.write(.patch, "player/1", #"{"team_id":99}"#, ifMatch: "*")
        },
        Refusal(name: "a column that is not there", code: .unknownColumn, column: "gaols") {
            _ = try await $0.write(.patch, "player/1", #"{"gaols":1}"#, ifMatch: "*")
        },
        Refusal(name: "a member with $ that is no column", code: .unknownColumn, column: "$goals") {
            _ = try await $0.write(.patch, "player/1", #"{"$goals":1}"#, ifMatch: "*")
        },
        Refusal(name: "a column twice", code: .duplicateName, column: "goals") {
            _ = try await $0.write(.patch, "player/1", #"{"goals":1,"goals":2}"#, ifMatch: "*")
        },
        Refusal(name: "an array as a value", code: .invalidValue, column: "goals") {
            _ = try await $0.write(.patch, "player/1", #"{"goals":[1]}"#, ifMatch: "*")
        },
        Refusal(name: "an $int that is none", code: .invalidValue, column: "goals") {
            _ = try await $0.write(.patch, "player/1", #"{"goals":{"$int":"9223372036854775808"}}"#, ifMatch: "*")
        },
        Refusal(name: "a value that is no JSON", code: .malformedRequest, column: nil) {
            _ = try await $0.write(.patch, "player/1", #"{"name":'a'}"#, ifMatch: "*")
        },
        Refusal(name: "a value that ends another change set", code: .malformedRequest) {
            _ = try await $0.write(.patch, "player/1", #"{"goals":1}},"team":{"delete":[1]}"#, ifMatch: "*")
        },
        Refusal(name: "a body that is no object", code: .malformedRequest) {
            _ = try await $0.write(.patch, "player/1", "[1]", ifMatch: "*")
        },
        Refusal(name: "If-Match with POST", code: .invalidArgument) {
            _ = try await $0.write(.post, "team", #"{"name":"x"}"#, ifMatch: "*")
        },
        Refusal(name: "a revision that the zone has not reached", code: .revisionAhead) {
            _ = try await $0.write(.delete, "player/1", ifMatch: "*", seen: 9)
        },
    ]

    @Test(arguments: Store.all) func `rule 21: every faulty write is refused whole, with its place`(store: Store)
        async throws
    {
        let client = try await RowClient(store)
        let before = try await client.zone.service.digest(zone: "main")
        for refusal in Self.refusals {
            let problem = try await RowClient.problem { try await refusal.send(client) }
            #expect(problem?.error.code == refusal.code, "\(refusal.name): \(String(describing: problem))")
            if let column = refusal.column { #expect(problem?.error.place.column == column, "\(refusal.name)") }
            #expect(try await client.zone.service.digest(zone: "main") == before, "\(refusal.name)")
        }
        let tagless = try await RowClient.problem { _ = try await client.write(.delete, "player/1") }
        #expect(tagless?.error.fix.contains("If-Match: \(RowClient.tag(1))") == true)
    }

    @Test(arguments: Store.all)
    func `a child that the client has not seen refuses the deletion of its parent, until the client has looked`(
        store: Store
    ) async throws {
        let client = try await RowClient(store)
        _ = try await client.write(.post, "player", #"{"team_id":1,"name":"New"}"#)
        let problem = try await RowClient.problem {
            _ = try await client.write(.delete, "team/1", ifMatch: RowClient.tag(1))
        }
        // The team's own tag is right, so the same request would be refused again.
        #expect(problem?.error.code == .conflict)
        #expect(problem?.reasons.first?.contains(#""table":"player","key":"3""#) == true)
        #expect(problem?.current == #"{"id":1,"name":"Kiel","$revision":1}"#)
        let answer = try await client.write(.delete, "team/1", ifMatch: RowClient.tag(1), seen: 2)
        #expect(answer.status == 204)
        #expect(try await client.zone.column("SELECT name FROM player") == [])
    }

    // MARK: Values

    @Test(arguments: Store.all)
    func `large integers, blobs and texts keep their value in both directions`(store: Store) async throws {
        let client = try await RowClient(store)
        let body = #"{"goals": {"$int": "9223372036854775807"}, "name": "a\n\"\\ é"}"#
        let answer = try await client.write(.patch, "player/1", body, ifMatch: "*")
        #expect(answer.record?.contains(#""goals":{"$int":"9223372036854775807"}"#) == true)
        #expect(try await client.zone.column("SELECT goals FROM player WHERE id = 1") == ["9223372036854775807"])
        #expect(try await client.zone.column("SELECT name FROM player WHERE id = 1") == ["a\n\"\\ é"])
        let record = try #require(answer.record)
        let back = try await client.write(.put, "player/1", record, ifMatch: answer.entityTag)
        #expect(back.status == 200)
        #expect(try await client.zone.column("SELECT goals FROM player WHERE id = 1") == ["9223372036854775807"])
    }

    @Test(arguments: Store.all)
    func `B8: under latest a write has the server's time, later than every time in the zone, so it stands`(store: Store)
        async throws
    {
        let client = try await RowClient(store, policies: ["player": .latest])
        let later = #"{"time":1700000060000000,"player":{"update":[1],"attributes":{"1":{"goals":8,"name":"A"}}}}"#
        _ = try await client.zone.sync(at: 1, device: "d", later)
        let answer = try await client.write(.patch, "player/1", #"{"goals":3}"#, ifMatch: RowClient.tag(1))
        #expect(answer.record == #"{"id":1,"team_id":1,"name":"A","goals":3,"$revision":3}"#)
    }

    // MARK: Batches

    @Test(arguments: Store.all)
    func `A3: the entries of a batch refer to each other by temporary ids, and become one revision`(store: Store)
        async throws
    {
        let client = try await RowClient(store)
        let requests = """
            [{"method": "POST", "path": "tables/team", "body": {"id": -1, "name": "Lemgo"}},
             {"method": "PATCH", "path": "/tables/player/2", "ifMatch": "1-1b60e08c", "body": {"team_id": -1}},
             {"method": "POST", "path": "tables/player", "body": {"team_id": -1, "name": "Dora"}},
             {"method": "POST", "path": "tables/player", "body": {"team_id": 1, "name": "Emil"}},
             {"method": "DELETE", "path": "tables/state/DE,SH", "ifMatch": "*"}]
            """
        let answers = try await client.batch(requests, id: RowClient.id(1))
        #expect(answers.map(\.status) == [201, 200, 201, 201, 204])
        #expect(answers[0].location == "tables/team/3")
        #expect(answers[1].record?.contains(#""team_id":3"#) == true)
        #expect(Set(answers[2...3].map(\.location)) == ["tables/player/3", "tables/player/4"])
        #expect(answers[2].record?.contains("Dora") == true)
        #expect(try await client.zone.revision() == 2)
        #expect(try await client.batch(requests, id: RowClient.id(1)) == answers)
        #expect(try await client.zone.revision() == 2)
    }

    @Test(arguments: Store.all)
    func `D4: one refused entry refuses the batch, and the problem names the entry`(store: Store) async throws {
        let client = try await RowClient(store)
        _ = try await client.write(.patch, "player/2", #"{"goals":9}"#, ifMatch: "*")
        let good = #"{"method":"POST","path":"tables/team","body":{"name":"Lemgo"}}"#
        let cases: [(entry: String, code: ErrorCode)] = [
            (
                #"{"method":"PATCH","path":"tables/player/2","ifMatch":"1-1b60e08c","body":{"goals":1}}"#,
                .preconditionFailed
            ),
            (#"{"method":"PATCH","path":"tables/player/2","body":{"goals":1}}"#, .preconditionRequired),
            (#"{"method":"DELETE","path":"tables/player/9","ifMatch":"*"}"#, .unknownRecord),
            (#"{"method":"POST","path":"tables/team/7","body":{"name":"x"}}"#, .malformedRequest),
        ]
        for (entry, code) in cases {
            let problem = try await RowClient.problem { _ = try await client.batch("[\(good),\(entry)]") }
            #expect(problem?.error.code == code)
            #expect(problem?.index == 1, "\(entry): \(String(describing: problem))")
        }
        // Of a CHECK that fails the database names the table alone, which has one entry here.
        let check = #"{"method":"PATCH","path":"tables/player/1","ifMatch":"*","body":{"goals":-1}}"#
        let violation = try await RowClient.problem { _ = try await client.batch("[\(good),\(check)]") }
        #expect(violation?.error.code == .constraintViolated)
        #expect(violation?.index == 1)
        let twice = #"{"method":"DELETE","path":"tables/player/2","ifMatch":"*"}"#
        let problem = try await RowClient.problem { _ = try await client.batch("[\(twice),\(twice)]") }
        #expect(problem?.error.code == .malformedRequest)
        #expect(try await client.zone.revision() == 2)
    }

    @Test(arguments: Store.all)
    func `a minimal answer brings no tag of columns that the client has not seen`(store: Store) async throws {
        let client = try await RowClient(store, policies: ["player": .columns])
        let tag = { (path: String, ifMatch: String) in
            try await client.write(.patch, path, #"{"name":"x"}"#, ifMatch: ifMatch, isMinimal: true).entityTag
        }
        _ = try await client.write(.patch, "player/1", #"{"goals":5}"#, ifMatch: RowClient.tag(1))
        #expect(try await tag("player/1", RowClient.tag(1)) == nil)
        #expect(try await tag("team/1", "*") == nil)
        let last = try await tag("team/1", RowClient.tag(4))
        #expect(RowClient.isTag(last, of: 5))
    }

    @Test(arguments: Store.all)
    func `a write to any state stands although the record has changed in the same commit`(store: Store) async throws {
        let client = try await RowClient(store)
        let writes = ["5", "9"].enumerated().map { index, goals in
            ClientWrites(
                id: RowClient.id(index + 1),
                requests: [
                    WriteRequest(
                        method: .patch, table: "player", key: "1", body: #"{"goals":\#(goals)}"#, precondition: .present
                    )
                ])
        }
        let results = try await client.zone.together(writes.map { ZoneRequest(.write($0), access: .local("main")) })
        for result in results {
            guard case .writes(.success) = try result.get().content else {
                Issue.record("\(result)")
                continue
            }
        }
        #expect(try await client.zone.column("SELECT goals FROM player WHERE id = 1") == ["9"])
    }

    #if DEBUG
    @Test(arguments: Store.all)
    func `the bug that ignores If-Match overwrites an unseen change, so the tests above would see it`(store: Store)
        async throws
    {
        let client = try await RowClient(store)
        _ = try await client.write(.patch, "player/1", #"{"goals":5}"#, ifMatch: RowClient.tag(1))
        let answer = try await PlantedBug.$current.withValue(.restIgnoresIfMatch) {
            try await client.write(.patch, "player/1", #"{"goals":9}"#, ifMatch: RowClient.tag(1))
        }
        #expect(answer.status == 200)
    }
    #endif
}
