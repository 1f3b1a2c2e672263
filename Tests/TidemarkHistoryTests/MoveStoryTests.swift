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
            1,
            revision: 2,
            commits: [Commit(revision: 2, changeSet: "s", identity: "uuid-a", changes: set.changes)],
            rows: [Story.anna.to(anni)]
        )
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
}
