import Testing
import TidemarkCore

/// `lastWriter` and `latest` as a table of values: who prevails, and what is kept.
@Suite struct PolicyJudgementTests {
    private static func update(_ time: Int64, _ columns: String...) -> UnseenChange {
        UnseenChange(operation: .update, columns: Set(columns), stamp: Stamp(time: time, device: "theirs"))
    }

    private static func contention(
        _ operation: Operation,
        at time: Int64 = 5,
        differing: Set<String> = ["a", "b"],
        _ unseen: [UnseenChange],
        exists: Bool = true,
        isCascade: Bool = false
    ) -> Contention {
        Contention(
            table: "notes",
            key: "1",
            operation: operation,
            differingColumns: operation == .delete ? [] : differing,
            unseen: unseen,
            exists: exists,
            stamp: Stamp(time: time, device: "mine"),
            isCascade: isCascade
        )
    }

    @Test func `lastWriter: what arrives later stands, whatever the clocks say`() {
        for time in [0, 4, 9] as [Int64] {
            let met = Self.contention(.update, at: time, [Self.update(6, "b", "c")])
            #expect(judge(met, policy: .lastWriter) == .overrule(mine: [], theirs: ["b"]))
        }
    }

    @Test func `latest: each column goes to the later clock`() {
        let met = Self.contention(.update, [Self.update(4, "a"), Self.update(6, "b")])
        #expect(judge(met, policy: .latest) == .overrule(mine: ["b"], theirs: ["a"]))
    }

    @Test func `latest: the change that holds the column counts, not an older one`() {
        let replaced = Self.contention(.update, [Self.update(9, "a"), Self.update(4, "a")])
        #expect(judge(replaced, policy: .latest) == .overrule(mine: [], theirs: ["a"]))
    }

    @Test func `latest: at the same time the device with the higher id prevails, on every side`() {
        let tie = Self.contention(.update, [Self.update(5, "a")])
        #expect(judge(tie, policy: .latest) == .overrule(mine: ["a"], theirs: []))
    }

    @Test(arguments: [ConflictPolicy.lastWriter, .latest])
    func `columns that do not meet, and equal values, are merged and nothing is overruled`(policy: ConflictPolicy) {
        #expect(judge(Self.contention(.update, [Self.update(9, "c")]), policy: policy) == .merge)
        let same = Self.contention(.update, differing: [], [Self.update(9, "a")])
        #expect(judge(same, policy: policy) == .merge)
    }

    @Test(arguments: [ConflictPolicy.lastWriter, .latest])
    func `an update of a record that is gone, or is another one now, is a conflict as ever`(policy: ConflictPolicy) {
        let deleted = UnseenChange(operation: .delete, columns: [])
        let created = UnseenChange(operation: .create, columns: [])
        let gone = Self.contention(.update, [deleted], exists: false)
        #expect(judge(gone, policy: policy) == .conflict(rule: .deleted, columns: []))
        let renewed = Self.contention(.update, [deleted, created])
        #expect(judge(renewed, policy: policy) == .conflict(rule: .changed, columns: []))
        let deletion = Self.contention(.delete, [deleted, created])
        #expect(judge(deletion, policy: policy) == .conflict(rule: .changed, columns: []))
    }

    @Test func `lastWriter: a later deletion takes the edited record, and names what is lost`() {
        let met = Self.contention(.delete, [Self.update(9, "a"), Self.update(9, "c")])
        #expect(judge(met, policy: .lastWriter) == .overrule(mine: [], theirs: ["a", "c"]))
    }

    @Test func `latest: a deletion prevails over older edits only`() {
        let older = Self.contention(.delete, [Self.update(4, "a")])
        #expect(judge(older, policy: .latest) == .overrule(mine: [], theirs: ["a"]))
        let newer = Self.contention(.delete, [Self.update(4, "a"), Self.update(6, "c")])
        #expect(judge(newer, policy: .latest) == .conflict(rule: .changed, columns: []))
    }

    @Test func `two creations of one key are decided like two updates of all its columns`() {
        let created = UnseenChange(operation: .create, columns: [], stamp: Stamp(time: 6, device: "theirs"))
        let met = Self.contention(.create, [created])
        #expect(judge(met, policy: .lastWriter) == .overrule(mine: [], theirs: ["a", "b"]))
        #expect(judge(met, policy: .latest) == .overrule(mine: ["a", "b"], theirs: []))
        let equal = Self.contention(.create, differing: [], [created])
        #expect(judge(equal, policy: .latest) == .overrule(mine: [], theirs: []))
        let old = Self.contention(.create, [Self.update(6, "a")])
        #expect(judge(old, policy: .latest) == .conflict(rule: .exists, columns: []))
    }

    @Test(arguments: [ConflictPolicy.lastWriter, .latest])
    func `what only a cascade would take is never taken from somebody else`(policy: ConflictPolicy) {
        let deletion = Self.contention(.delete, [Self.update(1, "a")], isCascade: true)
        #expect(judge(deletion, policy: policy) == .conflict(rule: .changed, columns: []))
        let emptied = Self.contention(.update, differing: ["a"], [Self.update(1, "a")], isCascade: true)
        #expect(judge(emptied, policy: policy) == .conflict(rule: .changed, columns: ["a"]))
    }

    @Test func `a column's own policy decides that column, the table's the others`() {
        let met = Self.contention(.update, [Self.update(9, "a"), Self.update(9, "b")])
        #expect(judge(met, policy: .columns, columns: ["a": .lastWriter]) == .conflict(rule: .changed, columns: ["b"]))
        #expect(judge(met, policy: .lastWriter, columns: ["a": .latest]) == .overrule(mine: ["a"], theirs: ["b"]))
        #expect(judge(met, policy: .latest, columns: ["b": .reject]) == .conflict(rule: .changed, columns: ["b"]))
        let one = Self.contention(.update, [Self.update(9, "a")])
        #expect(judge(one, policy: .reject, columns: ["a": .lastWriter]) == .overrule(mine: [], theirs: ["a"]))
        #expect(
            judge(met, policy: .reject, columns: ["a": .lastWriter]) == .conflict(rule: .changed, columns: ["a", "b"])
        )
    }
}
