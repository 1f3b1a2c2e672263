import Testing
import TidemarkHistory

/// I3 on a device: a transaction of the app is in one change set; and I9: only what does not fit is
/// hidden.
@Suite struct TransactionStoryTests {
    private let hamburg = Story.kiel.with(["name": "\"Hamburg\""])
    private let anni = Story.anna.with(["name": "\"Anni\""])
    private let benno = Story.ben.with(["name": "\"Benno\""])

    private func set(_ id: String, _ examples: Example...) -> OutboxSet {
        OutboxSet(id: id, changes: examples.map { update($0, ["name": $0.row["name"] ?? ""], base: 1) })
    }

    /// One transaction renames the team and Anna, another one Ben.
    private func edited() -> Story {
        var story = Story()
        story.edited("a", Story.kiel.to(hamburg), Story.anna.to(anni))
        story.edited("a", Story.ben.to(benno))
        return story
    }

    @Test func `a transaction is in one change set, by itself or with its neighbour`() {
        for outbox in [[set("s", hamburg, anni), set("t", benno)], [set("s", hamburg, anni, benno)]] {
            var story = edited()
            story.stepped("a", "prepare", cursor: 1, outbox: outbox)
            story.expectNothing()
        }
    }

    @Test func `I3: a transaction is divided among two change sets`() {
        for outbox in [
            [set("s", hamburg), set("t", anni), set("u", benno)], [set("s", hamburg), set("t", anni, benno)],
            [set("s", hamburg, benno), set("t", anni)],
        ] {
            var story = edited()
            story.stepped("a", "prepare", cursor: 1, outbox: outbox)
            story.expect(.atomic, "each whole in one change set")
        }
    }

    @Test func `I3: change sets come in another order than the transactions`() {
        var story = edited()
        story.stepped("a", "prepare", cursor: 1, outbox: [set("t", benno), set("s", hamburg, anni)])
        story.expect(.atomic, "each whole in one change set")
    }

    /// Somebody takes the name that the team was given; Anna's new name has nothing to do with it.
    @Test func `I9: an edit that fits is hidden together with one that does not`() {
        let taken = team(2, "\"Hamburg\"")
        for hidesAnna in [false, true] {
            var story = Story()
            story.edited("a", Story.kiel.to(hamburg))
            story.edited("a", Story.anna.to(anni))
            story.stepped("a", "prepare", cursor: 1, outbox: [set("s", hamburg), set("t", anni)])
            story.served(nil, revision: 2, commits: [Commit(revision: 2, changes: [create(taken)])], rows: [taken.made])
            story.stepped(
                "a",
                cursor: 2,
                rows: [taken.made, hamburg.to(Story.kiel)] + (hidesAnna ? [anni.to(Story.anna)] : [])
            )
            if hidesAnna { story.expect(.intentKept, "player 1") } else { story.expectNothing() }
        }
    }
}
