import Testing
import TidemarkHistory

/// A change set that a device makes again, because another record has the id that it drew, has the same content under
/// a free id of the device, and its author has seen no more than before.
@Suite struct RemakeStoryTests {
    private static let mine = team(50, "\"Lemgo\"")
    private static let theirs = team(50, "\"Theirs\"")
    private static let anni = Story.anna.with(["name": "\"Anni\""])
    private static let refused = OutboxSet(
        frozen: "s", changes: [create(mine), update(Story.anna, ["name": "\"Anni\""], base: 1)])
    private static let pair = IdentityPair("team", temporary: 50, permanent: 51)

    /// The change set as it is made again, with a team of that id.
    private static func again(_ id: Int64 = 51, base: Int64 = 2) -> OutboxSet {
        let changes = [create(team(id, "\"Lemgo\"")), update(Story.anna, ["name": "\"Anni\""], base: base)]
        return OutboxSet(id: "t", changes: changes)
    }

    /// The server lends device a the teams 40 to 99, and another program takes team 50 there.
    ///
    /// Device a has created a team 50 and renamed Anna. It is refused.
    private static func story() -> Story {
        var story = Story()
        story.sent("a", 1, at: 1)
        let lent = Answer.Places(table: "team", first: 40, last: 99, stride: 60, width: 60)
        let answer = Answer(epoch: "e", maxRevision: 1, replies: [], lent: [lent])
        story.add(.served(ServerStep(request: 1, epoch: "e", revision: 1, answer: answer)))
        story.edited("a", mine.made, Story.anna.to(anni))
        story.stepped("a", "prepare", cursor: 1, outbox: [refused])
        story.served(nil, revision: 2, commits: [Commit(revision: 2, changes: [create(theirs)])], rows: [theirs.made])
        story.sent("a", 2, at: 1, [refused])
        let truth: [RecordID: Cells?] = [
            theirs.id: ["name": "\"Theirs\""], Story.anna.id: ["team_id": "1", "name": "\"Anna\""],
        ]
        let reply = Reply(changeSet: "s", revision: nil, body: "{}", truth: truth, reasons: [(theirs.id, "exists")])
        let other = Reply(changeSet: nil, revision: 2, body: "{2}")
        story.served(2, revision: 2, replies: [other, reply])
        return story
    }

    /// Device a applies the refusal.
    private static func applied(
        _ outbox: [OutboxSet], new: Example = team(51, "\"Lemgo\""), renumbered: [IdentityPair] = [pair],
        edit: (_ story: inout Story) -> Void = { _ in }
    ) -> Story {
        var story = story()
        edit(&story)
        let rows = [mine.to(theirs), new.made]
        story.stepped("a", cursor: 2, rows: rows, outbox: outbox, renumbered: renumbered)
        return story
    }

    @Test func `a change set that is made again under a lent id breaks nothing`() {
        Self.applied([Self.again()]).expectNothing()
    }

    @Test func `an edit since the request is made again with it`() {
        let edited = team(51, "\"Bad Lemgo\"")
        let later = OutboxSet(id: "u", after: ["t"], changes: [update(edited, ["name": "\"Bad Lemgo\""], base: 2)])
        Self.applied([Self.again(), later], new: edited) { story in
            story.edited("a", Self.mine.to(Self.mine.with(["name": "\"Bad Lemgo\""])))
        }.expect(.intentKept, "team 50")
        var story = Self.story()
        let first = Self.mine.with(["name": "\"Bad Lemgo\""])
        story.edited("a", Self.mine.to(first))
        let rows = [first.to(Self.theirs), edited.made]
        story.stepped("a", cursor: 2, rows: rows, outbox: [Self.again(), later], renumbered: [Self.pair])
        story.expectNothing()
    }

    @Test func `I5: the app does not hear of the new id`() {
        Self.applied([Self.again()], renumbered: []).expect(.converged, "no change set without an edit")
    }

    @Test func `I9: an update is lost when the change set is made again`() {
        let part = OutboxSet(id: "t", changes: [create(team(51, "\"Lemgo\""))])
        let story = Self.applied([part])
        #expect(story.violations.contains { $0.invariant == .intentKept && $0.subject.contains("change set s") })
    }

