import ArgumentParser
import Foundation
import Tidemark
import TidemarkCore
import TidemarkTerminal

extension Device {
    struct Wait: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Wait until the server has the edits of a file, or of one of its records.",
            discussion: """
                The command syncs the file until the server has the edits made before the call. Any program can \
                call it to know that its edits are safe on the server:

                  tidemark device wait notes.sqlite --record notes/7 --timeout 10 && echo "on the server"

                A key of several columns is written with commas: --record city/DE,7. A slash, a comma or a percent \
                sign within a part is percent-encoded.

                Exit codes: 0 the server has them; 3 the server refused them (see `device conflicts`); 4 the time is \
                over or the server cannot be reached: the edits are in the outbox and nothing is lost; 1 another \
                failure, which a person must mend first, or neither the file nor the server has the record.
                """)
        @Argument(help: "The device's file.") var file: String
        @Option(help: ArgumentHelp("The record, as TABLE/KEY; without it, all records.", valueName: "table/key"))
        var record: String?
        @Option(help: ArgumentHelp("The longest wait, in seconds; without it, no end.", valueName: "seconds"))
        var timeout: Double?
        @Flag(help: "Print the receipt as JSON.") var json = false
        @OptionGroup var access: ServerAccess

        func validate() throws {
            guard timeout.map((0...31_536_000).contains) != false else {
                throw ValidationError("--timeout is a number of seconds, from 0 up to a year.")
            }
        }

        func run() async throws {
            try await Terminal.runInterruptibly {
                let engine = try await OpenDevice(file, access: access).engine
                let limit = timeout.map { Duration.seconds($0) }
                do {
                    let receipt =
                        if let record {
                            try await engine.waitUntilSynced(engine.recordName(record), within: limit)
                        } else {
                            try await engine.waitUntilSynced(within: limit)
                        }
                    try report(receipt)
                } catch let error as WaitError {
                    let fix = error.recoverySuggestion ?? ""
                    switch error {
                    case .notYet:
                        Terminal.note("tidemark: \(error) \(fix)")
                        throw ExitCode(4)
                    case .refused(let conflict):
                        Terminal.note("tidemark: \(error) See `tidemark device conflicts \(file)`.")
                        if json { try Terminal.json(object: ["refused": conflict]) }
                        throw ExitCode(3)
                    }
                }
            }
        }

        private func report(_ receipt: Receipt) throws {
            guard !json else {
                return try Terminal.json(object: [
                    "zone": receipt.zone, "revision": receipt.revision,
                    "changeSets": receipt.changeSets.map { $0.uuidString.lowercased() },
                    "at": ISO8601DateFormatter().string(from: receipt.at),
                ])
            }
            let count = receipt.changeSets.count
            let edits = record.map { "edits of \($0)" } ?? "edits"
            Terminal.line(
                count == 0
                    ? "no \(edits) were waiting, at revision \(receipt.revision)"
                    : "the server has the \(edits) at revision \(receipt.revision) "
                        + "(\(Counted.text(count, "change set")) sent)")
        }
    }
}
