import Testing
import TidemarkHistory

/// I8: temporary ids become permanent everywhere at once, and references hold.
@Suite struct IdentityStoryTests {
    let temporary = team(-1, "\"Lemgo\"")
    let permanent = team(2, "\"Lemgo\"")
    let carla = player(-2, team: -1, "\"Carla\"")
    var first: OutboxSet { OutboxSet(frozen: "s", changes: [create(temporary)]) }
    var second: OutboxSet { OutboxSet(id: "t", after: ["s"], changes: [create(carla)]) }

    /// Device a creates a team, and then a player in it; the team is committed as team 2.
    func committed(as id: Int64 = 2, parent: Int64? = nil) -> Story {
        var story = Story()
        story.edited("a", temporary.made)
        story.stepped("a", "prepare", cursor: 1, outbox: [first])
        story.sent("a", 1, at: 1, [first])
        story.edited("a", carla.made)
        let lemgo = team(id, "\"Lemgo\"")
        story.served(
            1, revision: 2,
            commits: [Commit(revision: 2, changeSet: "s", identity: "uuid-a", changes: [create(lemgo)])],
            rows: [lemgo.made], assigned: ["uuid-a": [IdentityPair("team", temporary: -1, permanent: id)]],
            replies: [Reply(changeSet: "s", revision: 2, body: "{s at 2}")])
        return story
    }

    /// Device a applies the id.
    func applied(_ rewritten: OutboxSet, _ rows: [RowChange], _ pair: Int64 = 2) -> Story {
        var story = committed()
        story.stepped(
            "a", cursor: 2, rows: rows, outbox: [rewritten],
            identities: [IdentityPair("team", temporary: -1, permanent: pair)])
        return story
    }

    var moved: Example { player(-2, team: 2, "\"Carla\"") }
    var rewritten: OutboxSet { OutboxSet(id: "t", after: ["s"], changes: [create(moved)]) }

    @Test func `a permanent id that replaces the temporary one everywhere breaks nothing`() {
        applied(rewritten, [temporary.to(nil), permanent.made, carla.to(moved)]).expectNothing()
    }

    @Test func `I8: the outbox keeps the temporary id`() {
        let story = applied(second, [temporary.to(nil), permanent.made, carla.to(moved)])
        #expect(story.violations.contains { [.references, .intentKept].contains($0.invariant) })
    }

    @Test func `I8: a row keeps its reference to the temporary id`() {
        let story = applied(rewritten, [temporary.to(nil), permanent.made])
        #expect(story.violations.contains { $0.invariant == .references })
    }

    @Test func `I8: the device maps a temporary id to an id that the server did not assign`() {
        applied(rewritten, [temporary.to(nil), permanent.made, carla.to(moved)], 3).expect(.references, "team -1")
    }

    @Test func `I8: the id map is lost`() {
        var story = committed()
        story.stepped("a", cursor: 2, rows: [temporary.to(nil), permanent.made, carla.to(moved)], outbox: [rewritten])
        #expect("\(story.violations)".contains("2 in the map of ids"))
    }

    @Test func `I8: the server assigns the id of another record`() {
        committed(as: 1).expect(.references, "that nobody else has")
    }

    @Test func `I8: the server keeps a temporary id`() { committed(as: -1).expect(.references) }

    @Test func `I8: the server deletes a team but not its players`() {
        var story = Story()
        story.served(
            nil, revision: 2, commits: [Commit(revision: 2, changes: [delete(Story.kiel)])], rows: [Story.kiel.to(nil)])
        story.expect(.references, "player 1")
    }

    @Test func `I6: a change set is sent before the one that it depends on`() {
        var story = Story()
        story.edited("a", temporary.made)
        story.edited("a", carla.made)
        let frozen = OutboxSet(frozen: "t", after: ["s"], changes: [create(carla)])
        story.stepped("a", "prepare", cursor: 1, outbox: [first, frozen])
        story.sent("a", 1, at: 1, [frozen, first])
        story.expect(.noSilentOverwrite, "the order of the outbox")
    }

    // MARK: Copies and restores

    @Test func `a device restored from a backup continues from it`() {
        var story = RoundTests().waiting()
        story.add(.copied(from: "a", as: "backup"))
        story.sent("a", 1, at: 1, [RoundTests().set])
        story.served(
            1, revision: 2, commits: [RoundTests().commit(2)], rows: [Story.anna.to(RoundTests().renamed)],
            replies: [RoundTests().reply])
        story.stepped("a", cursor: 2, outbox: [])
        story.add(.replaced(device: "a", by: "backup"))
        story.sent("a", 2, at: 1, [RoundTests().set])
        story.served(2, revision: 2, replies: [RoundTests().reply])
        story.stepped("a", cursor: 2, outbox: [])
        story.expectNothing()
    }

