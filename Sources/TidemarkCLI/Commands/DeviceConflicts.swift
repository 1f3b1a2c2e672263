import ArgumentParser
import Foundation
import Tidemark
import TidemarkCore
import TidemarkTerminal

extension Device {
    /// `tidemark device conflicts`.
    struct Conflicts: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "List refused change sets and overruled values: the base, your values, and the server's.",
            discussion: """
                The records that the reasons name come first. Of a change set with more than 10 records, only the \
                first few others are shown without --all; --json has everything.
                """
        )
        @Argument(help: "The device's file.") var file: String
        @Flag(help: "Print JSON.") var json = false
        @Flag(help: "Show every record of every change set.") var all = false

        func run() async throws {
            try await Terminal.run {
                let conflicts = try await OpenDevice.conflicts(file)
                if json { return try Terminal.json(object: conflicts.map(Self.object)) }
                if conflicts.isEmpty { Terminal.line("no conflicts") }
                if let line = ConflictSummary.line(of: conflicts) { Terminal.line(line) }
                for conflict in conflicts { try show(conflict) }
            }
        }

        /// Renders a conflict as JSON; keys and images become JSON values, not text.
        private static func object(_ conflict: Conflict) throws -> [String: Any] {
            [
                "number": conflict.number, "kind": conflict.kind.rawValue, "id": conflict.id, "parked": conflict.parked,
                "after": conflict.after,
                "reasons": try conflict.reasons.map { reason in
                    [
                        "table": reason.table, "key": try value(reason.key), "columns": reason.columns,
                        "rule": reason.rule, "message": reason.message,
                    ]
                },
                "records": try conflict.records.map { record in
                    [
                        "table": record.table, "key": try value(record.key), "operation": record.operation,
                        "base": try value(record.base), "mine": try value(record.mine),
                        "theirs": try value(record.theirs),
                    ]
                },
                "referrers": try conflict.referrers.map { referrers in
                    [
                        "table": referrers.table, "columns": referrers.columns,
                        "keys": try referrers.keys.map { try value($0) }, "parent": referrers.parent,
                        "parentKey": try value(referrers.parentKey),
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
                Terminal.line("  \(record.operation) \(record.table) \(record.key)")
                try showColumns(of: record)
            }
            if let rest = summary.rest { Terminal.line("  \(rest)") }
            Terminal.line("  to keep the server's: tidemark device resolve \(file) \(conflict.number) --accept")
            let again = "tidemark device resolve \(file) \(conflict.number) --retry"
            guard summary.hasDeleted else { return Terminal.line("  to write yours again: \(again)") }
            Terminal.line("  to write yours again, except deleted records: \(again) --no-revive")
            Terminal.line("  to create deleted records again as well: \(again) --revive")
        }

        /// Prints values that a policy overruled; the user need not decide anything.
        private func showOverruled(_ conflict: Conflict) throws {
            Terminal.line("overruled \(conflict.number)  \(conflict.id)  kept \(conflict.parked)")
            let summary = ConflictSummary(conflict, all: all)
            for record in summary.visibleRecords {
                Terminal.line("  \(record.table) \(record.key)")
                let mine = try Self.columns(record.mine)
                let theirs = try Self.columns(record.theirs)
                let rows = (mine ?? [:]).keys.sorted().map { name in
                    ["    \(name)", mine?[name] ?? "", theirs.map { $0[name] ?? "" } ?? "(no record)"]
                }
                Terminal.table([["    column", "kept here", "stands"]] + rows)
            }
            if let rest = summary.rest { Terminal.line("  \(rest)") }
            Terminal.line("  to write it again: tidemark device resolve \(file) \(conflict.number) --retry")
            Terminal.line("  to dismiss it: tidemark device resolve \(file) \(conflict.number) --accept")
        }

        /// Prints the columns that `mine` sets, or all columns of a created or deleted record.
        private func showColumns(of record: Conflict.Record) throws {
            let images = try [record.base, record.mine, record.theirs].map { try Self.columns($0) }
            var names = Set((images[1] ?? images[0] ?? [:]).keys)
            if record.mine == nil { names.formUnion((images[2] ?? [:]).keys) }
            let header = ["    column", "base", "mine", "theirs"]
            let rows = names.sorted().map { name in
                ["    \(name)"] + images.map { $0.map { $0[name] ?? "(same)" } ?? "(no record)" }
            }
            Terminal.table([header] + rows)
        }

        /// Names the values of an image by their columns.
        private static func byColumn(_ image: [String: Any]) -> [String: Any] {
            Dictionary(image.map { (WireName.name(of: $0.key), $0.value) }) { first, _ in first }
        }

        /// Parses a record's columns; each value is JSON, or says how much a delta adds.
        private static func columns(_ image: String?) throws -> [String: String]? {
            guard let image else { return nil }
            let object = try JSONSerialization.jsonObject(with: Data(image.utf8)) as? [String: Any] ?? [:]
            return try byColumn(object).mapValues { value in
                if let delta = (value as? [String: Any])?["$add"] as? NSNumber { return "adds \(delta)" }
                let data = try JSONSerialization.data(
                    withJSONObject: value,
                    options: [.fragmentsAllowed, .withoutEscapingSlashes, .sortedKeys]
                )
                return String(decoding: data, as: UTF8.self)
            }
        }
    }
}
