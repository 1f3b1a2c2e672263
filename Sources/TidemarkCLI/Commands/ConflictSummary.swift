import Tidemark
import TidemarkCore

/// Selects the visible part of a conflict, and summarizes the rest.
struct ConflictSummary {
    /// The most records of a conflict that is shown whole.
    private static let wholeMax = 10
    /// The most contested records of a larger conflict.
    private static let contestedMax = 20
    /// The most other records of a larger conflict.
    private static let othersMax = 3
    private static let reasonsMax = 20
    let conflict: Conflict
    /// Whether all records are visible.
    let isWhole: Bool
    /// The records that the reasons name.
    let contested: [Conflict.Record]
    let others: [Conflict.Record]

    /// Divides a conflict's records into those that the reasons name and the others.
    init(_ conflict: Conflict, all: Bool) {
        self.conflict = conflict
        isWhole = all || conflict.records.count <= Self.wholeMax
        let names = Set(conflict.reasons.map { Name(table: $0.table, key: $0.key ?? "") })
        let isNamed = { (record: Conflict.Record) in names.contains(Name(table: record.table, key: record.key)) }
        contested = conflict.records.filter(isNamed)
        others = conflict.records.filter { !isNamed($0) }
    }

    private struct Name: Hashable {
        let table: String
        let key: String
    }

    /// The visible records, contested ones first.
    var visibleRecords: [Conflict.Record] {
        if isWhole { return contested + others }
        return Array(contested.prefix(Self.contestedMax)) + others.prefix(Self.othersMax)
    }

    /// The line for the hidden records; nil if all are visible.
    var rest: String? {
        let count = conflict.records.count - visibleRecords.count
        guard count > 0 else { return nil }
        return "… and \(Counted.text(count, "more record")) (--all shows them)"
    }

    /// Whether another device deleted a record that the change set updates.
    var hasDeleted: Bool { conflict.records.contains { $0.operation == "update" && $0.theirs == nil } }

    // MARK: Reasons

    private struct Cause: Hashable {
        let message: String
        let table: String
        let columns: [String]
    }

    /// The reasons of the refusal: one line for all records of a table with the same cause.
    var reasons: [String] {
        var causes: [Cause] = []
        var keys: [Cause: [String]] = [:]
        for reason in conflict.reasons {
            let cause = Cause(message: reason.message, table: reason.table, columns: reason.columns)
            if keys[cause] == nil { causes.append(cause) }
            guard let key = reason.key, !keys[cause, default: []].contains(key) else {
                keys[cause] = keys[cause] ?? []
                continue
            }
            keys[cause, default: []].append(key)
        }
        let lines = causes.map { cause in
            let place = [cause.table, list(keys[cause] ?? []), cause.columns.joined(separator: ", ")].filter {
                !$0.isEmpty
            }
            return cause.message + (place.isEmpty ? "" : " [\(place.joined(separator: " "))]")
        }
        guard !isWhole, lines.count > Self.reasonsMax else { return lines }
        let more = Counted.text(lines.count - Self.reasonsMax, "more reason")
        return lines.prefix(Self.reasonsMax) + ["… and \(more) (--all shows them)"]
    }

    /// The records that refer to a record of a refused deletion: one line per table, reference and parent.
    var referrers: [String] {
        conflict.referrers.map {
            "\($0.table) \(list($0.keys)) by \($0.columns.joined(separator: ", ")), to \($0.parent) \($0.parentKey)"
        }
    }

    /// The records that a retry would delete or change because they refer to one that it deletes: a line per reference.
    var takenAlong: [String] {
        let groups = Dictionary(grouping: conflict.takenAlong) {
            "\($0.table) \($0.isDeleted ? "deleted" : "changed") \($0.columns)"
        }
        return groups.sorted { $0.key < $1.key }.compactMap { _, records in
            records.first.map { first in
                let columns = first.columns.joined(separator: ", ")
                return "\(first.table) \(list(records.map(\.key))) by \(columns), to \(first.parent)"
                    + (first.isDeleted ? ", would be deleted" : ", would lose the reference")
            }
        }
    }

    /// A way to make the change set again.
    struct Choice {
        let words: String
        var options = ""
    }

    /// The ways to make the change set again, with what each does.
    var choices: [Choice] {
        if !unwritable.isEmpty { return choicesWithout(unwritable) }
        if hasTakenNumber {
            return [
                Choice(words: "to write yours again under another number", options: " --as-new"),
                Choice(words: "to put yours in the place of theirs, which is lost", options: " --replace"),
            ]
        }
        if hasDeleted {
            return [
                Choice(words: "to write yours again, except deleted records", options: " --no-revive"),
                Choice(words: "to create deleted records again as well", options: " --revive"),
            ]
        }
        let existing = conflict.records.contains { $0.operation == "create" && $0.theirs != nil }
        return [Choice(words: existing ? "to write your columns over theirs" : "to write yours again")]
    }

    /// The records that a retry cannot write, because this file no longer has their table or some of their columns.
    private var unwritable: [Conflict.Record] {
        conflict.records.filter { record in
            record.operation != "unchanged"
                && (record.isTableMissing || record.operation != "delete" && !record.missingColumns.isEmpty)
        }
    }

    /// The ways to make a change set again if this file cannot write some of its records.
    private func choicesWithout(_ unwritable: [Conflict.Record]) -> [Choice] {
        let records = conflict.records.filter { $0.operation != "unchanged" }
        guard records.count == unwritable.count else {
            let options = unwritable.map { " --except '\($0.table)/\($0.key)'" }.joined()
            let revive = hasDeleted ? " --no-revive" : ""
            return [Choice(words: "to write yours again without what this file lacks", options: options + revive)]
        }
        return []
    }

    /// Whether the change set creates a record under a number that another record has.
    private var hasTakenNumber: Bool {
        conflict.records.contains { $0.operation == "create" && $0.theirs != nil && Int64($0.key) != nil }
    }

    private func list(_ keys: [String]) -> String {
        Counted.list(keys, most: isWhole && keys.count <= Self.wholeMax ? Self.wholeMax : 5)
    }

    // MARK: All conflicts

    /// Summarizes all conflicts in one line; nil for a single short conflict.
    static func line(of conflicts: [Conflict]) -> String? {
        let records = conflicts.reduce(0) { $0 + $1.records.count }
        guard conflicts.count > 1 || records > wholeMax else { return nil }
        let refused = conflicts.filter { $0.kind == .refused }
        let overruled = conflicts.filter { $0.kind == .overruled }
        var parts: [String] = []
        if !refused.isEmpty {
            parts.append("\(count(refused, "conflict")) (reasons: \(kinds(of: refused).joined(separator: ", ")))")
        }
        if !overruled.isEmpty { parts.append(count(overruled, "overruled change set")) }
        return parts.joined(separator: "; ")
    }

    private static func count(_ conflicts: [Conflict], _ noun: String) -> String {
        let records = conflicts.reduce(0) { sum, conflict in
            sum + conflict.records.count { $0.operation != "unchanged" }
        }
        return "\(Counted.text(conflicts.count, noun)) with \(Counted.text(records, "record"))"
    }

    /// Counts the reasons by rule, most frequent first.
    private static func kinds(of conflicts: [Conflict]) -> [String] {
        var counts: [String: Int] = [:]
        for conflict in conflicts { for rule in Set(conflict.reasons).map(\.rule) { counts[rule, default: 0] += 1 } }
        return counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { "\(Counted.number($0.value)) \($0.key)" }
    }
}
