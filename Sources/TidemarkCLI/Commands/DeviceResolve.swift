import ArgumentParser
import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkTerminal

extension Device {
    /// `tidemark device resolve`.
    struct Resolve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Decide what becomes of a conflict, or of values that were overruled.",
            discussion: """
                --accept keeps the server's rows and drops yours. --retry makes your changes again on top of the server's rows. \
                --merge does that with other values than yours: --set for a conflict with one record, or --values with an object of \
                tables, keys and columns, where null leaves a record as the server has it:

                  tidemark device resolve app.sqlite 3 --merge --set 'text="oat and goat milk"'
                  echo '{"note":{"1":{"text":"both"},"2":null}}' | tidemark device resolve app.sqlite 3 --merge --values -

                The outcome is a new change set, which the next sync sends. What was parked because it builds on this change set \
                is named, to be resolved next; with --dependents it gets the same decision, in its order.
                """
        )
        @Argument(help: "The device's file.") var file: String
        @Argument(help: "The conflict's number or id.") var id: String
        @Flag(help: "Keep the server's rows.") var accept = false
        @Flag(help: "Make my changes again.") var retry = false
        @Flag(help: "Make my changes again, with other values.") var merge = false
        @Option(
            help: ArgumentHelp(
                "A value for a column of the conflict's one record, as JSON; may be repeated.",
                valueName: "column=json"
            )
        ) var set: [String] = []
        @Option(
            help: ArgumentHelp("A JSON file of values; - for standard input.", valueName: "file")
        ) var values: String?
        @Flag(help: "Decide the same for all that builds on it.") var dependents = false

        func validate() throws {
            guard [accept, retry, merge].filter({ $0 }).count == 1 else {
                throw ValidationError("Give either --accept, --retry or --merge.")
            }
            guard merge == (!set.isEmpty || values != nil), set.isEmpty || values == nil else {
                throw ValidationError("--merge needs either --set or --values.")
            }
        }

        func run() async throws {
            try await Terminal.run {
                let engine = try await OpenDevice(file).engine
                var left = try await engine.resolve(id, try await resolution(engine))
                var count = 1
                while dependents, let next = left.first {
                    let more = try await engine.resolve(next.id, accept ? .accept : .retry)
                    let known = Set(left.map(\.id))
                    left = left.dropFirst() + more.filter { !known.contains($0.id) }
                    left.sort { $0.number < $1.number }
                    count += 1
                }
                let what = count == 1 ? "" : " of \(count) change sets"
                Terminal.line(
                    accept
                        ? "accepted: the server's rows stay"
                        : "your changes\(what) are made again; sync to send them"
                )
                guard !left.isEmpty else { return }
                let numbers = left.map { String($0.number) }.joined(separator: ", ")
                Terminal.line("parked because they build on it, to be resolved next: \(numbers)")
            }
        }

        private func resolution(_ engine: SyncEngine) async throws -> Resolution {
            guard merge else { return accept ? .accept : .retry }
            let conflict = try await engine.conflicts().first {
                $0.id == id.lowercased() || String($0.number) == id
            }
            let records = (conflict?.records ?? []).filter { $0.operation != "unchanged" }
            guard let values else { return .merge([try single(records)]) }
            return .merge(try read(values, records))
        }

        /// The conflict's one record, with the values of `--set`.
        private func single(_ records: [Conflict.Record]) throws -> MergedRecord {
            guard let record = records.first, records.count == 1 else {
                throw TidemarkError(
                    .invalidArgument,
                    "The conflict has \(records.count) records.",
                    fix: "Use --values, which names table and key of each."
                )
            }
            let members = try set.map { text in
                guard let sign = text.firstIndex(of: "=") else {
                    throw TidemarkError(
                        .invalidArgument,
                        "\(text) sets no column.",
                        fix: "Write --set 'column=json', for instance --set 'name=\"Anna\"'."
                    )
                }
                let name = try JSONEncoder().encode(String(text[..<sign]))
                return
                    "\(String(decoding: name, as: UTF8.self)):\(text[text.index(after: sign)...])"
            }
            return MergedRecord(
                table: record.table,
                key: record.key,
                columns: try MergedRecord.columns(json: "{\(members.joined(separator: ","))}")
            )
        }

        /// The records that a file of values names: tables, then keys, then columns.
        private func read(_ path: String, _ records: [Conflict.Record]) throws -> [MergedRecord] {
            let data =
                path == "-"
                ? FileHandle.standardInput.readDataToEndOfFile()
                : try Data(contentsOf: URL(fileURLWithPath: path))
            return try Self.parts(of: data).map { table, name, columns in
                let key = records.first {
                    $0.table == table && [name, Self.quoted(name)].contains($0.key)
                }?.key
                return MergedRecord(
                    table: table,
                    key: key ?? name,
                    columns: try columns.map { try MergedRecord.columns(json: $0) }
                )
            }
        }

        /// The tables and keys in JSON, each with the text of its object of columns as it stands
        /// there: a number keeps its type.
        private static func parts(
            of data: Data
        ) throws -> [(table: String, name: String, columns: String?)] {
            let misfit = TidemarkError(
                .invalidArgument,
                "The values are no JSON object of tables, keys and columns.",
                fix: #"Write them like {"note":{"1":{"text":"both"},"2":null}}."#
            )
            guard let json = String(data: data, encoding: .utf8) else { throw misfit }
            return try DatabaseQueue().read { db in
                let isJSON = try Bool.fetchOne(db, sql: "SELECT json_valid(?)", arguments: [json])
                guard isJSON == true else { throw misfit }
                // What is no object has a member that is no record.
                let rows = try Row.fetchAll(
                    db,
                    sql: """
                        SELECT t.key AS tbl, r.key AS name, r.value AS record,
                            r.type IN ('object', 'null') AS fits
                        FROM json_each(iif(json_type(?1) = 'object', ?1, '{"":0}')) AS t,
                            json_each(iif(t.type = 'object', t.value, '{"":0}')) AS r
                        ORDER BY t.key, r.key
                        """,
                    arguments: [json]
                )
                guard rows.allSatisfy({ $0["fits"] }) else { throw misfit }
                return rows.map {
                    (table: $0["tbl"], name: $0["name"], columns: $0["record"])
                }
            }
        }

        /// A text key in canonical JSON, as far as it needs no escapes.
        private static func quoted(_ key: String) -> String { "\"\(key)\"" }
    }
}
