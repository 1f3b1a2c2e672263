import Testing
import TidemarkCore

/// Rule 1: no edit overwrites unseen changes, as a table of cases.
@Suite struct JudgementTests {
    /// The changes on the server since the base, in the order of the table's rows.
    private static let histories: [String: (unseen: [UnseenChange], exists: Bool)] = [
        "updated a": ([.update("a")], true), "updated b": ([.update("b")], true),
        "updated a, b": ([.update("a"), .update("b")], true), "updated nothing": ([.update()], true),
        "deleted": ([.delete], false), "updated a, deleted": ([.update("a"), .delete], false),
        "deleted, created": ([.delete, .create], true), "created": ([.create], true),
        "created, deleted": ([.create, .delete], false),
    ]

    struct Case: CustomTestStringConvertible, Sendable {
        let mine: Operation
        let history: String
        let reject: Judgement
        let columns: Judgement

        init(_ mine: Operation, _ history: String, _ reject: Judgement, columns: Judgement? = nil) {
            self.mine = mine
            self.history = history
            self.reject = reject
            self.columns = columns ?? reject
        }

        var testDescription: String { "\(mine.rawValue) against \(history)" }
    }

    /// My update sets column `a`, to another value than the server has.
    static let cases = [
        Case(.update, "updated a", .changed(["a"])), Case(.update, "updated b", .changed([]), columns: .merge),
        Case(.update, "updated a, b", .changed(["a"])), Case(.update, "updated nothing", .changed([]), columns: .merge),
        Case(.update, "deleted", .deleted), Case(.update, "updated a, deleted", .deleted),
        Case(.update, "deleted, created", .changed([])), Case(.update, "created", .changed([])),
        Case(.update, "created, deleted", .deleted), Case(.delete, "updated a", .changed([])),
        Case(.delete, "updated b", .changed([])), Case(.delete, "updated a, b", .changed([])),
        Case(.delete, "updated nothing", .changed([])), Case(.delete, "deleted", .merge),
        Case(.delete, "updated a, deleted", .merge), Case(.delete, "deleted, created", .changed([])),
        Case(.delete, "created", .changed([])), Case(.delete, "created, deleted", .merge),
        Case(.create, "updated a", .exists), Case(.create, "updated b", .exists),
        Case(.create, "updated a, b", .exists), Case(.create, "updated nothing", .exists),
        Case(.create, "deleted", .merge), Case(.create, "updated a, deleted", .merge),
        Case(.create, "deleted, created", .exists), Case(.create, "created", .exists),
        Case(.create, "created, deleted", .merge),
    ]

    @Test func `the table of verdicts covers each operation against each history`() {
        let descriptions = Set(Self.cases.map(\.testDescription))
        #expect(descriptions.count == Self.cases.count)
        #expect(Self.cases.count == 3 * Self.histories.count)
    }

    @Test(arguments: cases) func `an unseen change of another device is never overwritten`(_ row: Case) throws {
        let contention = try contention(row.mine, row.history, differing: ["a"])
        #expect(judge(contention, policy: .reject) == row.reject)
        #expect(judge(contention, policy: .columns) == row.columns)
    }

    @Test(arguments: ConflictPolicy.allCases)
    func `equal values from both devices are accepted, except under reject`(policy: ConflictPolicy) throws {
        let same = try contention(.update, "updated a", differing: [])
        #expect(judge(same, policy: policy) == (policy == .reject ? .changed([]) : .merge))
    }

    @Test func `a conflict names exactly the columns that both changed`() throws {
        let both = try contention(.update, "updated a, b", differing: ["b", "c"])
        #expect(judge(both, policy: .columns) == .changed(["b"]))
        #expect(judge(both, policy: .reject) == .changed(["b"]))
    }

    @Test func `an update of a record deleted and created again is a conflict`() throws {
        let renewed = try contention(.update, "deleted, created", differing: ["c"])
        #expect(judge(renewed, policy: .columns) == .changed([]))
    }

    @Test func `the default policy is reject`() { #expect(SyncSchema(tables: []).policy(of: "any") == .reject) }

    private func contention(_ mine: Operation, _ history: String, differing: Set<String>) throws -> Contention {
        let theirs = try #require(Self.histories[history])
        return Contention(
            table: "cities", key: "7", operation: mine, differingColumns: mine == .update ? differing : [],
            unseen: theirs.unseen, exists: theirs.exists)
    }
}

extension UnseenChange {
    fileprivate static let create = UnseenChange(operation: .create, columns: [])
    fileprivate static let delete = UnseenChange(operation: .delete, columns: [])

    fileprivate static func update(_ columns: String...) -> UnseenChange {
        UnseenChange(operation: .update, columns: Set(columns))
    }
}

extension Judgement {
    fileprivate static let deleted = Judgement.conflict(rule: .deleted, columns: [])
    fileprivate static let exists = Judgement.conflict(rule: .exists, columns: [])

    fileprivate static func changed(_ columns: Set<String>) -> Judgement { .conflict(rule: .changed, columns: columns) }
}