    @Test func `I2: after a restore a device overwrites another device's edit`() {
        var story = RoundTests().committed()
        story.stepped("a", cursor: 2, outbox: [])
        let again = OutboxSet(frozen: "u", changes: [update(Story.anna, ["name": "\"U\""], base: 2)])
        story.edited("a", RoundTests().renamed.to(Story.anna.with(["name": "\"U\""])))
        story.stepped("a", "prepare", cursor: 2, outbox: [again])
        story.add(.restored(epoch: "f", revision: 1))
        let theirs = Story.anna.with(["name": "\"Theirs\""])
        story.served(
            nil, revision: 2, epoch: "f",
            commits: [Commit(revision: 2, changes: [update(Story.anna, ["name": "\"Theirs\""])])],
            rows: [Story.anna.to(theirs)])
        let mine = ParkedSet.Item(Story.anna.id, .update, mine: RoundTests().cells)
        story.stepped("a", "snapshot", cursor: 2, epoch: "f", conflicts: [ParkedSet(id: "v", items: [mine])])
        story.sent("a", 2, at: 2, epoch: "f", [again])
        story.served(
            2, revision: 3, epoch: "f",
            commits: [
                Commit(
                    revision: 3, changeSet: "u", identity: "uuid-a", changes: [update(Story.anna, ["name": "\"U\""])])
            ], rows: [theirs.to(Story.anna.with(["name": "\"U\""]))])
        story.expect(.noSilentOverwrite, "player 1")
    }

    @Test func `a run with too little activity is reported as no proof`() {
        var minimum = Counters()
        minimum.conflicts = 1
        #expect(Counters().shortfall(of: minimum).map(\.subject) == ["conflicts"])
        #expect(minimum.shortfall(of: minimum).isEmpty)
    }

    // MARK: Forgotten ids

    /// The server forgets team 2, and device a offers it again as team -3, which becomes team `id`.
    ///
    /// Its first id then leads to `first`.
    private func offeredAgain(as id: Int64, first: Int64) -> Story {
        var story = committed()
        let pair = IdentityPair("team", temporary: -1, permanent: 2)
        story.stepped(
            "a", cursor: 2, rows: [temporary.to(nil), permanent.made, carla.to(moved)], outbox: [rewritten],
            identities: [pair])
        story.add(.restored(epoch: "f", revision: 1))
        let again = team(-3, "\"Lemgo\"")
        let carlaAgain = player(-2, team: -3, "\"Carla\"")
        let sets = [
            OutboxSet(frozen: "u", changes: [create(again)]),
            OutboxSet(id: "t", after: ["u"], changes: [create(carlaAgain)]),
        ]
        story.stepped(
            "a", "snapshot", cursor: 1, epoch: "f", rows: [permanent.to(nil), again.made, moved.to(carlaAgain)],
            outbox: sets, identities: [IdentityPair("team", temporary: -1, permanent: -3)])
        story.sent("a", 2, at: 1, epoch: "f", [sets[0]])
        let last = team(id, "\"Lemgo\"")
        story.served(
            2, revision: 2, epoch: "f",
            commits: [Commit(revision: 2, changeSet: "u", identity: "uuid-a", changes: [create(last)])],
            rows: [last.made], assigned: ["uuid-a": [IdentityPair("team", temporary: -3, permanent: id)]],
            replies: [Reply(changeSet: "u", revision: 2, body: "{u at 2}")])
        let carlaLast = player(-2, team: id, "\"Carla\"")
        story.stepped(
            "a",
            cursor: 2,
            epoch: "f",
            rows: [again.to(nil), last.made, carlaAgain.to(carlaLast)],
            outbox: [OutboxSet(id: "t", after: ["u"], changes: [create(carlaLast)])],
            identities: [
                IdentityPair("team", temporary: -3, permanent: id),
                IdentityPair("team", temporary: -1, permanent: first),
            ]
        )
        return story
    }

    @Test func `the first id of a record that is offered again leads to its new one, and breaks nothing`() {
        offeredAgain(as: 2, first: 2).expectNothing()
        offeredAgain(as: 4, first: 4).expectNothing()
    }

    @Test func `I8: the first id of a record that is offered again leads to another record`() {
        offeredAgain(as: 4, first: 1).expect(.references, "team -1")
    }
}
