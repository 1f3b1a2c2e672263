import Testing
import TidemarkCore

/// The changes of a record that an author has missed, if some changes since the base are its own.
@Suite struct MissedChangeTests {
    private static func theirs(_ operation: Operation, _ columns: String...) -> (change: UnseenChange, isSeen: Bool) {
        (UnseenChange(operation: operation, columns: Set(columns)), false)
    }

    private static func own(_ operation: Operation, _ columns: String...) -> (change: UnseenChange, isSeen: Bool) {
        (UnseenChange(operation: operation, columns: Set(columns)), true)
    }

    /// The changes in words, of a table that has the columns a and b.
    private static func missedColumns(_ history: [(change: UnseenChange, isSeen: Bool)]) -> [String] {
        UnseenChange.selectUnseen(from: history, columns: ["a", "b"]).map {
            ([$0.operation.rawValue] + $0.columns.sorted()).joined(separator: " ")
        }
    }

    @Test func `without an own change, all changes after the base are missed`() {
        #expect(
            Self.missedColumns([Self.theirs(.update, "a"), Self.theirs(.delete), Self.theirs(.create)]) == [
                "update a", "delete", "create",
            ]
        )
        #expect(Self.missedColumns([Self.own(.update, "a"), Self.theirs(.update, "a")]) == ["update a"])
    }

    @Test func `columns replaced by an own change are not missed, others are`() {
        #expect(Self.missedColumns([Self.theirs(.update, "a"), Self.own(.update, "a")]) == [])
        #expect(Self.missedColumns([Self.theirs(.update, "a", "b"), Self.own(.update, "a")]) == ["update b"])
        #expect(Self.missedColumns([Self.theirs(.update, "a"), Self.own(.update, "b")]) == ["update a"])
    }

    @Test func `a creation merged with an own creation counts as values, a deletion stays`() {
        #expect(Self.missedColumns([Self.theirs(.create), Self.own(.update, "a")]) == ["update b"])
        #expect(Self.missedColumns([Self.theirs(.create), Self.own(.update, "a", "b")]) == [])
        #expect(
            Self.missedColumns([Self.theirs(.delete), Self.theirs(.create), Self.own(.update, "a")]) == [
                "delete", "update b",
            ]
        )
    }

    @Test(arguments: [Operation.create, .delete])
    func `changes before an own creation or deletion of the record are not missed`(operation: Operation) {
        let before = [Self.theirs(.update, "a"), Self.theirs(.delete), Self.own(operation)]
        #expect(Self.missedColumns(before) == [])
        #expect(Self.missedColumns(before + [Self.theirs(.create)]) == ["create"])
    }

    @Test func `a value of a dropped column is not missed`() {
        #expect(Self.missedColumns([Self.theirs(.update, "a", "gone")]) == ["update a"])
        #expect(Self.missedColumns([Self.theirs(.update, "gone")]) == ["update"])
    }
}
