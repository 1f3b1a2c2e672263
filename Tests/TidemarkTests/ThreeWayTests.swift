import Testing
import TidemarkCore

@testable import Tidemark

/// How a device judges a change of a record by images, as a table of cases.
@Suite struct ThreeWayTests {
    struct Case: CustomTestStringConvertible, Sendable {
        let operation: TidemarkCore.Operation
        let change: String?
        let base: String?
        let theirs: String?
        let verdict: ThreeWay.Verdict
        var mayAdd = false

        var testDescription: String {
            "\(operation.rawValue) \(change ?? "") of \(base ?? "nothing"), now \(theirs ?? "nothing")"
        }
    }

    private static let anna = #"{"name":"Anna","goals":7}"#
    private static let ben = #"{"name":"Ben","goals":7}"#
    private static let rename = #"{"name":"Ben"}"#
    private static let addition = #"{"goals":{"$add":2}}"#

    static let cases = [
        Case(operation: .create, change: anna, base: nil, theirs: nil, verdict: .fits),
        Case(operation: .create, change: anna, base: nil, theirs: anna, verdict: .done),
        Case(operation: .create, change: anna, base: nil, theirs: ben, verdict: .conflict(.exists)),
        Case(operation: .delete, change: nil, base: anna, theirs: nil, verdict: .done),
        Case(operation: .delete, change: nil, base: anna, theirs: anna, verdict: .fits),
        Case(operation: .delete, change: nil, base: anna, theirs: ben, verdict: .conflict(.changed)),
        Case(operation: .delete, change: nil, base: nil, theirs: ben, verdict: .conflict(.exists)),
        Case(operation: .update, change: rename, base: anna, theirs: nil, verdict: .conflict(.deleted)),
        Case(operation: .update, change: rename, base: anna, theirs: ben, verdict: .done),
        Case(operation: .update, change: rename, base: anna, theirs: anna, verdict: .fits),
        Case(
            operation: .update, change: rename, base: anna, theirs: #"{"name":"Carl","goals":7}"#,
            verdict: .conflict(.changed)),
        // Another column is unseen, too: the server judges columns, and knows who changed them.
        Case(
            operation: .update, change: rename, base: anna, theirs: #"{"name":"Anna","goals":8}"#,
            verdict: .conflict(.changed)),
        Case(operation: .update, change: rename, base: nil, theirs: anna, verdict: .conflict(.exists)),
        // A column that a migration has added to the record, or taken from it, is not compared.
        Case(
            operation: .update, change: rename, base: anna, theirs: #"{"name":"Anna","team":3}"#, verdict: .fits),
        // What a column of the change has become is not known.
        Case(
            operation: .update, change: #"{"name":"Ben","shirt":9}"#, base: anna, theirs: ben,
            verdict: .conflict(.changed)),
        Case(
            operation: .update, change: #"{"shirt":9}"#, base: anna, theirs: anna, verdict: .conflict(.changed)),
        Case(operation: .update, change: addition, base: anna, theirs: anna, verdict: .fits),
        // Equal sums can be two additions.
        Case(
            operation: .update, change: addition, base: anna, theirs: #"{"name":"Anna","goals":9}"#,
            verdict: .conflict(.changed)),
        Case(
            operation: .update, change: addition, base: anna, theirs: #"{"name":"Anna","goals":9}"#, verdict: .fits,
            mayAdd: true),
        Case(
            operation: .update, change: #"{"name":"Ben","goals":{"$add":2}}"#, base: anna,
            theirs: #"{"name":"Carl","goals":9}"#, verdict: .conflict(.changed), mayAdd: true),
        // Values are equal by type and bytes.
        Case(
            operation: .update, change: rename, base: anna, theirs: #"{"name":"Anna","goals":7.0}"#,
            verdict: .conflict(.changed)),
        Case(
            operation: .update, change: #"{"goals":8}"#, base: "{\"name\":\"\u{e9}\",\"goals\":7}",
            theirs: "{\"name\":\"e\u{301}\",\"goals\":7}", verdict: .conflict(.changed)),
    ]

    @Test(arguments: cases) func `a change is done, fits, or is a conflict`(_ one: Case) throws {
        let images = ThreeWay(base: try image(one.base), theirs: try image(one.theirs))
        let change = try RecordChange(one.operation, json: one.change)
        #expect(images.judge(change, mayAdd: one.mayAdd) == one.verdict)
    }

    struct Chain: CustomTestStringConvertible, Sendable {
        let changes: [(operation: TidemarkCore.Operation, json: String?)]
        let whole: (operation: TidemarkCore.Operation, json: String?)
        var testDescription: String { changes.map(\.operation.rawValue).joined(separator: ", ") }
    }

    static let chains = [
        Chain(changes: [(.update, rename), (.delete, nil)], whole: (.delete, nil)),
        Chain(changes: [(.delete, nil), (.create, anna)], whole: (.update, anna)),
        Chain(changes: [(.create, anna), (.update, rename)], whole: (.create, ben)),
        Chain(
            changes: [(.update, rename), (.update, #"{"goals":9}"#)],
            whole: (.update, #"{"name":"Ben","goals":9}"#)),
        Chain(
            changes: [(.update, addition), (.update, addition)],
            whole: (.update, #"{"goals":{"$add":4}}"#)),
    ]

    @Test(arguments: chains) func `changes of one author are one change`(_ chain: Chain) throws {
        let changes = try chain.changes.map { try RecordChange($0.operation, json: $0.json) }
        var whole = changes[0]
        for later in changes.dropFirst() { whole.append(later) }
        #expect(whole == (try RecordChange(chain.whole.operation, json: chain.whole.json)))
    }

    struct Row: CustomTestStringConvertible, Sendable {
        let own: String
        let changes: [String]
        let edits: Set<String>
        var testDescription: String { "\(own) after \(changes)" }
    }

    /// The rows of a record whose confirmed version is Anna's with seven goals.
    static let rows = [
        // The row has what the base and the pending changes say.
        Row(own: #"{"name":"Ben","goals":7}"#, changes: [rename], edits: []),
        Row(own: #"{"name":"Anna","goals":7}"#, changes: [rename], edits: []),
        // Neither the base nor a change has the value.
        Row(own: #"{"name":"Carl","goals":7}"#, changes: [rename], edits: ["name"]),
        Row(own: #"{"name":"Ben","goals":null}"#, changes: [rename], edits: ["goals"]),
        // Additions: all, the first, the second alone, none, and one that nobody made.
        Row(own: #"{"name":"Anna","goals":12}"#, changes: [addition, #"{"goals":{"$add":3}}"#], edits: []),
        Row(own: #"{"name":"Anna","goals":9}"#, changes: [addition, #"{"goals":{"$add":3}}"#], edits: []),
        Row(own: #"{"name":"Anna","goals":10}"#, changes: [addition, #"{"goals":{"$add":3}}"#], edits: []),
        Row(own: #"{"name":"Anna","goals":11}"#, changes: [addition, #"{"goals":{"$add":3}}"#], edits: ["goals"]),
        // A value between them, with and without what came before.
        Row(
            own: #"{"name":"Anna","goals":23}"#, changes: [addition, #"{"goals":20}"#, #"{"goals":{"$add":3}}"#],
            edits: []),
        Row(
            own: #"{"name":"Anna","goals":12}"#, changes: [addition, #"{"goals":20}"#, #"{"goals":{"$add":3}}"#],
            edits: []),
        Row(
            own: #"{"name":"Anna","goals":25}"#, changes: [addition, #"{"goals":20}"#, #"{"goals":{"$add":3}}"#],
            edits: ["goals"]),
    ]

    @Test(arguments: rows) func `a value that no pending change explains is an edit`(_ row: Row) throws {
        let found = try RecordImage(json: row.own).columnsNotExplained(
            by: RecordImage(json: Self.anna), row.changes.map { try RecordChange(.update, json: $0) })
        #expect(found == row.edits)
    }

    @Test func `a thousand equal additions are searched, and the search of forty different ones ends`() throws {
        let base = try RecordImage(json: #"{"goals":0}"#)
        let changes = try (0..<1_000).map { _ in try RecordChange(.update, json: #"{"goals":{"$add":1}}"#) }
        #expect(try RecordImage(json: #"{"goals":500}"#).columnsNotExplained(by: base, changes).isEmpty)
        #expect(try RecordImage(json: #"{"goals":1001}"#).columnsNotExplained(by: base, changes) == ["goals"])
        // Of powers of two, every part has a sum of its own: the search ends, and the common cases are known.
        let powers = try (0..<40).map { try RecordChange(.update, json: #"{"goals":{"$add":\#(1 << $0)}}"#) }
        let all = (1 << 40) - 1
        for known in [all, all - 64, 127] {
            #expect(try RecordImage(json: #"{"goals":\#(known)}"#).columnsNotExplained(by: base, powers).isEmpty)
        }
    }

    private func image(_ json: String?) throws -> RecordImage? { try json.map { try RecordImage(json: $0) } }
}
