import Testing
import TidemarkCore

/// `lastWriter` and `latest` as a table of cases: the prevailing and the overruled values.
@Suite struct PolicyJudgementTests {
    private static func update(_ time: Int64, _ columns: String...) -> UnseenChange {
        UnseenChange(operation: .update, columns: Set(columns), stamp: Stamp(time: time, device: "theirs"))
    }

    private static func contention(
        _ operation: Operation, at time: Int64 = 5, differing: Set<String> = ["a", "b"], _ unseen: [UnseenChange],
        exists: Bool = true, isCascade: Bool = false, isNumbered: Bool = false
    ) -> Contention {
        Contention(
            table: "notes", key: "1", operation: operation, differingColumns: operation == .delete ? [] : differing,
            unseen: unseen, exists: exists, stamp: Stamp(time: time, device: "mine"), isCascade: isCascade,
            isNumbered: isNumbered)
    }

    @Test func `lastWriter: the later arrival prevails, whatever the clocks say`() {
        for time in [0, 4, 9] as [Int64] {
            let met = Self.contention(.update, at: time, [Self.update(6, "b", "c")])
            #expect(judge(met, policy: .lastWriter) == .overrule(mine: [], theirs: ["b"]))
        }
    }

    @Test func `latest: in each column the later clock prevails`() {
        let met = Self.contention(.update, [Self.update(4, "a"), Self.update(6, "b")])
        #expect(judge(met, policy: .latest) == .overrule(mine: ["b"], theirs: ["a"]))
    }

    @Test func `latest: the change that set the column's value counts, not an older one`() {
        let replaced = Self.contention(.update, [Self.update(9, "a"), Self.update(4, "a")])
        #expect(judge(replaced, policy: .latest) == .overrule(mine: [], theirs: ["a"]))
    }

    @Test func `latest: at equal times the higher device id prevails on all devices`() {
        let tie = Self.contention(.update, [Self.update(5, "a")])
        #expect(judge(tie, policy: .latest) == .overrule(mine: ["a"], theirs: []))
    }

    @Test(arguments: [ConflictPolicy.lastWriter, .latest])
    func `edits of different columns, and equal values, merge and overrule nothing`(policy: ConflictPolicy) {
        #expect(judge(Self.contention(.update, [Self.update(9, "c")]), policy: policy) == .merge)
        let same = Self.contention(.update, differing: [], [Self.update(9, "a")])
        #expect(judge(same, policy: policy) == .merge)
    }

    @Test(arguments: [ConflictPolicy.lastWriter, .latest])
    func `an update of a record that was deleted, or created again, is a conflict`(policy: ConflictPolicy) {
        let deleted = UnseenChange(operation: .delete, columns: [])
        let created = UnseenChange(operation: .create, columns: [])
        let contention = Self.contention(.update, [deleted], exists: false)
        #expect(judge(contention, policy: policy) == .conflict(rule: .deleted, columns: []))
        let renewed = Self.contention(.update, [deleted, created])
        #expect(judge(renewed, policy: policy) == .conflict(rule: .changed, columns: []))
        let deletion = Self.contention(.delete, [deleted, created])
        #expect(judge(deletion, policy: policy) == .conflict(rule: .changed, columns: []))
    }

    @Test func `lastWriter: a later deletion removes the edited record and lists the lost values`() {
        let met = Self.contention(.delete, [Self.update(9, "a"), Self.update(9, "c")])
        #expect(judge(met, policy: .lastWriter) == .overrule(mine: [], theirs: ["a", "c"]))
    }

    @Test func `latest: a deletion prevails over older edits only`() {
        let older = Self.contention(.delete, [Self.update(4, "a")])
        #expect(judge(older, policy: .latest) == .overrule(mine: [], theirs: ["a"]))
        let newer = Self.contention(.delete, [Self.update(4, "a"), Self.update(6, "c")])
        #expect(judge(newer, policy: .latest) == .conflict(rule: .changed, columns: []))
    }

    @Test func `two creations of one key are judged like two updates of all its columns`() {
        let created = UnseenChange(operation: .create, columns: [], stamp: Stamp(time: 6, device: "theirs"))
        let met = Self.contention(.create, [created])
        #expect(judge(met, policy: .lastWriter) == .overrule(mine: [], theirs: ["a", "b"]))
        #expect(judge(met, policy: .latest) == .overrule(mine: ["a", "b"], theirs: []))
        let equal = Self.contention(.create, differing: [], [created])
        #expect(judge(equal, policy: .latest) == .overrule(mine: [], theirs: []))
        let old = Self.contention(.create, [Self.update(6, "a")])
        #expect(judge(old, policy: .latest) == .conflict(rule: .exists, columns: []))
    }

