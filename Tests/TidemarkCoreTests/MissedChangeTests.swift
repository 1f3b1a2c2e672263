import Testing
import TidemarkCore

/// What an author has missed of a record whose changes since the base are partly their own.
@Suite struct MissedChangeTests {
    private static func theirs(_ operation: Operation, _ columns: String...) -> (change: UnseenChange, isSeen: Bool) {
        (UnseenChange(operation: operation, columns: Set(columns)), false)
    }

    private static func own(_ operation: Operation, _ columns: String...) -> (change: UnseenChange, isSeen: Bool) {
        (UnseenChange(operation: operation, columns: Set(columns)), true)
    }

    /// The changes in words, of a table that has the columns a and b.
    private static func missed(_ history: [(change: UnseenChange, isSeen: Bool)]) -> [String] {
        UnseenChange.missed(of: history, columns: ["a", "b"]).map {
            ([$0.operation.rawValue] + $0.columns.sorted()).joined(separator: " ")
        }
    }

    @Test func `without a change of one's own all is missed, and what came after it`() {
        #expect(
            Self.missed([Self.theirs(.update, "a"), Self.theirs(.delete), Self.theirs(.create)]) == [
                "update a", "delete", "create",
            ]
        )
        #expect(Self.missed([Self.own(.update, "a"), Self.theirs(.update, "a")]) == ["update a"])
    }

    @Test func `what one's own change replaced is not missed, other columns are`() {
        #expect(Self.missed([Self.theirs(.update, "a"), Self.own(.update, "a")]) == [])
        #expect(Self.missed([Self.theirs(.update, "a", "b"), Self.own(.update, "a")]) == ["update b"])
        #expect(Self.missed([Self.theirs(.update, "a"), Self.own(.update, "b")]) == ["update a"])
    }

    @Test func `a creation that one's own was joined with is values, and a deletion stays`() {
        #expect(Self.missed([Self.theirs(.create), Self.own(.update, "a")]) == ["update b"])
        #expect(Self.missed([Self.theirs(.create), Self.own(.update, "a", "b")]) == [])
        #expect(
            Self.missed([Self.theirs(.delete), Self.theirs(.create), Self.own(.update, "a")]) == ["delete", "update b"]
        )
    }

    @Test(arguments: [Operation.create, .delete])
    func `nothing is missed of what was before one made or deleted the record oneself`(operation: Operation) {
        let before = [Self.theirs(.update, "a"), Self.theirs(.delete), Self.own(operation)]
        #expect(Self.missed(before) == [])
        #expect(Self.missed(before + [Self.theirs(.create)]) == ["create"])
    }

    @Test func `nobody misses the value of a column that is gone`() {
        #expect(Self.missed([Self.theirs(.update, "a", "gone")]) == ["update a"])
        #expect(Self.missed([Self.theirs(.update, "gone")]) == ["update"])
    }
}
