import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

/// Writes of clients without rows are judged as values, together with the pushes of devices.
@Suite(.serialized) struct WriteVerdictTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE player (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id) ON DELETE CASCADE,
            name TEXT, score INTEGER DEFAULT 7);
        CREATE TABLE moment (at REAL PRIMARY KEY, note TEXT);
        INSERT INTO team VALUES (1, 'red'), (2, 'green');
        INSERT INTO player VALUES (1, 1, 'Anna', 0);
        """

    private static func id(_ number: Int) -> String { "6f6d3a4e-0000-4000-8000-\(100_000_000_000 + number)" }

    /// Writes to tables: the method, the path beneath `tables`, and the body.
    private static func writes(id number: Int, _ writes: (method: WriteRequest.Method, path: String, body: String?)...)
        -> ClientWrites
    {
        let requests = writes.map { write in
            let parts = write.path.split(separator: "/").map(String.init)
            return WriteRequest(
                method: write.method, table: parts[0], key: parts.count > 1 ? parts[1] : nil, body: write.body,
                precondition: write.method == .post ? .missing : .present)
        }
        return ClientWrites(id: id(number), requests: requests)
    }

    private static func rename(_ zone: Zone, _ name: String) async throws {
        let revision = try await zone.revision()
        let set = #"{"team":{"update":[1],"attributes":{"1":{"name":"\#(name)"}}}}"#
        _ = try await zone.sync(at: revision, device: "b", set)
    }

    private static func answers(_ result: ZoneResult) throws -> Result<[WriteAnswer], Problem>? {
        if case .writes(let answers) = try result.get().content { answers } else { nil }
    }

    @Test(arguments: Store.all)
    func `writes in a group with a device's push get their verdicts in the order of the group`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let push = #"{"id":"\#(Self.id(9))","player":{"create":[-1],"attributes":{"-1":{"team":2}}}}"#
        let body = #"{"maxRevision":1,"device":"a","echo":"ids","changeSets":[\#(push)]}"#
        let kinds: [ZoneRequest.Kind] = [
            .write(Self.writes(id: 1, (.post, "player", #"{"team":1,"name":"Ben"}"#))),
            .sync(Array(body.utf8)),
            .write(Self.writes(id: 2, (.patch, "team/2", #"{"name":"blue"}"#))),
            .write(Self.writes(id: 3, (.patch, "team/1", #"{"name":"blue"}"#))),
            .write(Self.writes(id: 4, (.delete, "player/2", nil))),
            .write(Self.writes(id: 5, (.patch, "player/2", #"{"score":1}"#))),
        ]
        let results = try await zone.together(kinds.map { ZoneRequest($0, access: .local("main")) })
        try #require(results.count == 6)
        let created = try #require(try Self.answers(results[0])?.get().first)
        #expect(created.location == "tables/player/2")
        #expect(created.record == #"{"id":2,"team":1,"name":"Ben","score":7,"$revision":2}"#)
        // The device has not seen the first write, so it gets both revisions whole.
        #expect(try Answer(try results[1].get().text).revisions == [2, 3])
        let renamed = try #require(try Self.answers(results[2])?.get().first)
        #expect(renamed.record == #"{"id":2,"name":"blue","$revision":4}"#)
        guard case .failure(let problem)? = try Self.answers(results[3]) else {
            Issue.record("\(results[3])")
            return
        }
        #expect(problem.error.code == .conflict && problem.reasons.count == 1)
        #expect(problem.reasons[0].contains(#""rule":"unique""#))
        #expect(problem.current == #"{"id":1,"name":"red","$revision":1}"#)
        #expect(try Self.answers(results[4])?.get().map(\.status) == [204])
        // A write that finds no record has no verdict, and no effect.
        let missing = #expect(throws: Problem.self) { try results[5].get() }
        #expect(missing?.error.code == .unknownRecord && missing?.index == 0)
        #expect(try await zone.column("SELECT name FROM team ORDER BY id") == ["red", "blue"])
        #expect(try await zone.column("SELECT score FROM player ORDER BY id") == ["0", "7"])
        #expect(try await zone.revision() == 5)
    }

    @Test(arguments: Store.all)
    func `A4: a repeated write gets the verdict and the keys of the first time, whatever has happened since`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let creation = Self.writes(
            id: 1, (.post, "player", #"{"team":-1}"#), (.post, "team", #"{"id":-1,"name":"blue"}"#),
            (.post, "moment", #"{"at":9,"note":"\u0041"}"#))
        let first = try await zone.service.write(creation, .local("main"))
        #expect(first.map(\.location).prefix(2) == ["tables/player/2", "tables/team/3"])
        #expect(first.allSatisfy { $0.status == 201 })
        #expect(try await zone.column("SELECT team FROM player WHERE id = 2") == ["3"])
        #expect(try await zone.column("SELECT note FROM moment") == ["A"])
        let refused = Self.writes(id: 2, (.patch, "team/1", #"{"name":"blue"}"#))
        let refusal = await #expect(throws: Problem.self) { try await zone.service.write(refused, .local("main")) }
        try await Self.rename(zone, "rot")
        #expect(try await zone.service.write(creation, .local("main")) == first)
        let again = await #expect(throws: Problem.self) { try await zone.service.write(refused, .local("main")) }
        #expect(again?.reasons == refusal?.reasons && again?.error == refusal?.error)
        #expect(again?.current == #"{"id":1,"name":"rot","$revision":3}"#)
        #expect(try await zone.revision() == 3)
    }

    @Test(arguments: Store.all)
    func `a write after a compaction is judged, because its author gets no revisions`(store: Store) async throws {
        var limits = Limits.standard
        limits.revisionsKept = 1
        limits.compactionStepMin = 1
        let zone = try await Zone(store, Self.schema, limits: limits)
        for name in ["rot", "rouge", "rosso"] { try await Self.rename(zone, name) }
        let late = Self.writes(id: 1, (.patch, "team/1", #"{"name":"blue"}"#))
        let answers = try await zone.service.write(late, .local("main"))
        #expect(answers.first?.record == #"{"id":1,"name":"blue","$revision":5}"#)
        #expect(try await zone.column("SELECT name FROM team WHERE id = 1") == ["blue"])
    }

    @Test(arguments: Store.all)
    func `what a refusal tells of a program's rows stays a revision, so that its tag is of the zone's history`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        try await zone.writeOutside("UPDATE team SET name = 'rot' WHERE id = 1")
        let stale = ClientWrites(
            id: Self.id(1),
            requests: [
                WriteRequest(
                    method: .patch, table: "team", key: "1", body: #"{"name":"blue"}"#,
                    precondition: try Precondition(ifMatch: #""1-00000000""#, ifNoneMatch: nil, of: .patch))
            ])
        // The group is committed as it is: no read before it has taken the program's rows into the log.
        let result = try await zone.together([ZoneRequest(.write(stale), access: .local("main"))])[0]
        let problem = #expect(throws: Problem.self) { try result.get() }
        #expect(problem?.error.code == .preconditionFailed)
        #expect(problem?.current == #"{"id":1,"name":"rot","$revision":2}"#)
        #expect(try await zone.revision() == 2)
        try await zone.writeOutside("UPDATE team SET name = 'grün' WHERE id = 2")
        let entries = try await zone.ask { reader in
            let team = try reader.schema.table("team")
            return try reader.log.history(of: "1", in: team, before: .max, limit: 9).map(\.revision)
        }
        #expect(entries == [2])
    }

    @Test(arguments: Store.all)
    func `a request that is refused after its first change set was written leaves only what a program wrote`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let reused = #"{"id":"\#(Self.id(8))","team":{"update":[2],"attributes":{"2":{"name":"blue"}}}}"#
        _ = try await zone.sync(#"{"maxRevision":1,"device":"a","changeSets":[\#(reused)]}"#)
        try await zone.writeOutside("UPDATE player SET name = 'Ben' WHERE id = 1")
        // A deletion with children is written at once.
        let deletion = #"{"id":"\#(Self.id(9))","team":{"delete":[2]}}"#
        let other = #"{"id":"\#(Self.id(8))","team":{"update":[1],"attributes":{"1":{"name":"x"}}}}"#
        let body = #"{"maxRevision":2,"device":"a","changeSets":[\#(deletion),\#(other)]}"#
        let result = try await zone.together([ZoneRequest(.sync(Array(body.utf8)), access: .local("main"))])[0]
        let error = #expect(throws: TidemarkError.self) { try result.get() }
        #expect(error?.code == .changeSetIdReused)
        #expect(try await zone.column("SELECT name FROM team ORDER BY id") == ["red", "blue"])
        #expect(try await zone.column("SELECT name FROM player") == ["Ben"])
        #expect(try await zone.revision() == 3)
    }

    @Test(arguments: Store.all)
    func `a value that no column holds is refused with its place before the group has any effect`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        for (body, code, column) in [
            (#"{"score":92233720368547758070}"#, ErrorCode.invalidValue, "score"),
            (#"{"name":{"$blob":"?"}}"#, .invalidValue, "name"), (#"{"score":1e999}"#, .invalidValue, "score"),
        ] {
            let writes = Self.writes(id: 1, (.patch, "player/1", body))
            let results = try await zone.together([ZoneRequest(.write(writes), access: .local("main"))])
            let error = #expect(throws: Problem.self) { try results[0].get() }?.error
            #expect(error?.code == code && error?.place.table == "player" && error?.place.key == "1")
            #expect(error?.place.column == column)
        }
        #expect(try await zone.revision() == 1)
    }

    @Test(arguments: Store.all, [#""answer":"verdicts""#, #""base":"present""#, #""related":0"#])
    func `the members of the protocol that only writes of clients without rows had are gone`(
        store: Store, member: String
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        #expect(try await zone.refusal(of: #"{"maxRevision":1,\#(member)}"#)?.code == .malformedRequest)
    }
}
