import StoreTestSupport
import Testing
import TidemarkCore

/// A client without rows asks for verdicts only.
@Suite(.serialized) struct VerdictAnswerTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE player (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team (id) ON DELETE CASCADE,
            name TEXT, score INTEGER DEFAULT 7);
        INSERT INTO team VALUES (1, 'red');
        INSERT INTO player VALUES (1, 1, 'Anna', 0);
        """

    private static func set(_ number: Int, _ tables: String) -> String {
        #"{"id":"6f6d3a4e-0000-4000-8000-\#(String(100_000_000_000 + number))",\#(tables)}"#
    }

    private static let creation = set(
        1,
        #""player":{"create":[-1],"update":[1],"attributes":{"-1":{"team":1},"1":{"score":5}}}"#
    )

    private static func answer(_ zone: Zone, at revision: Int = 1, _ members: String = "", _ sets: String...)
        async throws -> (text: String, answer: Answer)
    {
        let bytes = try await zone.bytes(
            #"{"maxRevision":\#(revision),"device":"a","answer":"verdicts",\#(members)"#
                + #""changeSets":[\#(sets.joined(separator: ","))]}"#
        )
        return (String(decoding: bytes, as: UTF8.self), try Answer(bytes))
    }

    private static func rename(_ zone: Zone, _ name: String) async throws {
        let revision = try await zone.revision()
        let set = #"{"team":{"update":[1],"attributes":{"1":{"name":"\#(name)"}}}}"#
        _ = try await zone.sync(at: revision, device: "b", set)
    }

    @Test(arguments: Store.all) func `the answer has new ids, but neither defaults nor other devices' changes`(
        store: Store
    )
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        try await Self.rename(zone, "rot")
        let (text, answer) = try await Self.answer(zone, "", Self.creation)
        #expect(
            text.hasSuffix(
                #""more":true,"answer":"verdicts","changeSets":["#
                    + #"{"id":"6f6d3a4e-0000-4000-8000-100000000001","revision":3,"conflict":false,"#
                    + #""types":["player"],"player":{"create":[2],"update":[],"delete":[],"#
                    + #""attributes":{"2":{"__oldId__":-1}}}}]}"#
            ),
            "\(text)"
        )
        // The client may continue from there, because the answer had no other changes yet.
        #expect(answer.maxRevision == 1)
        #expect(try await zone.sync(at: 1, device: "a").revisions == [2, 3])
    }

    @Test(arguments: Store.all) func `A4: a retry gets the same answer, and the whole one on request`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let first = try await Self.answer(zone, "", Self.creation).text
        try await Self.rename(zone, "rot")
        #expect(try await Self.answer(zone, "", Self.creation).text == first)
        let whole = try await zone.sync(at: 3, device: "a", Self.creation)
        #expect(whole.changeSets.first?.attributes("player", "2")?["score"] as? Int == 7)
        let conflicting = Self.set(2, #""team":{"update":[1],"attributes":{"1":{"name":"blue"}}}"#)
        let conflict = try await Self.answer(zone, "", conflicting)
        #expect(conflict.answer.changeSets.first?.rules == ["changed"])
        #expect(try await Self.answer(zone, "", conflicting).text == conflict.text)
    }

    @Test(arguments: Store.all)
    func `A3: verdicts are in the order of the change sets, accepted and refused ones mixed`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        try await Self.rename(zone, "rot")
        let answer = try await Self.answer(
            zone,
            "",
            Self.creation,
            Self.set(2, #""team":{"update":[1],"attributes":{"1":{"name":"blue"}}}"#),
            // Without an id only the order identifies a verdict.
            #"{"team":{"create":[-5],"attributes":{"-5":{"name":"green"}}}}"#
        ).answer
        #expect(answer.revisions == [3, nil, 4])
        #expect(answer.changeSets[1].attributes("team", "1")?["name"] as? String == "rot")
        #expect(answer.changeSets[2].ids("create", "team") == [2])
    }

    @Test(arguments: Store.all)
    func `a base below the horizon is judged, and only reads of the log are refused`(store: Store)
        async throws
    {
        var limits = Limits.standard
        limits.revisionsKept = 1
        limits.compactionStepMin = 1
        let zone = try await Zone(store, Self.schema, limits: limits)
        for name in ["rot", "rouge", "rosso"] { try await Self.rename(zone, name) }
        let update = Self.set(2, #""team":{"update":[1],"attributes":{"1":{"name":"blue"}}}"#)
        let ordinary = #"{"maxRevision":1,"device":"a","changeSets":[\#(update)]}"#
        #expect(try await zone.refusal(of: ordinary)?.code == .snapshotRequired)
        let answer = try await Self.answer(zone, "", update, Self.creation).answer
        #expect(answer.changeSets.map(\.isConflict) == [true, false])
        #expect(try await zone.column("SELECT name FROM team") == ["rosso"])
        #expect(try await zone.column("SELECT score FROM player ORDER BY id") == ["5", "7"])
        let ahead = try await zone.refusal(of: #"{"maxRevision":99,"answer":"verdicts","changeSets":[\#(update)]}"#)
        #expect(ahead?.code == .revisionAhead)
    }

    @Test(arguments: Store.all) func `B8: a value overruled by its column's policy is named, at first and in a retry`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema, policies: ["team": .latest], now: { 1_700_000_000_000 })
        try await Self.rename(zone, "rot")
        let late = Self.set(2, #""time":1600000000000000,"team":{"update":[1],"attributes":{"1":{"name":"blue"}}}"#)
        let first = try await Self.answer(zone, "", late)
        #expect(first.text.contains(#""lost":{"name":"blue"}"#), "\(first.text)")
        #expect(first.answer.changeSets.first?.isConflict == false)
        #expect(try await Self.answer(zone, "", late).text == first.text)
    }

    @Test(arguments: Store.all)
    func `a client that wants verdicts alone and sends nothing gets no news`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        try await Self.rename(zone, "rot")
        for revision in [1, 2] {
            let answer = try await Self.answer(zone, at: revision).answer
            #expect(answer.changeSets.isEmpty && answer.maxRevision == revision)
            #expect(answer.more == (revision == 1))
        }
    }

    @Test(arguments: Store.all, [#""some""#, "1", "true", "null", #""ids""#])
    func `an answer kind other than all and verdicts is refused before any effect`(store: Store, answer: String)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let error = try await zone.refusal(
            of: #"{"maxRevision":1,"answer":\#(answer),"changeSets":[\#(Self.creation)]}"#
        )
        #expect(error?.code == .malformedRequest)
        #expect(try await zone.revision() == 1)
    }

    @Test(arguments: Store.all)
    func `a change set of the present state stands whatever its author has seen, and a base of its own still counts`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        try await Self.rename(zone, "rot")
        let late = Self.set(2, #""team":{"update":[1],"attributes":{"1":{"revision":1,"name":"blue"}}}"#)
        let present = Self.set(3, #""team":{"update":[1],"attributes":{"1":{"name":"green"}}}"#)
        let answer = try await Self.answer(zone, #""base":"present","#, late, present).answer
        #expect(answer.changeSets.map(\.isConflict) == [true, false])
        #expect(try await zone.column("SELECT name FROM team") == ["green"])
    }

    @Test(arguments: Store.all, [#""base":"present""#, #""base":"some","answer":"verdicts""#, #""base":1"#])
    func `a device cannot leave out what it has seen: the present state is for clients without rows`(
        store: Store,
        members: String
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let error = try await zone.refusal(of: #"{"maxRevision":1,\#(members),"changeSets":[\#(Self.creation)]}"#)
        #expect(error?.code == .malformedRequest)
        #expect(try await zone.revision() == 1)
    }
}
