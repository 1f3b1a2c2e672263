import Testing
import TidemarkHistory

/// Histories of one edit's journey: a correct one, and others with one fault each.
@Suite struct RoundTests {
    let renamed = Story.anna.with(["name": "\"Anne\""])
    let cells = ["name": "\"Anne\""]
    var set: OutboxSet { OutboxSet(frozen: "s", changes: [update(Story.anna, cells, base: 1)]) }
    var reply: Reply { Reply(changeSet: "s", revision: 2, body: "{s at 2}") }

    /// Device a edits and drains, without a fault so far.
    func waiting() -> Story {
        var story = Story()
        story.edited("a", Story.anna.to(renamed))
        story.stepped("a", "prepare", cursor: 1, outbox: [set])
        return story
    }

    /// The edit is committed as revision 2.
    func committed() -> Story {
        var story = waiting()
        story.sent("a", 1, at: 1, [set])
        story.served(1, revision: 2, commits: [commit(2)], rows: [Story.anna.to(renamed)], replies: [reply])
        return story
    }

    func commit(_ revision: Int64, _ changes: [RecordChange]? = nil) -> Commit {
        Commit(revision: revision, changeSet: "s", identity: "uuid-a", changes: changes ?? [update(Story.anna, cells)])
    }

    @Test func `an edit that reaches all devices breaks nothing`() {
        var story = committed()
        story.add(.delivered(device: "a", request: 1))
        story.stepped("a", cursor: 2, outbox: [])
        story.stepped("b", cursor: 2, rows: [Story.anna.to(renamed)])
        story.add(.healed)
        for device in ["a", "b"] {
            story.add(.digested(actor: device, hash: "h"))
            story.add(.drained(device: device, requests: 1))
        }
        story.add(.digested(actor: "server", hash: "h"))
        story.add(.finished)
        story.expectNothing()
    }

    // MARK: I1

    @Test func `I1: an answer acknowledges a change set that is not in the log`() {
        var story = waiting()
        story.sent("a", 1, at: 1, [set])
        story.served(1, revision: 1, replies: [])
        story.served(1, revision: 1, replies: [Reply(changeSet: "s", revision: 1, body: "")])
        story.expect(.acknowledgedStays, "change set s")
    }

    @Test func `I1: the server forgets a committed row in a crash`() {
        var story = committed()
        story.add(.crashed(actor: "server"))
        story.add(.reopened(actor: "server"))
        let rows = [Story.kiel, Story.anna, Story.ben, Story.paper]
        story.add(.dumped(actor: "server", rows: Dictionary(uniqueKeysWithValues: rows.map { ($0.id, $0.row) })))
        story.expect(.acknowledgedStays, "player 1")
    }

    @Test func `I1: a change set leaves the outbox before the device applies its revision`() {
        var story = committed()
        story.stepped("a", cursor: 1, outbox: [])
        story.expect(.acknowledgedStays, "change set s")
    }

    // MARK: I3

    @Test func `I3: half of a change set is committed`() {
        var story = Story()
        let other = Story.ben.with(["name": "\"Benjamin\""])
        let both = OutboxSet(
            frozen: "s",
            changes: [update(Story.anna, cells, base: 1), update(Story.ben, ["name": "\"Benjamin\""], base: 1)])
        story.edited("a", Story.anna.to(renamed), Story.ben.to(other))
        story.stepped("a", "prepare", cursor: 1, outbox: [both])
        story.sent("a", 1, at: 1, [both])
        story.served(1, revision: 2, commits: [commit(2)], rows: [Story.anna.to(renamed)])
        story.expect(.atomic, "player 2")
    }

    @Test func `I3: a commit changes rows that no change set names`() {
        var story = waiting()
        let other = Story.ben.with(["name": "\"X\""])
        story.sent("a", 1, at: 1, [set])
        story.served(
            1, revision: 2, commits: [commit(2, [update(Story.anna, cells), update(other, ["name": "\"X\""])])],
            rows: [Story.anna.to(renamed), Story.ben.to(other)])
        story.expect(.atomic, "player 2")
    }

    @Test func `I3: a snapshot has a row of a later revision`() {
        var story = committed()
        let rows = [Story.kiel, renamed, Story.ben, Story.paper]
        story.add(
            .snapshot(epoch: "e", revision: 1, rows: Dictionary(uniqueKeysWithValues: rows.map { ($0.id, $0.row) })))
        story.expect(.atomic, "the snapshot at 1")
    }

    // MARK: I4

    @Test func `I4: a revision is skipped`() {
        var story = waiting()
        story.sent("a", 1, at: 1, [set])
        story.served(1, revision: 3, commits: [commit(3)], rows: [Story.anna.to(renamed)])
        story.expect(.dense, "revision 3")
    }

    @Test func `I4: the log lacks a change that the tables have`() {
        var story = waiting()
        story.sent("a", 1, at: 1, [set])
        story.served(1, revision: 2, commits: [commit(2, [])], rows: [Story.anna.to(renamed)])
        #expect(story.violations.contains { $0.invariant == .dense })
    }

    @Test func `I4: the cursor moves without the rows`() {
        var story = committed()
        story.stepped("b", cursor: 2)
        story.expect(.dense, "player 1")
    }

