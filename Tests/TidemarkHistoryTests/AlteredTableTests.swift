import Testing
import TidemarkHistory

/// Histories in which tables change: the notes of some files have a column `c`, with 3 as its
/// default.
@Suite struct AlteredTableTests {
    private static let column: Cells = ["c": "3"]
    private static let paper = Story.paper
    private static let starred = paper.with(column)

    /// The zone has the column, and another device has written 5 into it, as device a has received.
    private static func zoneAhead() -> Story {
        var story = Story(alters: true)
        story.add(.altered(actor: "server", Story.layout(column)))
        story.served(
            nil, revision: 2, commits: [Commit(revision: 2, changes: [update(starred, ["c": "5"])])],
            rows: [starred.to(starred.with(["c": "5"]))])
        story.stepped("a", "schema", cursor: 1, fit: .init(own: 0, zone: 1))
        story.stepped("a", cursor: 2)
        return story
    }

    /// The same, with 7 there in the app, which has not seen the 5.
    private static func bothFilled() -> Story {
        var story = zoneAhead()
        story.add(.altered(actor: "a", Story.layout(column)))
        story.edited("a", starred.to(starred.with(["c": "7"])))
        return story
    }

    /// The app is ahead of the zone: it has the column, and 7 there.
    private static func appAhead() -> Story {
        var story = Story(alters: true)
        story.add(.altered(actor: "a", Story.layout(column)))
        story.stepped("a", "begin", cursor: 1, fit: .init(own: 1, zone: 0))
        story.edited("a", starred.to(starred.with(["c": "7"])))
        return story
    }

    private static let seven = OutboxSet(id: "s1", changes: [update(paper, ["c": "7"], base: 1)])

    @Test func `an app shows the zone's value of a new column after its migration`() {
        var story = Self.zoneAhead()
        story.add(.altered(actor: "a", Story.layout(Self.column)))
        story.stepped(
            "a", "begin", cursor: 2, rows: [Self.starred.to(Self.starred.with(["c": "5"]))], fit: .init(own: 1, zone: 1)
        )
        story.expectNothing()
    }

    @Test func `I4: an app loses the zone's value of a new column at its migration`() {
        var story = Self.zoneAhead()
        story.add(.altered(actor: "a", Story.layout(Self.column)))
        story.stepped("a", "begin", cursor: 2, fit: .init(own: 1, zone: 1))
        story.expect(.dense, "note \"n\"")
    }

    @Test func `I9: filling a new column overwrites the app's own value`() {
        var story = Self.appAhead()
        story.stepped("a", "prepare", cursor: 1, outbox: [Self.seven])
        story.stepped("a", "prepare", cursor: 1, outbox: [])
        story.add(.altered(actor: "server", Story.layout(Self.column)))
        story.stepped(
            "a", "schema", cursor: 1, rows: [Self.starred.with(["c": "7"]).to(Self.starred)],
            fit: .init(own: 1, zone: 1))
        story.expect(.intentKept, "no change set with it")
    }

    @Test func `the app's value in a column becomes an edit when the zone adds the column`() {
        var story = Self.appAhead()
        story.stepped("a", "prepare", cursor: 1, outbox: [])
        story.add(.altered(actor: "server", Story.layout(Self.column)))
        story.stepped("a", "schema", cursor: 1, captured: 1, fit: .init(own: 1, zone: 1))
        story.stepped("a", "prepare", cursor: 1, outbox: [Self.seven])
        story.expectNothing()
    }

    @Test func `I9: the zone's value replaces the app's, and the app's is lost`() {
        var story = Self.bothFilled()
        story.stepped(
            "a", "begin", cursor: 2, rows: [Self.starred.with(["c": "7"]).to(Self.starred.with(["c": "5"]))],
            fit: .init(own: 1, zone: 1))
        story.expect(.intentKept, "among the conflicts")
    }

    @Test func `the zone's value stays and the app's becomes a conflict`() {
        var story = Self.bothFilled()
        let item = ParkedSet.Item(Self.paper.id, .update, mine: ["c": "7"], theirs: ["c": "5"])
        story.stepped(
            "a", "begin", cursor: 2, rows: [Self.starred.with(["c": "7"]).to(Self.starred.with(["c": "5"]))],
            conflicts: [ParkedSet(id: "p1", items: [item])], fit: .init(own: 1, zone: 1))
        story.expectNothing()
    }

    @Test func `I3: an old app erases a column that it does not know`() {
        var story = Self.zoneAhead()
        let edited = Self.paper.with(["a": "9"])
        let set = OutboxSet(frozen: "s1", changes: [update(Self.paper, ["a": "9"], base: 2)])
        story.edited("a", Self.paper.to(edited))
        story.stepped("a", "prepare", cursor: 2, outbox: [set])
        story.sent("a", 1, at: 2, [set])
        let cells = ["a": "9", "c": "null"]
        story.served(
            1, revision: 3,
            commits: [Commit(revision: 3, changeSet: "s1", identity: "uuid-a", changes: [update(Self.paper, cells)])],
            rows: [Self.starred.with(["c": "5"]).to(Self.starred.with(cells))])
        story.expect(.atomic, "c=null too")
    }

    @Test func `I9: an answer changes a column that only the file has`() {
        var story = Self.appAhead()
        story.stepped("a", "prepare", cursor: 1, outbox: [])
        let other = Self.paper.with(["b": "4"])
        story.served(
            nil, revision: 2, commits: [Commit(revision: 2, changes: [update(Self.paper, ["b": "4"])])],
            rows: [Self.paper.to(other)])
        story.stepped("a", cursor: 2, rows: [Self.starred.with(["c": "7"]).to(Self.starred.with(["b": "4"]))])
        story.expect(.intentKept, "c=7 to stay")
    }

    @Test func `I4: a file claims a table layout that never existed`() {
        var story = Story(alters: true)
        story.stepped("a", "schema", cursor: 1, fit: .init(own: 0, zone: 4))
        story.expect(.dense, "its tables")
    }
}