    @Test func `I9: a refused change set is neither made again nor a conflict`() {
        let story = Self.applied([])
        #expect(story.violations.contains { $0.invariant == .intentKept && $0.subject.contains("change set s") })
    }

    /// Two more change sets wait after the refused one, each for the one before it: `d`, and the last one.
    ///
    /// Device a makes the refused one and `d` again, and parks the last one, which waited for `predecessor`.
    private static func parkedLast(after predecessor: String) -> Story {
        var story = story()
        let bad = mine.with(["name": "\"Bad Lemgo\""])
        let middle = OutboxSet(id: "d", after: ["s"], changes: [update(mine, ["name": "\"Bad Lemgo\""], base: 1)])
        let last = OutboxSet(
            id: "u", after: [predecessor], changes: [update(Story.ben, ["name": "\"Benno\""], base: 1)])
        story.edited("a", mine.to(bad))
        story.stepped("a", "prepare", cursor: 1, outbox: [refused, middle])
        let benno = Story.ben.with(["name": "\"Benno\""])
        story.edited("a", Story.ben.to(benno))
        story.stepped("a", "prepare", cursor: 1, outbox: [refused, middle, last])
        let new = team(51, "\"Bad Lemgo\"")
        let item = ParkedSet.Item(Story.ben.id, .update, mine: ["name": "\"Benno\""])
        story.stepped(
            "a",
            cursor: 2,
            rows: [bad.to(theirs), new.made, benno.to(Story.ben)],
            outbox: [
                again(), OutboxSet(id: "e", after: ["t"], changes: [update(new, ["name": "\"Bad Lemgo\""], base: 2)]),
            ],
            conflicts: [ParkedSet(id: "u", items: [item])],
            renumbered: [pair]
        )
        return story
    }

    @Test func `I9: a change set is parked only if it waited for one that was parked and made again`() {
        Self.parkedLast(after: "d").expectNothing()
        Self.parkedLast(after: "x").expect(.intentKept, "change set u")
    }

    @Test func `I8: the new id was not lent to the device`() {
        let pair = IdentityPair("team", temporary: 50, permanent: 500)
        Self.applied([Self.again(500)], new: team(500, "\"Lemgo\""), renumbered: [pair]).expect(.references, "lent")
    }

    @Test func `I8: the new id is another record's`() {
        let pair = IdentityPair("team", temporary: 50, permanent: 1)
        let story = Self.applied([Self.again(1)], renumbered: [pair])
        #expect(story.violations.contains { $0.expected.contains("an id that no record has") })
    }

    @Test func `I8: a record gets another id though nobody has its own`() {
        let other = IdentityPair("player", temporary: 2, permanent: 60)
        let story = Self.applied([Self.again()], renumbered: [Self.pair, other])
        #expect(story.violations.contains { $0.invariant == .references && $0.subject == "player 2" })
    }

    @Test(arguments: ["\"Annika\"", "\"Anna\""])
    func `I2: a change set that is made again overwrites a name that its author has not seen`(name: String) {
        var story = Self.story()
        let theirs = Story.anna.with(["name": "\"Annika\""])
        story.served(
            nil, revision: 3, commits: [Commit(revision: 3, changes: [update(Story.anna, ["name": "\"Annika\""])])],
            rows: [Story.anna.to(theirs)])
        let last = Story.anna.with(["name": name])
        story.served(
            nil, revision: 4, commits: [Commit(revision: 4, changes: [update(Story.anna, ["name": name])])],
            rows: theirs.row == last.row ? [] : [theirs.to(last)])
        let again = Self.again(base: 4)
        let new = team(51, "\"Lemgo\"")
        let rows = [Self.mine.to(Self.theirs), new.made]
        story.stepped("a", cursor: 4, rows: rows, outbox: [again], renumbered: [Self.pair])
        let frozen = OutboxSet(frozen: "t", changes: again.changes)
        story.stepped("a", "prepare", cursor: 4, outbox: [frozen])
        story.sent("a", 3, at: 4, [frozen])
        story.served(
            3, revision: 5, commits: [Commit(revision: 5, changeSet: "t", identity: "uuid-a", changes: again.changes)],
            rows: [new.made, last.to(Self.anni)])
        // A name that is as the author saw it is no loss.
        if name == "\"Anna\"" { story.expectNothing() } else { story.expect(.noSilentOverwrite, "player 1") }
    }
}