    @Test func `I4: the rows move without the cursor`() {
        var story = committed()
        story.stepped("b", cursor: 1, rows: [Story.anna.to(renamed)])
        story.expect(.dense, "player 1")
    }

    @Test func `I4: the cursor moves back`() {
        var story = committed()
        story.stepped("b", cursor: 2, rows: [Story.anna.to(renamed)])
        story.stepped("b", cursor: 1, rows: [renamed.to(Story.anna)])
        story.expect(.dense, "no way back from 2")
    }

    @Test func `I4: an answer omits a revision`() {
        var story = committed()
        story.sent("b", 2, at: 1)
        story.served(2, revision: 2, replies: [])
        story.expect(.dense, "every revision up to 2")
    }

    @Test func `I4: a request of another epoch is answered`() {
        var story = waiting()
        story.add(.restored(epoch: "f", revision: 1))
        story.sent("a", 1, at: 1, [set])
        story.served(1, revision: 1, epoch: "f", replies: [])
        story.expect(.dense, "epoch e")
    }

    // MARK: I5

    @Test func `I5: a device ends with a different row`() {
        var story = committed()
        story.stepped("a", cursor: 2, outbox: [])
        story.stepped("b", cursor: 2, rows: [Story.anna.to(renamed.with(["name": "\"Anni\""]))])
        #expect(story.violations.contains { $0.invariant == .dense })
        story.add(.finished)
        #expect(story.violations.contains { $0.invariant == .converged && $0.actor == "b" })
    }

    @Test func `I5: applied rows are captured as if the app had written them`() {
        var story = committed()
        story.stepped("b", cursor: 2, rows: [Story.anna.to(renamed)], captured: 1)
        story.expect(.converged, "only the engine wrote")
    }

    @Test func `I5: equal rows have different digests`() {
        var story = committed()
        story.stepped("a", cursor: 2, outbox: [])
        story.stepped("b", cursor: 2, rows: [Story.anna.to(renamed)])
        for (actor, hash) in [("a", "h"), ("b", "i"), ("server", "h")] {
            story.add(.digested(actor: actor, hash: hash))
            story.add(.drained(device: actor, requests: 1))
        }
        story.add(.finished)
        story.expect(.converged, "its digest")
    }

    // MARK: I6

    @Test func `I6: a retry is committed a second time`() {
        var story = committed()
        story.sent("a", 2, at: 1, [set])
        story.served(2, revision: 3, commits: [commit(3, [])])
        story.expect(.once, "change set s")
    }

    @Test func `I6: a retry gets other bytes`() {
        var story = committed()
        story.sent("a", 2, at: 1, [set])
        story.served(2, revision: 2, replies: [Reply(changeSet: "s", revision: 2, body: "{}")])
        story.expect(.once, "the bytes that it got first")
    }

    @Test func `I6: a sent change set is sent again with other content`() {
        var story = committed()
        let other = OutboxSet(id: "s", changes: set.changes, wire: "{t}")
        story.sent("a", 2, at: 1, [other])
        story.expect(.once, "{t}")
    }

    // MARK: I9

    @Test func `I9: an edit is not captured`() {
        var story = Story()
        story.edited("a", Story.anna.to(renamed))
        story.stepped("a", "prepare", cursor: 1, outbox: [])
        story.expect(.intentKept, "no change set with it")
    }

    @Test func `I9: an edit vanishes from the screen while it is in the outbox`() {
        var story = waiting()
        story.stepped("a", cursor: 1, rows: [renamed.to(Story.anna)])
        story.expect(.intentKept, "its waiting edit")
    }

    @Test func `I9: the outbox is dropped`() {
        var story = waiting()
        story.stepped("a", "snapshot", cursor: 1, rows: [renamed.to(Story.anna)], outbox: [])
        story.expect(.intentKept, "without a verdict")
    }

    @Test func `I9: a row changes without an edit or an answer`() {
        var story = Story()
        story.edited("a", renamed.to(Story.anna))
        story.expect(.intentKept, "player 1")
    }

    // MARK: I10, I11, I12

    @Test func `I10: a change set stays in the outbox for ever`() {
        var story = waiting()
        story.add(.healed)
        story.add(.drained(device: "a", requests: 6))
        story.add(.drained(device: "b", requests: 1))
        story.add(.finished)
        story.expect(.live, "at most 5")
        #expect("\(story.violations)".contains("the outbox"))
    }

    @Test func `I11: a queue grows beyond its bound`() {
        var story = Story()
        story.add(.measured(actor: "a", name: "outbox", value: 10))
        story.expectNothing()
        story.add(.measured(actor: "a", name: "outbox", value: 11))
        story.expect(.bounded, "at most 10")
    }

    @Test func `I12: bad input is reported as a defect, or has an effect`() {
        var story = Story()
        story.add(.abused(actor: "server", input: "half a request", outcome: "400"))
        story.expectNothing()
        story.add(.abused(actor: "server", input: "half a request", outcome: "500"))
        story.expect(.unharmed, "half a request")
        story = waiting()
        story.sent("a", 1, at: 1, [set])
        story.served(1, revision: 2, error: "malformedRequest")
        story.expect(.unharmed, "changes nothing")
    }
}
