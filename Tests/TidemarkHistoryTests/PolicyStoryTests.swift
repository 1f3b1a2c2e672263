import Testing
import TidemarkHistory

/// I9 under `lastWriter` and `latest`: one of two values prevails, and the author of the other
/// keeps it.
@Suite struct PolicyStoryTests {
    private static func example(_ table: String, _ a: String) -> Example {
        Example(id: RecordID(table, "\"m\""), row: ["id": "\"m\"", "a": a])
    }

    /// At revision 2 a program writes 8 at the server; revision 3 is device a's 7, with base 1 and
    /// the server's result.
    private static func replaced(
        in table: String = "memo", times: (program: Int64, device: Int64) = (0, 0), standing: String = "7"
    ) -> Story {
        let memo = example(table, "1")
        var story = Story(more: [memo])
        let set = OutboxSet(frozen: "s", changes: [update(memo, ["a": "7"], base: 1)])
        story.edited("a", memo.to(memo.with(["a": "7"])))
        story.stepped("a", "prepare", cursor: 1, outbox: [set])
        story.served(
            nil, revision: 2, commits: [Commit(revision: 2, changes: [update(memo, ["a": "8"])], time: times.program)],
            rows: [memo.to(memo.with(["a": "8"]))])
        story.sent("a", 1, at: 1, [set])
        let isSet = standing == "7"
        story.served(
            1, revision: 3,
            commits: [
                Commit(
                    revision: 3, changeSet: "s", identity: "uuid-a", changes: isSet ? [update(memo, ["a": "7"])] : [],
                    time: times.device)
            ], rows: isSet ? [memo.with(["a": "8"]).to(memo.with(["a": "7"]))] : [])
        return story
    }

    /// Device a applies revision 3, and keeps a value or not; then the run ends.
    private static func end(_ story: Story, in table: String = "memo", shows: String = "7", overruled: String?) -> Story
    {
        var story = story
        let memo = example(table, "7")
        let item = ParkedSet.Item(memo.id, .update, mine: ["a": overruled ?? ""], theirs: ["a": shows])
        story.stepped(
            "a", cursor: 3, rows: shows == "7" ? [] : [memo.to(memo.with(["a": shows]))], outbox: [],
            conflicts: overruled == nil ? nil : [ParkedSet(id: "s", items: [item], isOverruled: true)])
        return story
    }

    private static func ended(_ story: Story) -> Story {
        var story = story
        story.add(.drained(device: "a", requests: 1))
        story.add(.finished)
        return story
    }

    @Test func `keeping an overruled value breaks nothing`() {
        Self.end(Self.replaced(), overruled: "8").expectNothing()
    }

    @Test func `I9: an overruled value vanishes`() {
        Self.ended(Self.end(Self.replaced(), overruled: nil)).expect(.intentKept, "it was lost")
    }

    @Test func `I9: a value that prevails is listed as overruled`() {
        Self.end(Self.replaced(), overruled: "7").expect(.intentKept, "no value kept that stands")
    }

    @Test func `I3: under lastWriter the later arrival does not prevail`() {
        Self.replaced(standing: "8").expect(.atomic, "a=8")
    }

    @Test func `under latest an older edit that arrives later is overruled, and its author keeps it`() {
        let story = Self.replaced(in: "wish", times: (9, 5), standing: "8")
        Self.end(story, in: "wish", shows: "8", overruled: "7").expectNothing()
        Self.ended(Self.end(story, in: "wish", shows: "8", overruled: nil)).expect(.intentKept, "it was lost")
    }

    @Test func `I3: under latest an older edit prevails over a newer one`() {
        Self.replaced(in: "wish", times: (9, 5)).expect(.atomic, "a=7")
    }

    @Test func `I3: under latest a newer edit does not prevail`() {
        Self.replaced(in: "wish", times: (5, 9), standing: "8").expect(.atomic, "a=8")
    }

