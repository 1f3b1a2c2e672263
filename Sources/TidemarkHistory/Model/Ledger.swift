/// The values that lost by the policy of their column against a change that their authors did not
/// make.
///
/// Each must be kept in its author's file.
///
/// If another program wrote the value at the server, the replacing device keeps it.
struct Ledger: Sendable {
    /// A value that has to be kept.
    struct Entry: Hashable, Sendable {
        let record: RecordID
        let column: String
        let value: String
    }

    /// The values that each device has to keep still, by its UUID, with the revision that overruled
    /// them.
    private(set) var due: [String: [Entry: Int64]] = [:]

    /// Adds the values that a change has overruled, or set in vain.
    mutating func owe(for ruling: Ruling, on change: RecordChange, _ row: Cells?, _ commit: Commit) {
        guard let author = commit.identity else { return }
        for column in ruling.inVain {
            guard let value = change.cells[column] else { continue }
            owe(author, entry: Entry(record: change.record, column: column, value: value), commit: commit)
        }
        for (column, holder) in ruling.replaced {
            guard let value = row?[column] else { continue }
            owe(holder ?? author, entry: Entry(record: change.record, column: column, value: value), commit: commit)
        }
    }

    private mutating func owe(_ identity: String, entry: Entry, commit: Commit) {
        due[identity, default: [:]][entry] = commit.revision
    }

    /// Removes a value that a device keeps among its conflicts.
    ///
    /// - Returns: Whether it had to be there.
    mutating func keep(_ entry: Entry, by identity: String) -> Bool { due[identity]?.removeValue(forKey: entry) != nil }

    /// Clears all values because the history has become another.
    mutating func forget() { due = [:] }
}
