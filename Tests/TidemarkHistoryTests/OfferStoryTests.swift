import Testing
import TidemarkHistory

/// I2, I3, I6 and I9: a client without rows is judged by what it sent over REST.
@Suite struct OfferStoryTests {
    private let anni = ["name": "\"Anni\""]
    private let anne = ["name": "\"Anne\""]

    /// Another program renames player 1 at revision 2; the client has seen it at a revision, and offers a change.
    private func offered(_ changes: [RecordChange], sight: Int64 = 1, seen: Int64? = nil) -> Story {
        var story = Story()
        story.served(
            nil, revision: 2, commits: [Commit(revision: 2, changes: [update(Story.anna, anne)])],
            rows: [Story.anna.to(Story.anna.with(anne))])
        let sights = Dictionary(uniqueKeysWithValues: changes.map { ($0.record, sight) })
        story.add(.offered(Offer(client: "c", id: "s", changes: changes, sights: sights, seen: seen)))
        return story
    }

    /// The server commits a change of player 1 at revision 3.
    private func committed(_ story: Story, _ cells: Cells) -> Story {
        var story = story
        let now = Story.anna.with(anne)
        story.served(
            nil, revision: 3, commits: [Commit(revision: 3, changeSet: "s", changes: [update(Story.anna, cells)])],
            rows: [now.to(now.with(cells))])
        return story
    }

    private func refusal(_ rule: String, code: String = "preconditionFailed") -> OfferAnswer {
        OfferAnswer(id: "s", .refused(.init(code: code, reasons: [(Story.anna.id, rule)])))
    }

    @Test func `I2: a PATCH with an old tag overwrites a value that the client has not seen`() {
        let story = committed(offered([update(Story.anna, anni, base: 1)]), anni)
        story.expect(.noSilentOverwrite, "revision 2 was not seen by change set s, made at 1")
    }

    @Test func `I2: a tag that came without its record overwrites what the client has not seen`() {
        let story = committed(offered([update(Story.anna, anni, base: 2)]), anni)
        story.expect(.noSilentOverwrite, "revision 2 was not seen")
    }

    @Test func `a PATCH with the present tag, with a star, and with Tidemark-Seen may overwrite`() {
        committed(offered([update(Story.anna, anni, base: 2)], sight: 2), anni).expectNothing()
        committed(offered([update(Story.anna, anni, base: Offer.anyState)]), anni).expectNothing()
        committed(offered([update(Story.anna, anni, base: 1)], seen: 2), anni).expectNothing()
    }

    @Test func `I3: the server writes another value than the client sent`() {
        committed(offered([update(Story.anna, anni, base: 2)], sight: 2), anne.mapValues { _ in "\"A\"" })
            .expect(.atomic, "Anni")
    }

    @Test func `I1: the server reports success for writes that are not in the log`() {
        var story = offered([update(Story.anna, anni, base: 2)], sight: 2)
        story.add(.answered(OfferAnswer(id: "s", .done([nil]))))
        story.expect(.acknowledgedStays, "nothing acknowledged")
    }

    @Test func `I6: a write is refused after its success`() {
        var story = committed(offered([update(Story.anna, anni, base: 2)], sight: 2), anni)
        story.add(.answered(refusal("changed")))
        story.expect(.once, "revision 3")
    }

    @Test func `I9: a refusal needs a cause: a PATCH with the present tag is no conflict`() {
        var story = offered([update(Story.anna, anni, base: 2)], sight: 2)
        story.add(.judged(changeSet: "s"))
        story.add(.answered(refusal("changed")))
        story.expect(.intentKept, "nobody else changed player 1")
    }

    @Test func `a refusal stays true when the record changes before the client reads it`() {
        var story = offered([update(Story.anna, anni, base: 1)])
        story.add(.judged(changeSet: "s"))
        let now = Story.anna.with(anne)
        story.served(
            nil, revision: 3, commits: [Commit(revision: 3, changes: [update(Story.anna, anni)])],
            rows: [now.to(now.with(anni))])
        story.add(.answered(refusal("changed")))
        story.add(.answered(refusal("changed")))
        story.expectNothing()
    }

    @Test func `I3: one of two new records of a batch is missing`() {
        let lemgo = team(-1, "\"Lemgo\"")
        let dora = player(-2, team: -1, "\"Dora\"")
        let made = team(7, "\"Lemgo\"")
        var story = offered([create(lemgo), create(dora)])
        story.served(
            nil, revision: 3, commits: [Commit(revision: 3, changeSet: "s", changes: [create(made)])], rows: [made.made]
        )
        story.expect(.atomic, "Dora")
    }

    @Test func `new records are known by their contents, and their answer shows them`() {
        let made = [team(7, "\"Lemgo\""), player(9, team: 7, "\"Dora\"")]
        var story = offered([create(team(-1, "\"Lemgo\"")), create(player(-2, team: -1, "\"Dora\""))])
        story.served(
            nil, revision: 3, commits: [Commit(revision: 3, changeSet: "s", changes: made.map(create))],
            rows: made.map(\.made))
        var records = made.map { ShownRecord($0.id, revision: 3, cells: $0.row) }
        story.add(.answered(OfferAnswer(id: "s", .done(records))))
        story.expectNothing()
        records[1] = ShownRecord(Story.ben.id, revision: 3, cells: Story.ben.row)
        story.add(.answered(OfferAnswer(id: "s", .done(records))))
        story.expect(.references, "player 2")
    }

    @Test func `I4: an answer shows an older state than the zone's`() {
        var story = offered([])
        story.add(
            .shown(Sight(client: "c", revision: 2, records: [ShownRecord(Story.anna.id, revision: 1, cells: nil)])))
        story.expect(.dense, "tag of 2")
    }

    @Test func `I5: a copy by list and feed lacks a record`() {
        var story = offered([])
        let rows = [Story.kiel, Story.anna.with(anne), Story.ben, Story.paper]
        let records = Dictionary(uniqueKeysWithValues: rows.map { ($0.id, $0.row) })
        story.add(.mirrored(client: "c", revision: 2, rows: records))
        story.expectNothing()
        story.add(.mirrored(client: "c", revision: 2, rows: records.filter { $0.key != Story.ben.id }))
        story.expect(.converged, "player 2 in the copy at 2")
    }
}
