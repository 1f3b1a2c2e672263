import Testing
import TidemarkHistory

/// I2 and I9: two devices edit one record, and no edit is lost.
@Suite struct OverwriteTests {
    let mine = ["name": "\"Anni\""]
    let theirs = ["name": "\"Anne\""]

    /// Device b changes player 1 at revision 2, while device a, at revision 1, edits it too.
    func contended(base: Int64 = 1) -> (Story, OutboxSet) {
        var story = Story()
        let set = OutboxSet(frozen: "s", changes: [update(Story.anna, mine, base: base)])
        story.served(
            nil, revision: 2, commits: [Commit(revision: 2, changes: [update(Story.anna, theirs)])],
            rows: [Story.anna.to(Story.anna.with(theirs))])
        story.edited("a", Story.anna.to(Story.anna.with(mine)))
        story.stepped("a", "prepare", cursor: 1, outbox: [set])
        story.sent("a", 1, at: 1, [set])
        return (story, set)
    }

    func commit(_ revision: Int64, _ changes: [RecordChange], _ id: String = "s") -> Commit {
        Commit(revision: revision, changeSet: id, identity: "uuid-a", changes: changes)
    }

    func refusal(_ truth: [RecordID: Cells?]) -> Reply {
        Reply(changeSet: "s", revision: nil, body: "{refused}", truth: truth, reasons: [(Story.anna.id, "changed")])
    }

    var missed: Reply { Reply(changeSet: nil, revision: 2, body: "{2}") }
    var truth: Cells { ["team_id": "1", "name": "\"Anne\""] }

    @Test func `I2: an edit overwrites a value that its author had not seen`() {
        var (story, _) = contended()
        story.served(
            1, revision: 3, commits: [commit(3, [update(Story.anna, mine)])],
            rows: [Story.anna.with(theirs).to(Story.anna.with(mine))])
        story.expect(.noSilentOverwrite, "revision 2 was not seen")
    }

    @Test func `I2: an edit's base is its revision when sent, not when made`() {
        let (story, _) = contended(base: 2)
        story.expect(.noSilentOverwrite, "base 1")
    }

    @Test func `I2: a cascade deletes a player that its author never saw`() {
        var story = Story()
        let carla = player(3, team: 1, "\"Carla\"")
        let all = [Story.kiel, Story.anna, Story.ben]
        let set = OutboxSet(frozen: "s", changes: all.map { delete($0, base: 1) })
        story.edited("a", Story.kiel.to(nil), Story.anna.to(nil), Story.ben.to(nil))
        story.stepped("a", "prepare", cursor: 1, outbox: [set])
        story.served(nil, revision: 2, commits: [Commit(revision: 2, changes: [create(carla)])], rows: [carla.made])
        story.sent("a", 1, at: 1, [set])
        story.served(
            1, revision: 3, commits: [commit(3, (all + [carla]).map { delete($0) })],
            rows: (all + [carla]).map { $0.to(nil) })
        story.expect(.noSilentOverwrite, "player 3")
    }

    @Test func `I2: a dependent of a refused change set is committed`() {
        let (begun, set) = contended()
        var story = begun
        story.served(1, revision: 2, replies: [missed, refusal([Story.anna.id: truth])])
        let later = OutboxSet(frozen: "t", changes: [update(Story.anna, ["name": "\"Annika\""], base: 1)])
        story.edited("a", Story.anna.with(mine).to(Story.anna.with(["name": "\"Annika\""])))
        story.stepped("a", "prepare", cursor: 1, outbox: [set, later])
        story.sent("a", 2, at: 1, [set, later])
        story.served(
            2, revision: 3, commits: [commit(3, [update(Story.anna, ["name": "\"Annika\""])], "t")],
            rows: [Story.anna.with(theirs).to(Story.anna.with(["name": "\"Annika\""]))])
        story.expect(.noSilentOverwrite, "nothing before s")
    }

    @Test func `I2: a conflict's current rows lack a record, or are wrong`() {
        var (story, _) = contended()
        story.served(1, revision: 2, replies: [missed, refusal([:])])
        story.expect(.noSilentOverwrite, "nothing about it")
        (story, _) = contended()
        var old = truth
        old["name"] = "\"Anna\""
        story.served(1, revision: 2, replies: [missed, refusal([Story.anna.id: old])])
        story.expect(.noSilentOverwrite, "the truth")
    }

    @Test func `a refusal without a cause is found`() {
        var story = Story()
        let set = OutboxSet(frozen: "s", changes: [update(Story.anna, mine, base: 1)])
        story.edited("a", Story.anna.to(Story.anna.with(mine)))
        story.stepped("a", "prepare", cursor: 1, outbox: [set])
        story.sent("a", 1, at: 1, [set])
        story.served(1, revision: 1, replies: [refusal([Story.anna.id: ["team_id": "1", "name": "\"Anna\""]])])
        story.expect(.intentKept, "nobody else changed player 1")
    }

