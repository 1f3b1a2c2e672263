/// The values that somebody wrote, that do not stand by the policy of their column, and that their
/// authors had no say in: each has to be kept in its author's file.
///
/// A value that another program wrote at the server is kept by the device that replaced it.
struct Ledger: Sendable {
    /// A value that has to be kept.
    struct Entry: Hashable, Sendable {
        let record: RecordID
        let column: String
        let value: String
    }

    /// What each device has to keep still, by its UUID, with the revision that overruled it.
    private(set) var due: [String: [Entry: Int64]] = [:]

    /// Notes what a change has overruled, or set in vain.
    mutating func owe(for ruling: Ruling, on change: RecordChange, _ row: Cells?, _ commit: Commit) {
        guard let author = commit.identity else { return }
        for column in ruling.inVain {
            guard let value = change.cells[column] else { continue }
            owe(author, Entry(record: change.record, column: column, value: value), commit)
        }
        for (column, holder) in ruling.replaced {
            guard let value = row?[column] else { continue }
            owe(holder ?? author, Entry(record: change.record, column: column, value: value), commit)
        }
    }

    private mutating func owe(_ identity: String, _ entry: Entry, _ commit: Commit) {
        due[identity, default: [:]][entry] = commit.revision
    }

    /// Notes that a device has a value among its conflicts.
    ///
    /// - Returns: Whether it had to be there.
    mutating func keep(_ entry: Entry, by identity: String) -> Bool { due[identity]?.removeValue(forKey: entry) != nil }

    /// Nothing is due any more: the history has become another.
    mutating func forget() { due = [:] }
}
