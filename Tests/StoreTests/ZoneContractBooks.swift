import StoreTestSupport
import Testing

@testable import TidemarkCore
@testable import TidemarkEngine

/// The books: what a commit stores, and what later ones find.
extension ZoneContractTests {
    static let id = "6f6d3a4e-0000-4000-8000-000000000001"
    static let refusedID = "6f6d3a4e-0000-4000-8000-000000000002"
    /// The last time of a hybrid clock.
    static let time: Int64 = (1 << 53) - 1
    static let pieces = [#"{"revision":2,"team":{"#, #""delete":[1]}"#, "}"]

    static let refusal = Refusal(
        envelope: SyncRequest.Envelope(index: 0, id: refusedID, after: [], hash: "no"), device: "b", base: 1,
        text: #"{"conflict":true}"#, sent: "[]")

    /// A revision that creates team 7 for device a, which calls it -1, and overrules values of device b.
    static func revision(_ number: Int64, after chain: String, in zone: any CommitTransaction) -> CommittedRevision {
        var hash = Chain(after: chain, revision: number)
        for piece in pieces { hash.take(piece) }
        return CommittedRevision(
            revision: number, envelope: SyncRequest.Envelope(index: 0, id: id, after: [], hash: "hash"),
            stamp: Stamp(time: time, device: "a"),
            entries: [
                .init(name: zone.name("team", "7"), operation: .create, columns: [], before: nil),
                .init(name: zone.name("team", "1"), operation: .update, columns: [2], before: kiel),
            ],
            text: .pieces(pieces), chain: hash.text(device: "a"), fingerprint: Fingerprint(high: 1, low: 2), ids: "{}",
            authorsCopy: nil, isAsSent: true, permanentIDs: [(TemporaryName(table: team, id: -1), 7)],
            notes: [("b", "[1]"), ("b", "[2]")])
    }

    private static func keepAll(in zone: any CommitTransaction) throws {
        let head = try zone.head()
        var commit = ZoneCommit(zone: head.state.with(revision: 2, time: time), at: SeamZone.now)
        commit.revisions = [revision(2, after: head.chain, in: zone)]
        commit.refusals = [refusal]
        commit.exchanges = [
            "a": Exchange(lap: "x", revision: 2, user: "u"), "b": Exchange(lap: "", revision: 1, user: nil),
        ]
        commit.nextIDs = [team: 90]
        try zone.keep(commit)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a commit finds the verdicts, exchanges, notes and permanent ids of earlier ones`(kind: SeamZone.Kind)
        async throws
    {
        let zone = try await Self.zone(kind)
        try await zone.transaction { try Self.keepAll(in: $0) }
        let facts = try await zone.transaction { zone in
            var query = FactsQuery()
            query.changeSets = [Self.id, Self.refusedID, "6f6d3a4e-0000-4000-8000-000000000003"]
            query.devices = ["a", "b", "c"]
            query.temporaryIDs = [
                "a": [TemporaryName(table: Self.team, id: -1)], "b": [TemporaryName(table: Self.team, id: -1)],
            ]
            query.oldest = 1
            return try zone.facts(query)
        }
        #expect(
            facts.verdicts == [
                Self.id: Verdict(device: "a", hash: "hash", revision: 2, isAsSent: true, owner: "u"),
                Self.refusedID: Verdict(device: "b", hash: "no", revision: nil, isAsSent: false),
            ])
        #expect(
            facts.exchanges == [
                "a": Exchange(lap: "x", revision: 2, user: "u"), "b": Exchange(lap: "", revision: 1, user: nil),
            ])
        #expect(facts.devicesWithNotes == ["b"])
        #expect(facts.permanentIDs == ["a": [TemporaryName(table: Self.team, id: -1): 7]])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `the log gives back a revision as it was stored, whole`(kind: SeamZone.Kind) async throws {
        let zone = try await Self.zone(kind)
        let chain = try await zone.transaction { zone in
            try Self.keepAll(in: zone)
            return try zone.head().chain
        }
        let (head, missed, isLimited) = try await zone.transaction { zone in
            let log = LogReader(zone, for: .local("main"))
            return (
                try zone.head(),
                try log.catchUp(MissedRevisions(after: 1, through: 2, limit: 9, bytesMax: 1 << 20)),
                try log.catchUp(MissedRevisions(after: 0, through: 2, limit: 1, bytesMax: 1 << 20)).hasMore
            )
        }
        #expect(head.state.revision == 2 && head.state.time == Self.time)
        #expect(head.chain == chain)
        #expect(head.fingerprint == Fingerprint(high: 1, low: 2))
        #expect(missed == CatchUp(bodies: [Self.pieces.joined()], revision: 2, hasMore: false))
        #expect(isLimited)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a later commit judges by the log: last revisions, later changes, and ids in use`(kind: SeamZone.Kind)
        async throws
    {
        let zone = try await Self.zone(kind)
        try await zone.transaction { try Self.keepAll(in: $0) }
        let (revisions, changes, next) = try await zone.transaction { zone in
            let update = BasedChange(name: zone.name("team", "1"), operation: .update, base: 1)
            return (
                try zone.revisions(of: [zone.name("team", "1"), zone.name("team", "2"), zone.name("team", "7")])
                    .map { "\($0.key.key) at \($0.value)" },
                try zone.contended([0: update])[0]?.changes ?? [],
                try zone.nextIDs([Self.team: WantedIDs(least: 1, count: 1)])[Self.team] ?? []
            )
        }
        #expect(Set(revisions) == ["1 at 2", "2 at 1", "7 at 2"])
        #expect(changes.map(\.revision) == [2])
        #expect(
            changes.first?.change
                == UnseenChange(operation: .update, columns: ["rank"], stamp: Stamp(time: Self.time, device: "a")))
        #expect(next.allSatisfy { $0.lowerBound >= 90 }, "the server has assigned the ids below")
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a device gets its notes once, in their order, and the author's copy of a refusal again`(kind: SeamZone.Kind)
        async throws
    {
        let zone = try await Self.zone(kind)
        try await zone.transaction { try Self.keepAll(in: $0) }
        let (early, all, rest, copies) = try await zone.transaction { zone in
            (
                try zone.overruledNotes(device: "b", after: 0, through: 1, limit: 9),
                try zone.overruledNotes(device: "b", after: 0, through: 2, limit: 9),
                try zone.overruledNotes(device: "b", after: 1, through: 2, limit: 9),
                try zone.authorsCopies(of: [Self.refusedID], .all)
            )
        }
        #expect(early.isEmpty)
        #expect(
            all == [
                #"{"number":1,"revision":2,"records":[1]}"#, #"{"number":2,"revision":2,"records":[2]}"#,
            ])
        #expect(rest == [all[1]])
        #expect(copies == [Self.refusedID: Self.refusal.text])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a temporary id that already stands for a record refuses the commit`(kind: SeamZone.Kind) async throws {
        let zone = try await Self.zone(kind)
        let create = #"{"team":{"create":[-1],"attributes":{"-1":{"name":"Bonn"}}}}"#
        let body = #"{"maxRevision":1,"device":"first","changeSets":[\#(create)]}"#
        let result = try await zone.answer([ZoneRequest(.sync(Array(body.utf8)), access: .local("main"))])[0]
        #expect(throws: TidemarkError.self) { try result.get() }
        #expect(try await zone.transaction { try $0.head().state.revision } == 1)
    }

    // MARK: Compaction

    @Test(arguments: SeamZone.Kind.allCases)
    func `compaction removes texts, and what the server needs to judge an old base stays`(kind: SeamZone.Kind)
        async throws
    {
        let zone = try await Self.zone(kind)
        let named = #"{"id":"\#(Self.id)","team":{"update":[1],"attributes":{"1":{"name":"Bonn"}}}}"#
        try await zone.sync(at: 1, device: "b", named)
        try await zone.sync(at: 2, #"{"team":{"update":[1],"attributes":{"1":{"rank":4}}}}"#)
        try await zone.sync(
            at: 3, #"{"team":{"update":[1],"attributes":{"1":{"name":"Ulm"}}},"player":{"delete":[2]}}"#)
        try await zone.transaction { try $0.compact(to: 4) }
        let (state, changes, later, wasDeleted, fingerprints) = try await zone.transaction { zone in
            let updates = [1, 2].map { BasedChange(name: zone.name("team", "1"), operation: .update, base: $0) }
            let contended = try zone.contended([0: updates[0], 1: updates[1]])
            return (
                try zone.head().state, contended[0]?.changes ?? [], contended[1]?.changes ?? [],
                [try zone.wasDeleted("player", "2"), try zone.wasDeleted("player", "3")],
                [try zone.fingerprint(at: 3) != nil, try zone.fingerprint(at: 4) != nil]
            )
        }
        #expect(state.horizon == 4 && state.revision == 4)
        #expect(changes.map(\.revision) == [3, 4])
        #expect(changes.map(\.change.columns) == [["rank"], ["name"]], "the last change of each column")
        #expect(changes.map(\.isMerged) == [true, true])
        #expect(
            changes.map(\.hidesOthers) == [false, true], "b's name went, which an author at revision 1 has not seen")
        #expect(later.map(\.hidesOthers) == [false, false], "at revision 2 the author has seen it")
        #expect(wasDeleted == [true, false])
        #expect(fingerprints == [false, true])
        // The verdict outlives the text.
        let again = try await zone.sync(at: 4, device: "b", named)
        #expect(again.revisions == [2])
        await #expect(throws: TidemarkError.self, "a device behind the horizon takes a snapshot") {
            try await zone.sync(at: 3, device: "c")
        }
    }

    // MARK: Other programs

    @Test(arguments: SeamZone.Kind.allCases)
    func `the writes of another program become a revision without an author`(kind: SeamZone.Kind) async throws {
        let zone = try await Self.zone(kind)
        try await zone.writeOutside(
            "UPDATE team SET name = 'Bonn', rank = 3 WHERE id = 1; DELETE FROM player WHERE id = 1")
        let (before, after, later) = try await zone.transaction { zone in
            let before = try zone.head()
            try zone.absorbOutsideChanges()
            let update = BasedChange(name: zone.name("team", "1"), operation: .update, base: 1)
            return (before, try zone.head(), try zone.contended([0: update])[0]?.changes ?? [])
        }
        if kind == .model { return #expect(after.state.revision == 1, "the model has no other programs") }
        #expect(before.hasOutsideChanges && !after.hasOutsideChanges)
        #expect(after.state.revision == 2)
        #expect(later.map(\.change.columns) == [["name", "rank"]])
        #expect(later.first?.change.stamp.device == nil)
        let set = try #require(try await zone.sync(at: 1, device: "b").changeSets.first)
        #expect(set.attributes("team", "1")?["name"] as? String == "Bonn")
        #expect(set.ids("delete", "player") == [1] && set.ids("update", "player") == [2])
    }
}