    @Test(arguments: ConflictPolicy.allCases)
    func `two new records under one number are two records, whatever the policy`(policy: ConflictPolicy) {
        let refusal = Judgement.conflict(rule: .exists, columns: [])
        for time in [4, 6] as [Int64] {
            let created = UnseenChange(
                operation: .create, columns: [], stamp: Stamp(time: time, device: time == 4 ? nil : "theirs"))
            for differing in [[], ["a", "b"]] as [Set<String>] {
                let met = Self.contention(.create, differing: differing, [created], isNumbered: true)
                #expect(judge(met, policy: policy) == refusal)
                #expect(judge(met, policy: policy, columns: ["a": .lastWriter, "b": .latest]) == refusal)
            }
        }
        // Later edits are versions of one record.
        let edited = Self.contention(.update, [Self.update(4, "a")], isNumbered: true)
        #expect(judge(edited, policy: .lastWriter) == .overrule(mine: [], theirs: ["a"]))
    }

    @Test(arguments: [ConflictPolicy.lastWriter, .latest])
    func `a deletion by cascade only never removes another device's record`(policy: ConflictPolicy) {
        let deletion = Self.contention(.delete, [Self.update(1, "a")], isCascade: true)
        #expect(judge(deletion, policy: policy) == .conflict(rule: .changed, columns: []))
        let emptied = Self.contention(.update, differing: ["a"], [Self.update(1, "a")], isCascade: true)
        #expect(judge(emptied, policy: policy) == .conflict(rule: .changed, columns: ["a"]))
    }

    @Test func `a column's own policy applies to that column, the table's to the others`() {
        let met = Self.contention(.update, [Self.update(9, "a"), Self.update(9, "b")])
        #expect(judge(met, policy: .columns, columns: ["a": .lastWriter]) == .conflict(rule: .changed, columns: ["b"]))
        #expect(judge(met, policy: .lastWriter, columns: ["a": .latest]) == .overrule(mine: ["a"], theirs: ["b"]))
        #expect(judge(met, policy: .latest, columns: ["b": .reject]) == .conflict(rule: .changed, columns: ["b"]))
        let one = Self.contention(.update, [Self.update(9, "a")])
        #expect(judge(one, policy: .reject, columns: ["a": .lastWriter]) == .overrule(mine: [], theirs: ["a"]))
        #expect(
            judge(met, policy: .reject, columns: ["a": .lastWriter]) == .conflict(rule: .changed, columns: ["a", "b"]))
    }

    /// An update that only adds to `stock`, after unseen updates.
    private static func sum(_ unseen: [UnseenChange], differing: Set<String> = [], exists: Bool = true) -> Contention {
        Contention(
            table: "item", key: "1", operation: .update, differingColumns: differing, isSum: true, unseen: unseen,
            exists: exists)
    }

    @Test(arguments: ConflictPolicy.allCases.filter { $0 != .add })
    func `add: a sum meets no update, whatever the policy of the table`(policy: ConflictPolicy) {
        let columns = ["stock": ConflictPolicy.add]
        #expect(judge(Self.sum([Self.update(9, "name")]), policy: policy, columns: columns) == .merge)
        #expect(judge(Self.sum([Self.update(9, "stock")]), policy: policy, columns: columns) == .merge)
        // There is no integer any more.
        let lost = Self.sum([Self.update(9, "stock")], differing: ["stock"])
        let refusal = Judgement.conflict(rule: .changed, columns: ["stock"])
        #expect(judge(lost, policy: policy, columns: columns) == refusal)
        let renewed = [UnseenChange(operation: .delete, columns: []), UnseenChange(operation: .create, columns: [])]
        #expect(judge(Self.sum(renewed), policy: policy, columns: columns) == .conflict(rule: .changed, columns: []))
        let gone = Self.sum([UnseenChange(operation: .delete, columns: [])], exists: false)
        #expect(judge(gone, policy: policy, columns: columns) == .conflict(rule: .deleted, columns: []))
    }

    @Test(arguments: ConflictPolicy.allCases.filter { $0 != .add })
    func `add: a value meets every unseen change of its column, also one to the same value`(policy: ConflictPolicy) {
        let value = { (unseen: [UnseenChange]) in
            Contention(
                table: "item", key: "1", operation: .update, differingColumns: [], absoluteColumns: ["stock"],
                unseen: unseen, exists: true)
        }
        let columns = ["stock": ConflictPolicy.add, "name": .lastWriter]
        let refusal = Judgement.conflict(rule: .changed, columns: ["stock"])
        #expect(judge(value([Self.update(9, "stock")]), policy: policy, columns: columns) == refusal)
        #expect(judge(value([Self.update(9, "name")]), policy: policy, columns: columns) == .merge)
    }

    @Test func `add: an own sum replaces no unseen value, while another own value does`() {
        let theirs = Self.update(1, "stock", "name")
        let history = [(change: theirs, isSeen: false), (change: Self.update(2, "stock", "name"), isSeen: true)]
        let columns: Set<String> = ["stock", "name"]
        #expect(UnseenChange.selectUnseen(from: history, columns: columns).isEmpty)
        let unseen = UnseenChange.selectUnseen(from: history, columns: columns, adding: ["stock"])
        #expect(unseen.map(\.columns) == [["stock"]])
    }
}
