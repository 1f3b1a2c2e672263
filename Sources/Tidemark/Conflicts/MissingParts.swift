import GRDB
import TidemarkCore
import TidemarkSQL

/// The refusals of a retry that would silently ignore values of a table or columns which this file no longer has.
struct MissingParts {
    let table: String
    let key: String
    let conflict: String

    func noTable(isOnly: Bool) -> TidemarkError {
        TidemarkError(
            .unknownTable, "This file no longer syncs the table \(table), so it cannot write \(table) \(key) again.",
            fix: isOnly ? "Keep the server's version: `\(resolve) --accept`." : others,
            place: .init(table: table, key: key))
    }

    /// Returns the error for a change of columns that this file's table no longer has; nil if it has all.
    func noColumns(of changes: RecordChanges, in synced: SyncedTable, isOnly: Bool) -> TidemarkError? {
        let present = Set(synced.valueColumns.map(\.name))
        let missing = changes.columns.subtracting(present).sorted()
        guard let first = missing.first else { return nil }
        let noun = missing.count == 1 ? "column" : "columns"
        return TidemarkError(
            .unknownColumn,
            "The table \(table) in this file no longer has the \(noun) \(missing.joined(separator: ", ")), in which "
                + "the conflict has a value.",
            fix: isOnly ? remedy(changes, present) : "\(other(changes, present))\(others)",
            place: .init(table: table, key: key, column: first))
    }

    private var resolve: String { "tidemark device resolve FILE \(conflict)" }

    private var others: String {
        "Write the other records again, and keep the server's version of this one: `\(resolve) --retry --except "
            + "\(table)/\(key)`. Or keep it for all: `\(resolve) --accept`."
    }

    /// What to do about the only record of a change set.
    private func remedy(_ changes: RecordChanges, _ present: Set<String>) -> String {
        let accept = "eep the server's version: `\(resolve) --accept`."
        let values = changes.values.filter { present.contains($0.key) }.sorted { $0.key < $1.key }
        guard !values.isEmpty else { return "K\(accept)" }
        let options = values.map { name, value in
            let json = CanonicalJSON.text(of: value)
            return "--set '\(name)=\(json.utf8.count > 60 ? "JSON" : json)'"
        }
        return "Write the other columns again: `\(resolve) --merge \(options.joined(separator: " "))`. Or k\(accept)"
    }

    /// What to do about the columns that this file has, in a change set of several records.
    private func other(_ changes: RecordChanges, _ present: Set<String>) -> String {
        guard !changes.columns.isDisjoint(with: present) else { return "" }
        return "Write the columns that this file has, with values for this record: `\(resolve) --merge --values FILE`. "
    }
}
