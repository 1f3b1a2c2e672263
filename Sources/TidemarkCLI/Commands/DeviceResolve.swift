import ArgumentParser
import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkSQL
import TidemarkTerminal

extension Device {
    struct Resolve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Resolve a conflict, or overruled values.",
            discussion: """
                --accept keeps the server's rows and drops yours. --retry makes your changes again on top of the \
                server's rows. --merge makes them with other values: --set for a conflict with one record, or --values \
                with an object of tables, keys and columns, where null leaves a record as the server has it:

                  tidemark device resolve app.sqlite 3 --merge --set 'text="oat and goat milk"'
                  echo '{"note":{"1":{"text":"both"},"2":null}}' | tidemark device resolve a.db 3 --merge --values -

                --only and --except name records as TABLE/KEY and may be repeated. The records that --only names get \
                the decision, and all others of the change set get the opposite one; with --except it is the other way \
                round. So the whole conflict is resolved. A reference between a record that is written again and one \
                that is not may forbid the division; the error names both.

                  tidemark device resolve app.sqlite 3 --retry --except player/7     (the server's player 7 stays)
                  tidemark device resolve app.sqlite 3 --accept --only player/7      (the same)

                If you updated a record that another device deleted, --retry creates it again. Say whether you want \
                that: --revive, or --no-revive, which leaves it deleted and writes the others. If another record has \
                the number of a new record of yours, --as-new gives yours another one, and --replace puts it in the \
                place of the other one, which is lost.

                A decision is about what you have seen. Without --seen that is the conflict as it was when the device \
                parked it. If a record has changed since, or a deletion would take along records that came since, the \
                decision is refused; `device conflicts` shows the conflict as it is now, and prints the command.

                The outcome is a new change set, which the next sync sends. The command names the conflicts that build \
                on this change set, to be resolved next; with --dependents they get the same decision, in their order.
                """)
        @Argument(help: "The device's file.") var file: String
        @Argument(help: "The conflict's number or id.") var id: String
        @Flag(help: "Keep the server's rows.") var accept = false
        @Flag(help: "Make my changes again.") var retry = false
        @Flag(help: "Make my changes again, with other values.") var merge = false
        @Option(
            help: ArgumentHelp(
                "A value for a column of the conflict's one record, as JSON; may be repeated.", valueName: "column=json"
            )) var set: [String] = []
        @Option(help: ArgumentHelp("A JSON file of values; - for standard input.", valueName: "file")) var values:
            String?
        @Flag(help: "Divide edits without a known transaction, and retry the uncontested ones.") var divide = false
        @Flag(help: "Apply the decision to all conflicts that build on it.") var dependents = false
        @Option(
            help: ArgumentHelp(
                "A record that gets the decision, the others the opposite; may be repeated.", valueName: "table/key"))
        var only: [String] = []
        @Option(
            help: ArgumentHelp("A record that gets the opposite decision; may be repeated.", valueName: "table/key"))
        var except: [String] = []
        @Flag(inversion: .prefixedNo, help: "Create records again that another device deleted, or leave them deleted.")
        var revive: Bool?
        @Flag(help: "Give new records another number if their own is taken.") var asNew = false
        @Flag(help: "Put new records in the place of those that have their number, and lose these.") var replace = false
        @Option(help: ArgumentHelp("The state of the conflict that you have seen, as printed.", valueName: "hash"))
        var seen: String?

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
                    "--only and --except divide one conflict: not with --merge, nor with --dependents.")
            }
            guard revive == nil || !accept || isPart else {
                throw ValidationError("--accept writes nothing again, so it revives nothing.")
            }
            guard !asNew || !replace else { throw ValidationError("Give either --as-new or --replace.") }
            guard !accept || isPart || !asNew && !replace else {
                throw ValidationError("--accept writes nothing again, under no number.")
            }
            guard !divide || seen == nil && !asNew && !replace else {
                throw ValidationError("--divide takes no other option.")
            }
        }

        func run() async throws {
            try await Terminal.run {
                let engine = try await OpenDevice(file).engine
                if divide {
                    let parkedNumbers = try await engine.divide(id).map { String($0.number) }
                    let rest = parkedNumbers.isEmpty ? "" : "; still parked: \(parkedNumbers.joined(separator: ", "))"
                    return Terminal.line("divided; sync to send the uncontested edits\(rest)")
                }
                let part = try await part(engine)
                let chain = try await resolve(part, engine)
                let parts =
                    try [part]
                    + chain.dependents.map { try reviving(ResolvePart($0.conflict, accepts: accept), $0.anew) }
                for part in parts.compactMap(\.self) where !part.revivedRecords.isEmpty {
                    Terminal.line("created again, though another device deleted them: \(part.revived)")
                }
                let count = chain.dependents.count + 1
                Terminal.line(
                    count > 1 && !accept
                        ? "your changes of \(count) change sets are made again; sync to send them" : part?.text ?? "")
                guard !chain.open.isEmpty else { return }
                let numbers = chain.open.map { String($0.number) }.joined(separator: ", ")
                Terminal.line("parked because they build on it, to be resolved next: \(numbers)")
            }
        }

        /// Returns the decision for each record; nil for an unknown conflict, which the library reports.
        private func part(_ engine: SyncEngine) async throws -> ResolvePart? {
            let conflict = try await engine.conflicts().first { $0.id == id.lowercased() || String($0.number) == id }
            guard let conflict else { return nil }
            let anew = try await engine.madeAnew(byRetrying: conflict.id)
            guard merge else {
                return try reviving(ResolvePart(conflict, accepts: accept, only: only, except: except), anew)
            }
            let records = conflict.records.filter { $0.operation != "unchanged" }
            let mergedRecords = try values.map { try read($0, records) } ?? [single(records)]
            return try reviving(ResolvePart(conflict, accepts: false, mergedRecords: mergedRecords), anew)
        }

        private var choice: Resolution { accept ? .accept : .retry }
        private var takenIDs: TakenIDs { asNew ? .asNew : replace ? .replace : .refuse }

        /// Applies the decision, about what the user has seen, to the conflict and with `--dependents` to all after it.
        private func resolve(_ part: ResolvePart?, _ engine: SyncEngine) async throws -> ResolvedChain {
            let resolution = part?.resolution ?? choice
            var shown = Seen.asParked
            if let seen, let part {
                guard seen == part.conflict.seen else {
                    throw TidemarkError(
                        .preconditionFailed,
                        "Conflict \(part.conflict.number) has changed again since you saw \(seen).",
                        fix: "Look at it as it is now, and decide again: `tidemark device conflicts \(file)`.")
                }
                shown = .shown(part.conflict)
            }
            let name = part?.conflict.id ?? id
            let decide = { @Sendable (next: Conflict, anew: [Conflict.Record]) in
                try reviving(ResolvePart(next, accepts: accept), anew).resolution
            }
            return try await engine.resolve(
                name, with: resolution, seen: shown, takenIDs: takenIDs, dependents: dependents ? decide : nil)
        }

        /// Applies `--revive` or `--no-revive` to the records that another device deleted; throws if neither is given.
        private func reviving(_ part: ResolvePart, _ anew: [Conflict.Record]) throws -> ResolvePart {
            var part = part
            part.revivedRecords = anew.filter { part.writes($0) }
            guard !part.revivedRecords.isEmpty else { return part }
            switch revive {
            case true: return part
            case false:
                part.leave(part.revivedRecords)
                part.revivedRecords = []
                return part
            case nil:
                throw TidemarkError(
                    .invalidArgument, "Another device deleted records that this would create again: \(part.revived).",
                    fix: "Add --revive to create them again, or --no-revive to leave them deleted and write the others."
                )
            }
        }

        /// Returns the conflict's single record with the values of `--set`.
        private func single(_ records: [Conflict.Record]) throws -> MergedRecord {
            guard let record = records.first, records.count == 1 else {
                throw TidemarkError(
                    .invalidArgument, "The conflict has \(records.count) records.",
                    fix: "Use --values, which names table and key of each.")
            }
            let members = try set.map { text in
                guard let sign = text.firstIndex(of: "=") else {
                    throw TidemarkError(
                        .invalidArgument, "\(text) sets no column.",
                        fix: "Write --set 'column=json', for instance --set 'name=\"Anna\"'.")
                }
                let name = try JSONEncoder().encode(String(text[..<sign]))
                return "\(String(decoding: name, as: UTF8.self)):\(text[text.index(after: sign)...])"
            }
            return MergedRecord(
                table: record.table, key: record.key,
                columns: try MergedRecord.columns(json: "{\(members.joined(separator: ","))}"))
        }

        /// Reads the records of a file of values: tables, then keys, then columns.
        private func read(_ path: String, _ records: [Conflict.Record]) throws -> [MergedRecord] {
            if path != "-" {
                try ExistingFile.require(path, fix: "Give a file of the values to write, or - for standard input.")
            }
            let data =
                path == "-"
                ? FileHandle.standardInput.readDataToEndOfFile() : try Data(contentsOf: URL(fileURLWithPath: path))
            return try Self.parts(of: data).map { table, name, columns in
                let key = records.first { $0.table == table && [name, Self.quoted(name)].contains($0.key) }?.key
                return MergedRecord(
                    table: table, key: key ?? name, columns: try columns.map { try MergedRecord.columns(json: $0) })
            }
        }

        /// Parses tables and keys in JSON, with the unchanged text of each record, so that numbers keep their types.
        private static func parts(of data: Data) throws -> [(table: String, name: String, columns: String?)] {
            let misfit = TidemarkError(
                .invalidArgument, "The values are no JSON object of tables, keys and columns.",
                fix: #"Write them like {"note":{"1":{"text":"both"},"2":null}}."#)
            guard let json = String(data: data, encoding: .utf8) else { throw misfit }
            return try DatabaseQueue().read { db in
                let isJSON = try Bool.fetchOne(db, sql: "SELECT json_valid(?)", arguments: [json])
                guard isJSON == true else { throw misfit }
                // The placeholder {"":0} stands for a value that is no object, and fails the check.
                let rows = try Row.fetchAll(
                    db,
                    sql: """
                        SELECT
                            table_entry.key AS tbl,
                            record_entry.key AS name,
                            record_entry.value AS record,
                            record_entry.type IN ('object', 'null') AS fits
                        FROM json_each(iif(json_type(?1) = 'object', ?1, '{"":0}')) AS table_entry,
                            json_each(iif(table_entry.type = 'object', table_entry.value, '{"":0}')) AS record_entry
                        ORDER BY table_entry.key, record_entry.key
                        """,
                    arguments: [json])
                guard try rows.allSatisfy({ try $0.value("fits") }) else { throw misfit }
                return try rows.map {
                    try (table: $0.value("tbl"), name: $0.value("name"), columns: $0.value("record"))
                }
            }
        }

        /// Quotes a text key as canonical JSON; keys that need escapes are not supported.
        private static func quoted(_ key: String) -> String { "\"\(key)\"" }
    }
}