    @Test(arguments: ["deleted", "exists", "unique", "parentDeleted", "referenced", "overruled"])
    func `a refusal with a false reason is found`(rule: String) {
        var (story, _) = contended()
        let reply = Reply(
            changeSet: "s", revision: nil, body: "{refused}", truth: [Story.anna.id: truth],
            reasons: [(Story.anna.id, rule)])
        story.served(1, revision: 2, replies: [missed, reply])
        story.expect(.intentKept, "as \(rule)")
    }

    @Test(arguments: ["constraintViolated", "brokenReference", "unknownColumn", "tooLarge"])
    func `a refusal of a request with a false error is found`(error: String) {
        var (story, _) = contended()
        story.served(1, revision: 2, error: error)
        story.expect(.intentKept, "no \(error)")
    }

    @Test func `an update that writes unchanged values is found`() {
        var story = Story()
        let set = OutboxSet(id: "s", changes: [update(Story.anna, ["name": "\"Anni\"", "team_id": "1"], base: 1)])
        story.edited("a", Story.anna.to(Story.anna.with(mine)))
        story.stepped("a", "prepare", cursor: 1, outbox: [set])
        story.expect(.noSilentOverwrite, "team_id too")
    }

    @Test func `a parked change set without a refusal is found`() {
        var story = RoundTests().waiting()
        story.sent("a", 1, at: 1, [RoundTests().set])
        story.served(1, revision: 1, error: "unavailable")
        story.stepped(
            "a", "park", cursor: 1, rows: [RoundTests().renamed.to(Story.anna)], outbox: [],
            conflicts: [ParkedSet(id: "s", items: [ParkedSet.Item(Story.anna.id, .update, mine: RoundTests().cells)])])
        story.expect(.intentKept, "nobody refused it")
    }

    // MARK: The inbox

    /// The conflict reaches device a, which parks the set with `items`.
    func parked(_ items: [ParkedSet.Item]) -> Story {
        var (story, _) = contended()
        story.served(1, revision: 2, replies: [missed, refusal([Story.anna.id: truth])])
        story.stepped(
            "a", cursor: 2, rows: [Story.anna.with(mine).to(Story.anna.with(theirs))], outbox: [],
            conflicts: [ParkedSet(id: "s", items: items)])
        return story
    }

    var item: ParkedSet.Item {
        ParkedSet.Item(Story.anna.id, .update, base: ["team_id": "1", "name": "\"Anna\""], mine: mine, theirs: truth)
    }

    @Test func `a conflict that is shown and resolved breaks nothing`() {
        var story = parked([item])
        story.edited("a", Story.anna.with(theirs).to(Story.anna.with(mine)))
        story.stepped("a", "resolve", cursor: 2, conflicts: [], captured: 1, resolved: ["s"])
        story.expectNothing()
    }

    @Test func `I9: a parked change set loses its values, or the values against it`() {
        parked([]).expect(.intentKept, "kept as mine")
        parked([ParkedSet.Item(Story.anna.id, .update, mine: mine, theirs: nil)]).expect(
            .intentKept, "theirs as the server told it")
    }

    @Test func `I9: a conflict vanishes before its resolution`() {
        var story = parked([item])
        story.stepped("a", cursor: 2, conflicts: [])
        story.expect(.intentKept, "conflict s")
    }

    @Test func `I6: an accepted change set is shown as a conflict`() {
        var story = RoundTests().committed()
        story.stepped(
            "a", "park", cursor: 1, rows: [RoundTests().renamed.to(Story.anna)], outbox: [],
            conflicts: [ParkedSet(id: "s", items: [ParkedSet.Item(Story.anna.id, .update, mine: RoundTests().cells)])])
        story.expect(.once, "parked as a conflict")
    }

    // MARK: Columns

    @Test func `under columns, edits of different columns merge, and of the same one are an overwrite`() {
        for (column, isFine) in [("a", false), ("b", true)] {
            var story = Story()
            let set = OutboxSet(frozen: "s", changes: [update(Story.paper, ["a": "7"], base: 1)])
            let theirs = Story.paper.with([column: "8"])
            story.edited("a", Story.paper.to(Story.paper.with(["a": "7"])))
            story.stepped("a", "prepare", cursor: 1, outbox: [set])
            story.served(
                nil, revision: 2, commits: [Commit(revision: 2, changes: [update(Story.paper, [column: "8"])])],
                rows: [Story.paper.to(theirs)])
            story.sent("a", 1, at: 1, [set])
            story.served(
                1, revision: 3, commits: [commit(3, [update(Story.paper, ["a": "7"])])],
                rows: [theirs.to(theirs.with(["a": "7"]))])
            if isFine { story.expectNothing() } else { story.expect(.noSilentOverwrite, "note") }
        }
    }
}
