import Testing
import TidemarkHistory

/// I9 for copied and restored files: each edit is pending, committed or a conflict.
@Suite struct MoveStoryTests {
    private let anni = Story.anna.with(["name": "\"Anni\""])
    private let set = OutboxSet(frozen: "s", changes: [update(Story.anna, ["name": "\"Anni\""], base: 1)])

    /// Device a's edit is revision 2, and the server is restored to revision 1.
    private func forgotten() -> Story {
        var story = Story()
        story.edited("a", Story.anna.to(anni))
        story.stepped("a", "prepare", cursor: 1, outbox: [set])
        story.sent("a", 1, at: 1, [set])
        story.served(
            1, revision: 2, commits: [Commit(revision: 2, changeSet: "s", identity: "uuid-a", changes: set.changes)],
            rows: [Story.anna.to(anni)])
        story.stepped("a", cursor: 2, outbox: [])
        story.add(.restored(epoch: "f", revision: 1))
        return story
    }

    private var again: OutboxSet { OutboxSet(id: "t", changes: [update(Story.anna, ["name": "\"Anni\""], base: 1)]) }

    @Test func `offering an edit again that the server forgot breaks nothing`() {
        var story = forgotten()
        story.stepped("a", "snapshot", cursor: 1, epoch: "f", outbox: [again])
        story.expectNothing()
    }

    @Test func `I9: an edit that the server forgot is not offered again`() {
        var story = forgotten()
        story.stepped("a", "snapshot", cursor: 1, epoch: "f", rows: [anni.to(Story.anna)])
        story.expect(.intentKept, "after the history became another")
    }

    @Test func `I9: an edit that is offered again is not shown`() {
        var story = forgotten()
        story.stepped("a", "snapshot", cursor: 1, epoch: "f", rows: [anni.to(Story.anna)], outbox: [again])
        story.expect(.intentKept, "its waiting edit on top of revision 1")
    }

    @Test func `I5: a device offers a change set again that never existed`() {
        var story = forgotten()
        let other = OutboxSet(id: "u", changes: [update(Story.ben, ["name": "\"Bo\""], base: 1)])
        story.stepped("a", "snapshot", cursor: 1, epoch: "f", outbox: [again, other])
        story.expect(.converged, "player 2")
    }

    @Test func `I9: the outbox of a device that enters another history vanishes`() {
        var story = Story()
        story.edited("a", Story.anna.to(anni))
        story.stepped("a", "prepare", cursor: 1, outbox: [set])
        story.add(.restored(epoch: "f", revision: 1))
        story.stepped("a", "snapshot", cursor: 1, epoch: "f", rows: [anni.to(Story.anna)], outbox: [])
        story.expect(.intentKept, "after the history became another")
    }

    // MARK: Copies of the server's file

    /// The server is restored to revision 1, and then to a later copy, which has the edit.
    private func broughtBack(revision: Int64) -> Story {
        var story = Story()
        story.edited("a", Story.anna.to(anni))
        story.stepped("a", "prepare", cursor: 1, outbox: [set])
        story.sent("a", 1, at: 1, [set])
        story.served(
            1, revision: 2, commits: [Commit(revision: 2, changeSet: "s", identity: "uuid-a", changes: set.changes)],
            rows: [Story.anna.to(anni)])
        story.stepped("a", cursor: 2, outbox: [])
        story.add(.copied(from: "server", as: "late"))
        story.add(.restored(epoch: "f", revision: 1))
        story.add(.restored(epoch: "g", revision: 2, copy: "late"))
        story.served(nil, revision: revision, epoch: "g")
        return story
    }

    @Test func `a later copy brings an edit back that an earlier copy lacks, and breaks nothing`() {
        var story = broughtBack(revision: 2)
        story.stepped("a", "snapshot", cursor: 2, epoch: "g")
        story.expectNothing()
    }

    @Test func `I4: a later copy lacks the edit that it should bring back`() {
        broughtBack(revision: 1).expect(.dense, "the zone's revision")
    }

    @Test func `I9: an edit that a later copy brings back is lost on its device`() {
        var story = broughtBack(revision: 2)
        story.stepped("a", "snapshot", cursor: 2, epoch: "g", rows: [anni.to(Story.anna)])
        #expect(!story.violations.isEmpty)
    }

    // MARK: Conflicts of a renamed device

    private var bo: OutboxSet {
        OutboxSet(id: "t", after: ["s"], changes: [update(Story.ben, ["name": "\"Bo\""], base: 1)])
    }

    /// Device a waits with two edits while Anna becomes another, and then goes on under another identity with both
    /// among its conflicts.
    private func parked(_ bo: OutboxSet) -> Story {
        var story = Story()
        let theirs = Story.anna.with(["name": "\"Annika\""])
        story.edited("a", Story.anna.to(anni))
        story.edited("a", Story.ben.to(Story.ben.with(["name": "\"Bo\""])))
        let waiting = OutboxSet(id: "s", changes: set.changes)
        story.stepped("a", "prepare", cursor: 1, outbox: [waiting, bo])
        story.served(
            nil, revision: 2, commits: [Commit(revision: 2, changes: [update(Story.anna, ["name": "\"Annika\""])])],
            rows: [Story.anna.to(theirs)])
        story.stepped("a", "snapshot", cursor: 2)
        let mine = { (set: OutboxSet) in
            set.changes.map { ParkedSet.Item($0.record, $0.operation, mine: $0.cells) }
        }
        story.stepped(
            "a", "snapshot", cursor: 2, rows: [anni.to(theirs), Story.ben.with(["name": "\"Bo\""]).to(Story.ben)],
            outbox: [], conflicts: [ParkedSet(id: "s", items: mine(waiting)), ParkedSet(id: "t", items: mine(bo))],
            identity: "uuid-c")
        return story
    }

    @Test func `an edit that depends on a conflict becomes one, too`() { parked(bo).expectNothing() }

    @Test func `I9: an edit that depends on nothing becomes a conflict though its record is as its author saw it`() {
        parked(OutboxSet(id: "t", changes: bo.changes)).expect(.intentKept, "to wait")
    }
}
