import ArgumentParser
import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkSQLite
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

                --only and --except name records as TABLE/KEY and may be repeated. The records that --only names get the \
                decision, and all others of the change set the opposite one; with --except it is the other way round. So \
                nothing of the conflict is left. A reference between a record that is written again and one that is not \
                may forbid the division; the error names both.

                  tidemark device resolve app.sqlite 3 --retry --except player/7     (the server's player 7 stays)
                  tidemark device resolve app.sqlite 3 --accept --only player/7      (the same)

                A record that somebody else has deleted and that you updated is made anew by --retry. Say whether you want \
                that: --revive, or --no-revive, which leaves it deleted and writes the others.

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
        @Option(help: ArgumentHelp("A JSON file of values; - for standard input.", valueName: "file")) var values:
            String?
        @Flag(help: "Divide what no known transaction made; make again what nobody contests.") var divide = false
        @Flag(help: "Decide the same for all that builds on it.") var dependents = false
        @Option(
            help: ArgumentHelp(
                "A record that gets the decision, the others the opposite; may be repeated.",
                valueName: "table/key"
            )
        ) var only: [String] = []
        @Option(
            help: ArgumentHelp("A record that gets the opposite decision; may be repeated.", valueName: "table/key")
        ) var except: [String] = []
        @Flag(inversion: .prefixedNo, help: "Make records anew that somebody else has deleted, or leave them deleted.")
        var revive: Bool?

        func validate() throws {
            guard [accept, retry, merge, divide].filter({ $0 }).count == 1 else {
                throw ValidationError("Give either --accept, --retry, --merge or --divide.")
            }
            guard merge == (!set.isEmpty || values != nil), set.isEmpty || values == nil else {
                throw ValidationError("--merge needs either --set or --values.")
            }
            guard only.isEmpty || except.isEmpty else { throw ValidationError("Give either --only or --except.") }
            let isPart = !only.isEmpty || !except.isEmpty
            guard !isPart || !merge && !dependents else {
                throw ValidationError(
                    "--only and --except divide one conflict: not with --merge, nor with --dependents."
                )
            }
            guard revive == nil || !accept || isPart else {
                throw ValidationError("--accept writes nothing again, so it revives nothing.")
            }
        }

        func run() async throws {
            try await Terminal.run {
                let engine = try await OpenDevice(file).engine
                if divide {
                    let left = try await engine.divide(id).map { String($0.number) }
                    let rest = left.isEmpty ? "" : "; still parked: \(left.joined(separator: ", "))"
                    return Terminal.line("divided; sync to send what nobody contests\(rest)")
                }
                let part = try await part(engine)
                var left = try await engine.resolve(id, part?.resolution ?? choice)
                var count = 1
                while dependents, let next = left.first {
                    let whole = try ResolvePart(next, accepts: accept)
                    let more = try await engine.resolve(next.id, try await reviving(whole, engine).resolution)
                    let known = Set(left.map(\.id))
                    left = left.dropFirst() + more.filter { !known.contains($0.id) }
                    left.sort { $0.number < $1.number }
                    count += 1
                }
                Terminal.line(
                    count > 1 && !accept
                        ? "your changes of \(count) change sets are made again; sync to send them" : part?.text ?? ""
                )
                guard !left.isEmpty else { return }
                let numbers = left.map { String($0.number) }.joined(separator: ", ")
                Terminal.line("parked because they build on it, to be resolved next: \(numbers)")
            }
        }

        /// The decision record by record; nil when there is no such conflict, which the library
        /// says.
        private func part(_ engine: SyncEngine) async throws -> ResolvePart? {
            let conflict = try await engine.conflicts().first { $0.id == id.lowercased() || String($0.number) == id }
            guard let conflict else { return nil }
            guard merge else {
                return try await reviving(
                    try ResolvePart(conflict, accepts: accept, only: only, except: except),
                    engine
                )
            }
            let records = conflict.records.filter { $0.operation != "unchanged" }
            let merged = try values.map { try read($0, records) } ?? [single(records)]
            return try await reviving(try ResolvePart(conflict, accepts: false, merged: merged), engine)
        }

        private var choice: Resolution { accept ? .accept : .retry }

        /// The same, with what somebody else has deleted left out or made anew, as the user says.
        ///
        /// - Throws: ``TidemarkError`` when the user has not said it.
        private func reviving(_ part: ResolvePart, _ engine: SyncEngine) async throws -> ResolvePart {
            let gone = try await engine.madeAnew(byRetrying: part.conflict.id).filter { part.writes($0) }
            guard !gone.isEmpty else { return part }
            let what = Counted.text(gone.count, "record", plural: "records")
            let names = "\(what) of conflict \(part.conflict.number): \(ResolvePart.names(gone))"
            switch revive {
            case true:
                Terminal.line("made anew, though somebody else deleted them: \(names)")
                return part
            case false:
                var part = part
                part.leave(gone)
                return part
            case nil:
                throw TidemarkError(
                    .invalidArgument,
                    "Somebody else has deleted what would be made anew, \(names).",
                    fix: "Add --revive to make it anew, or --no-revive to leave it deleted and write the others."
                )
            }
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
                return "\(String(decoding: name, as: UTF8.self)):\(text[text.index(after: sign)...])"
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
                ? FileHandle.standardInput.readDataToEndOfFile() : try Data(contentsOf: URL(fileURLWithPath: path))
            return try Self.parts(of: data).map { table, name, columns in
                let key = records.first { $0.table == table && [name, Self.quoted(name)].contains($0.key) }?.key
                return MergedRecord(
                    table: table,
                    key: key ?? name,
                    columns: try columns.map { try MergedRecord.columns(json: $0) }
                )
            }
        }

        /// The tables and keys in JSON, each with the text of its object of columns as it stands
        /// there: a number keeps its type.
        private static func parts(of data: Data) throws -> [(table: String, name: String, columns: String?)] {
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
                guard try rows.allSatisfy({ try $0.value("fits") }) else { throw misfit }
                return try rows.map {
                    try (table: $0.value("tbl"), name: $0.value("name"), columns: $0.value("record"))
                }
            }
        }

        /// A text key in canonical JSON, as far as it needs no escapes.
        private static func quoted(_ key: String) -> String { "\"\(key)\"" }
    }
}
