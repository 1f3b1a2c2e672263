import ArgumentParser
import Foundation
import Tidemark
import TidemarkCore
import TidemarkTerminal

extension Device {
    struct Conflicts: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "List refused change sets and overruled values: the base, your values, and the server's.",
            discussion: """
                The records that the reasons name come first. Of a change set with more than 10 records, only the \
                first few others are shown without --all; --json has everything.

                "theirs" is the server's record as this file has it now. If it has changed since the refusal, the \
                commands that are printed say by --seen what you have seen, and --json has that as "seen". A decision \
                is refused if the record changes again before it.
                """)
        @Argument(help: "The device's file.") var file: String
        @Flag(help: "Print JSON.") var json = false
        @Flag(help: "Show every record of every change set.") var all = false

        func run() async throws {
            try await Terminal.run {
                let conflicts = try await OpenDevice.conflicts(file)
                if json { try Terminal.json(object: conflicts.map(Self.object)) } else { try show(conflicts) }
                if let damaged = conflicts.first(where: \.isDamaged) { throw Self.damage(damaged) }
            }
        }

        private static func damage(_ conflict: Conflict) -> TidemarkError {
            TidemarkError(
                .fileDamaged,
                "The text of conflict \(conflict.number) is damaged in this file; what can be read of it is shown.",
                fix: """
                    Keep a copy of the file, then drop the conflict: `tidemark device resolve FILE \(conflict.number) \
                    --accept`. ERRORS.md says under fileDamaged what can be saved.
                    """)
        }

        private func show(_ conflicts: [Conflict]) throws {
            if conflicts.isEmpty { Terminal.line("no conflicts") }
            if let line = ConflictSummary.line(of: conflicts) { Terminal.line(line) }
            for conflict in conflicts { try show(conflict) }
        }

        /// Renders a conflict as JSON; keys and images become JSON values, not text.
        private static func object(_ conflict: Conflict) throws -> [String: Any] {
            [
                "number": conflict.number, "kind": conflict.kind.rawValue, "id": conflict.id, "parked": conflict.parked,
                "after": conflict.after, "seen": conflict.seen, "changed": conflict.hasChanged,
                "damaged": conflict.isDamaged,
                "reasons": try conflict.reasons.map { reason in
                    [
                        "table": reason.table, "key": try value(reason.key), "columns": reason.columns,
                        "rule": reason.rule, "message": reason.message,
                    ]
                },
                "records": try conflict.records.map { record in
                    var object: [String: Any] = [
                        "table": record.table, "key": try value(record.key), "operation": record.operation,
                        "base": try value(record.base), "mine": try value(record.mine),
                        "theirs": try value(record.theirs),
                    ]
                    if let here = record.here { object["here"] = try value(here) }
                    return object
                },
                "referrers": try conflict.referrers.map { referrers in
                    [
                        "table": referrers.table, "columns": referrers.columns,
                        "keys": try referrers.keys.map { try value($0) }, "parent": referrers.parent,
                        "parentKey": try value(referrers.parentKey),
                    ]
                },
                "takenAlong": try conflict.takenAlong.map { record in
                    [
                        "table": record.table, "key": try value(record.key), "columns": record.columns,
                        "parent": record.parent, "deleted": record.isDeleted,
                    ]
                },
            ]
        }

        private static func value(_ json: String?) throws -> Any {
            guard let json else { return NSNull() }
            let value = try JSONSerialization.jsonObject(with: Data(json.utf8), options: .fragmentsAllowed)
            return (value as? [String: Any]).map(byColumn) ?? value
        }

        private func show(_ conflict: Conflict) throws {
            guard conflict.kind == .refused else { return try showOverruled(conflict) }
            Terminal.line("conflict \(conflict.number)  \(conflict.id)  parked \(conflict.parked)")
            let summary = ConflictSummary(conflict, all: all)
            for reason in summary.reasons { Terminal.line("  why: \(reason)") }
            for referrers in summary.referrers { Terminal.line("  who refers: \(referrers)") }
            if !conflict.after.isEmpty { Terminal.line("  builds on: \(conflict.after.joined(separator: ", "))") }
            for record in summary.visibleRecords {
                // A record of another change set is only there to be compared with.
                let isOther = record.operation == "unchanged"
                let operation = isOther ? "for comparison, the server's" : record.operation
                Terminal.line("  \(operation) \(record.table) \(record.key)")
                try showColumns(of: record)
            }
            if let rest = summary.rest { Terminal.line("  \(rest)") }
            for line in summary.takenAlong { Terminal.line("  goes along: \(line)") }
            if conflict.hasChanged { Terminal.line("  changed again since it was refused; theirs is as of now") }
            if conflict.isDamaged { Terminal.line("  damaged: a part of it cannot be read in this file") }
            let resolve = "tidemark device resolve \(file) \(conflict.number)"
            Terminal.line("  to keep the server's: \(resolve) --accept")
            guard !conflict.isDamaged else { return }
            for choice in summary.choices {
                let seen = conflict.hasChanged ? " --seen \(conflict.seen)" : ""
                Terminal.line("  \(choice.words): \(resolve) --retry\(choice.options)\(seen)")
            }
        }

        /// Prints values that a policy overruled; the user need not decide anything.
        private func showOverruled(_ conflict: Conflict) throws {
            Terminal.line("overruled \(conflict.number)  \(conflict.id)  kept \(conflict.parked)")
            let summary = ConflictSummary(conflict, all: all)
            for record in summary.visibleRecords {
                Terminal.line("  \(record.table) \(record.key)")
                let mine = try Self.columns(record.mine)
                let theirs = try Self.columns(record.theirs)
                let images = try [theirs] + (record.here.map { [try Self.columns($0)] } ?? [])
                let rows = Self.ordered(Set((mine ?? [:]).keys), as: record).map { name in
                    ["    \(name)", mine?[name] ?? ""] + images.map { $0.map { $0[name] ?? "" } ?? "(no record)" }
                }
                let header = ["    column", "kept here", "stands"] + (record.here == nil ? [] : ["not sent yet"])
                Terminal.table([header] + rows)
            }
            if let rest = summary.rest { Terminal.line("  \(rest)") }
            let seen = conflict.hasChanged ? " --seen \(conflict.seen)" : ""
            if conflict.hasChanged { Terminal.line("  changed again since then") }
            Terminal.line("  to write it again: tidemark device resolve \(file) \(conflict.number) --retry\(seen)")
            Terminal.line("  to dismiss it: tidemark device resolve \(file) \(conflict.number) --accept")
        }

        /// Prints the columns that `mine` sets, or all columns of a created or deleted record.
        private func showColumns(of record: Conflict.Record) throws {
            let isOther = record.operation == "unchanged"
            var images = try [record.base, record.mine, record.theirs].map { try Self.columns($0) }
            var names = Set((images[1] ?? images[0] ?? [:]).keys)
            if record.mine == nil { names.formUnion((images[2] ?? [:]).keys) }
            var header = ["    column", "base", "mine", "theirs"]
            if let here = record.here {
                images.append(try Self.columns(here))
                header.append("here, not sent")
                if record.mine == nil { names.formUnion((images[3] ?? [:]).keys) }
            }
            guard !names.isEmpty else {
                return Terminal.line("    an earlier change set that this one builds on has its values")
            }
            if isOther {
                images = [images[2]]
                header = ["    column", "theirs"]
            }
            let unknown = record.isTableMissing ? names : Set(record.missingColumns)
            let rows = Self.ordered(names, as: record).map { name in
                let other = unknown.contains(name) ? "(not in this file)" : "(same)"
                return ["    \(name)"] + images.map { $0.map { $0[name] ?? other } ?? "(no record)" }
            }
            Terminal.table([header] + rows)
        }

        /// Sorts columns as their table has them; those that it does not have come last.
        private static func ordered(_ names: Set<String>, as record: Conflict.Record) -> [String] {
            record.columnNames.filter(names.contains) + names.subtracting(record.columnNames).sorted()
        }

        /// Names the values of an image by their columns.
        private static func byColumn(_ image: [String: Any]) -> [String: Any] {
            Dictionary(image.map { (WireName.name(of: $0.key), $0.value) }) { first, _ in first }
        }

        /// Parses a record's columns; each value is JSON, shortened, or says how much a delta adds.
        private static func columns(_ image: String?) throws -> [String: String]? {
            guard let image,
                case let json = try JSONSerialization.jsonObject(with: Data(image.utf8), options: .fragmentsAllowed),
                let object = json as? [String: Any]
            else { return nil }
            return try byColumn(object).mapValues { value in
                if let delta = (value as? [String: Any])?["$add"] as? NSNumber { return "adds \(delta)" }
                let data = try JSONSerialization.data(
                    withJSONObject: value, options: [.fragmentsAllowed, .withoutEscapingSlashes, .sortedKeys])
                return ShortValue.text(value, json: String(decoding: data, as: UTF8.self))
            }
        }
    }
}
