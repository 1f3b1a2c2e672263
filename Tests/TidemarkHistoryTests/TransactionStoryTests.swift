import Testing
import TidemarkHistory

/// I3 on a device: a transaction of the app is in one change set; and I9: only invalid edits are
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

    @Test func `a transaction is in one change set, alone or merged with its neighbour`() {
        for outbox in [[set("s", hamburg, anni), set("t", benno)], [set("s", hamburg, anni, benno)]] {
            var story = edited()
            story.stepped("a", "prepare", cursor: 1, outbox: outbox)
            story.expectNothing()
        }
    }

    @Test func `I3: a transaction is split into two change sets`() {
        for outbox in [
            [set("s", hamburg), set("t", anni), set("u", benno)], [set("s", hamburg), set("t", anni, benno)],
            [set("s", hamburg, benno), set("t", anni)],
        ] {
            var story = edited()
            story.stepped("a", "prepare", cursor: 1, outbox: outbox)
            story.expect(.atomic, "each whole in one change set")
        }
    }

    @Test func `I3: change sets are in another order than their transactions`() {
        var story = edited()
        story.stepped("a", "prepare", cursor: 1, outbox: [set("t", benno), set("s", hamburg, anni)])
        story.expect(.atomic, "each whole in one change set")
    }

    /// Another device takes the team's new name; Anna's new name is independent of it.
    @Test func `I9: a valid edit is hidden together with an invalid one`() {
        let hamburgTeam = team(2, "\"Hamburg\"")
        for hidesAnna in [false, true] {
            var story = Story()
            story.edited("a", Story.kiel.to(hamburg))
            story.edited("a", Story.anna.to(anni))
            story.stepped("a", "prepare", cursor: 1, outbox: [set("s", hamburg), set("t", anni)])
            story.served(
                nil, revision: 2, commits: [Commit(revision: 2, changes: [create(hamburgTeam)])],
                rows: [hamburgTeam.made])
            story.stepped(
                "a", cursor: 2,
                rows: [hamburgTeam.made, hamburg.to(Story.kiel)] + (hidesAnna ? [anni.to(Story.anna)] : []))
            if hidesAnna { story.expect(.intentKept, "player 1") } else { story.expectNothing() }
        }
    }
}
