import Testing
import TidemarkHistory

/// I9 under `lastWriter` and `latest`: one of two values stands, and the other one is kept by its
/// author.
@Suite struct PolicyStoryTests {
    private static func example(_ table: String, _ a: String) -> Example {
        Example(id: RecordID(table, "\"m\""), row: ["id": "\"m\"", "a": a])
    }

    /// At revision 2 a program writes 8 at the server; at revision 3 device a's 7 is taken, made at
    /// revision 1, with what the server makes of it.
    private static func replaced(
        in table: String = "memo",
        times: (program: Int64, device: Int64) = (0, 0),
        standing: String = "7"
    ) -> Story {
        let memo = example(table, "1")
        var story = Story(more: [memo])
        let set = OutboxSet(frozen: "s", changes: [update(memo, ["a": "7"], base: 1)])
        story.edited("a", memo.to(memo.with(["a": "7"])))
        story.stepped("a", "prepare", cursor: 1, outbox: [set])
        story.served(
            nil,
            revision: 2,
            commits: [Commit(revision: 2, changes: [update(memo, ["a": "8"])], time: times.program)],
            rows: [memo.to(memo.with(["a": "8"]))]
        )
        story.sent("a", 1, at: 1, [set])
        let isSet = standing == "7"
        story.served(
            1,
            revision: 3,
            commits: [
                Commit(
                    revision: 3,
                    changeSet: "s",
                    identity: "uuid-a",
                    changes: isSet ? [update(memo, ["a": "7"])] : [],
                    time: times.device
                )
            ],
            rows: isSet ? [memo.with(["a": "8"]).to(memo.with(["a": "7"]))] : []
        )
        return story
    }

    /// Device a takes revision 3 in, and keeps a value or not; then all ends.
    private static func end(_ story: Story, in table: String = "memo", shows: String = "7", kept: String?) -> Story {
        var story = story
        let memo = example(table, "7")
        let item = ParkedSet.Item(memo.id, .update, mine: ["a": kept ?? ""], theirs: ["a": shows])
        story.stepped(
            "a",
            cursor: 3,
            rows: shows == "7" ? [] : [memo.to(memo.with(["a": shows]))],
            outbox: [],
            conflicts: kept == nil ? nil : [ParkedSet(id: "s", items: [item], isOverruled: true)]
        )
        return story
    }

    private static func ended(_ story: Story) -> Story {
        var story = story
        story.add(.drained(device: "a", requests: 1))
        story.add(.finished)
        return story
    }

    @Test func `a value that another one replaced unseen is kept, and nothing is broken`() {
        Self.end(Self.replaced(), kept: "8").expectNothing()
    }

    @Test func `I9: a value that another one replaced unseen vanishes`() {
        Self.ended(Self.end(Self.replaced(), kept: nil)).expect(.intentKept, "it was lost")
    }

    @Test func `I9: a value is kept as overruled that stands`() {
        Self.end(Self.replaced(), kept: "7").expect(.intentKept, "no value kept that stands")
    }

    @Test func `I3: under lastWriter what arrives later does not stand`() {
        Self.replaced(standing: "8").expect(.atomic, "a=8")
    }

    @Test func `under latest an older edit that arrives later is in vain, and its author keeps it`() {
        let story = Self.replaced(in: "wish", times: (9, 5), standing: "8")
        Self.end(story, in: "wish", shows: "8", kept: "7").expectNothing()
        Self.ended(Self.end(story, in: "wish", shows: "8", kept: nil)).expect(.intentKept, "it was lost")
    }

    @Test func `I3: under latest an older edit stands over a newer one`() {
        Self.replaced(in: "wish", times: (9, 5)).expect(.atomic, "a=7")
    }

    @Test func `I3: under latest a newer edit does not stand`() {
        Self.replaced(in: "wish", times: (5, 9), standing: "8").expect(.atomic, "a=8")
    }

    @Test func `I2: a change set is dated before what its author's file had shown`() {
        let memo = Self.example("wish", "1")
        for (time, isFine) in [(Int64(2_000_000), true), (1_000_000, false)] {
            var story = Story(more: [memo])
            let changes = [update(memo, ["a": "7"], base: 1)]
            story.edited("a", memo.to(memo.with(["a": "7"])))
            story.stepped(
                "a",
                "prepare",
                cursor: 1,
                outbox: [OutboxSet(id: "s", changes: changes, time: time)],
                wall: 2_000
            )
            if isFine { story.expectNothing() } else { story.expect(.noSilentOverwrite, "the time of change set s") }
        }
    }
}
