import Testing
import TidemarkHistory

/// I1, I3, I9 and I11 under `add`: each sale counts once, whatever its author had seen.
@Suite struct SumStoryTests {
    private static func stock(_ amount: String) -> Example {
        Example(id: RecordID("stock", "\"m\""), row: ["id": "\"m\"", "amount": amount])
    }

    /// A change set that adds to the amount, with base 1.
    private static func sale(_ id: String, _ cell: String) -> OutboxSet {
        OutboxSet(frozen: id, changes: [update(stock("5"), ["amount": cell], base: 1)])
    }

    /// Devices a and b sell 2 and 1 of 5, offline; `cell` is what a sends.
    private static func sold(sending cell: String = #"{"$add":-2}"#) -> Story {
        var story = Story(more: [stock("5")])
        for (device, rest, sale) in [("a", "3", sale("s", cell)), ("b", "4", sale("t", #"{"$add":-1}"#))] {
            story.edited(device, stock("5").to(stock(rest)))
            story.stepped(device, "prepare", cursor: 1, outbox: [sale])
        }
        return story
    }

    /// The server commits the sale of a device, and its amount becomes another.
    private static func commit(
        _ story: inout Story, _ device: String, _ id: String, _ revision: Int64, _ cell: String,
        _ amounts: (before: String, after: String)
    ) {
        let number = Int(revision)
        story.sent(device, number, at: 1, [sale(id, cell)])
        let after = stock(amounts.after)
        story.served(
            number, revision: revision,
            commits: [
                Commit(
                    revision: revision, changeSet: id, identity: "uuid-\(device)",
                    changes: [update(after, ["amount": amounts.after])])
            ], rows: [stock(amounts.before).to(after)])
    }

    /// Both sales are committed; the second one leaves `rest`.
    private static func committed(leaving rest: String = "2") -> Story {
        var story = sold()
        commit(&story, "a", "s", 2, #"{"$add":-2}"#, ("5", "3"))
        commit(&story, "b", "t", 3, #"{"$add":-1}"#, ("3", rest))
        return story
    }

    @Test func `two sales that have not seen each other leave the rest, and break nothing`() {
        var story = Self.committed()
        story.stepped("a", cursor: 3, rows: [Self.stock("3").to(Self.stock("2"))], outbox: [])
        story.stepped("b", cursor: 3, rows: [Self.stock("4").to(Self.stock("2"))], outbox: [])
        story.expectNothing()
    }

    @Test(arguments: ["4", "3", "1"]) func `I3: a sum is what its author saw, or counts a sale twice or never`(
        rest: String
    ) { Self.committed(leaving: rest).expect(.atomic, "amount=\(rest)") }

    @Test func `I1: a sale travels as a value`() {
        Self.sold(sending: "3").expect(.noSilentOverwrite, "3 in s")
    }

    @Test func `I9: a sale travels as another sale`() {
        Self.sold(sending: #"{"$add":-1}"#).expect(.intentKept, #"{"$add":-1} in s"#)
    }

    @Test(arguments: [("2", true), ("3", false), ("4", false), ("1", false)])
    func `a waiting sale is on top of what others sold, once`(shown: String, isFine: Bool) {
        var story = Self.sold()
        Self.commit(&story, "a", "s", 2, #"{"$add":-2}"#, ("5", "3"))
        story.stepped(
            "b", cursor: 2,
            rows: Self.stock("4").to(Self.stock(shown)).before == Self.stock(shown).row
                ? [] : [Self.stock("4").to(Self.stock(shown))], outbox: [Self.sale("t", #"{"$add":-1}"#)])
        if isFine { story.expectNothing() } else { #expect(!story.violations.isEmpty) }
    }

    @Test(arguments: [false, true]) func `I9: a sale is refused though enough is left`(isShort: Bool) {
        var story = Self.sold()
        if isShort {
            let change = Commit(revision: 2, changes: [update(Self.stock("1"), ["amount": "1"])])
            story.served(nil, revision: 2, commits: [change], rows: [Self.stock("5").to(Self.stock("1"))])
        }
        story.sent("a", 3, at: 1, [Self.sale("s", #"{"$add":-2}"#)])
        story.served(3, revision: isShort ? 2 : 1, error: "constraintViolated")
        if isShort { story.expectNothing() } else { story.expect(.intentKept, "no constraintViolated") }
    }
}