    @Test func `I2: a change set's time is before changes that its author's file had shown`() {
        let memo = Self.example("wish", "1")
        for (time, isFine) in [(Int64(2_000_000), true), (1_000_000, false)] {
            var story = Story(more: [memo])
            let changes = [update(memo, ["a": "7"], base: 1)]
            story.edited("a", memo.to(memo.with(["a": "7"])))
            story.stepped(
                "a", "prepare", cursor: 1, outbox: [OutboxSet(id: "s", changes: changes, time: time)], wall: 2_000)
            if isFine { story.expectNothing() } else { story.expect(.noSilentOverwrite, "the time of change set s") }
        }
    }

    // MARK: New records

    /// A program creates a record at the server, and device a, which has not seen it, one under the same key.
    ///
    /// The server lets device a's values replace the others.
    private static func createdTwice(in table: String, _ key: String) -> Story {
        let theirs = Example(id: RecordID(table, key), row: ["id": key, "a": "8"])
        let mine = theirs.with(["a": "7"])
        var story = Story()
        let set = OutboxSet(frozen: "s", changes: [create(mine)])
        story.edited("a", mine.made)
        story.stepped("a", "prepare", cursor: 1, outbox: [set])
        story.served(nil, revision: 2, commits: [Commit(revision: 2, changes: [create(theirs)])], rows: [theirs.made])
        story.sent("a", 1, at: 1, [set])
        let commit = Commit(revision: 3, changeSet: "s", identity: "uuid-a", changes: [update(theirs, ["a": "7"])])
        story.served(1, revision: 3, commits: [commit], rows: [theirs.to(mine)])
        return story
    }

    @Test func `two creations of a chosen key are versions of one record, so the policy decides`() {
        Self.createdTwice(in: "memo", "\"new\"").expectNothing()
    }

    @Test func `I2: a new record overrules another one that has the same number`() {
        Self.createdTwice(in: "photo", "50").expect(.noSilentOverwrite, "revision 2 was not seen")
    }

    // MARK: Unique values

    private static func seat(_ id: String, _ place: String) -> Example {
        Example(id: RecordID("seat", id), row: ["id": id, "place": place])
    }

    /// Device a moves seat m from place 1 to 2, and puts seat n at place 1.
    ///
    /// A program writes seat m at the server, at another time, so that it stays or not. The server refuses the
    /// change set for its places.
    private static func refused(at time: Int64) -> Story {
        let m = seat("\"m\"", "1")
        let n = seat("\"n\"", "1")
        var story = Story(more: [m])
        let changes = [update(m, ["place": "2"], base: 1), create(n)]
        let set = OutboxSet(id: "s", changes: changes, wire: "{s \"revision\":1}", time: 4_000)
        story.edited("a", m.to(m.with(["place": "2"])), n.made)
        story.stepped("a", "prepare", cursor: 1, outbox: [set], wall: 4)
        for (revision, place) in [(Int64(2), "9"), (3, "1")] {
            let before = revision == 2 ? m : m.with(["place": "9"])
            story.served(
                nil, revision: revision,
                commits: [Commit(revision: revision, changes: [update(m, ["place": place])], time: time)],
                rows: [before.to(m.with(["place": place]))])
        }
        story.sent("a", 1, at: 1, [set])
        let truth: [RecordID: Cells?] = [m.id: ["place": "1"], n.id: nil as Cells?]
        let reason = (RecordID("seat", ""), "unique")
        let replies = [
            Reply(changeSet: nil, revision: 2, body: "{2}"), Reply(changeSet: nil, revision: 3, body: "{3}"),
            Reply(changeSet: "s", revision: nil, body: "{s}", truth: truth, reasons: [reason]),
        ]
        story.served(1, revision: 3, replies: replies)
        return story
    }

    @Test func `a place that a later value keeps by its policy is taken`() { Self.refused(at: 5_000).expectNothing() }

    @Test func `I9: a place that an earlier value does not keep is free`() {
        Self.refused(at: 3_000).expect(.intentKept, "as unique")
    }
}
