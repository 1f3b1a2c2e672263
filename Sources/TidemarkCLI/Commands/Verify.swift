import ArgumentParser
import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkSQLiteStore
import TidemarkTerminal

/// `tidemark verify`: whether a file's rows are what they should be, and if not, which are not.
struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Compute a file's rows anew, say which records are wrong, and repair them.",
        discussion: """
            A device's file is compared with its own books, and with the server when that can be reached. What is new is taken in \
            first, since rows can be compared at one revision only; nothing is sent. Records that differ are named with the columns; \
            --repair replaces exactly these by the server's; one that is unsent, new here and in no change set that waits, it \
            captures again. Edits that wait are kept; those of a record that differed become \
            conflicts.

            A zone's file, the server's, is compared with its own books: which row is wrong cannot be told, since the tables are the \
            truth. The rows as they are become the books, and every device takes over what differs when it syncs. The log \
            is compared with the hashes that commits left, entry by entry: --repair takes a log with damaged entries away up to the last of \
            them, and devices that are behind it take a snapshot.

            Exit codes: 0 all is right, or was repaired; 1 something differs.
            """
    )
    @Argument(help: "A device's file, or a zone's.") var file: String
    @Flag(help: "Replace what differs.") var repair = false
    @Flag(help: "Print JSON.") var json = false
    @OptionGroup var access: ServerAccess

    func run() async throws {
        try await Terminal.run {
            let report = try await look()
            if json { try Terminal.json(report) } else { show(report) }
            if !report.isRight { throw ExitCode.failure }
        }
    }

    /// What is printed.
    private struct Report: Encodable {
        var kind: String
        var revision: Int64
        /// The fingerprint by the file's own books.
        var expected: Fingerprint?
        /// The fingerprint of its rows.
        var computed: Fingerprint?
        /// The fingerprint of the server's rows.
        var server: Fingerprint?
        var isServerReached: Bool
        var records: [Verification.Record] = []
        /// Entries of a zone's log that are damaged.
        var damagedEntries: [ZoneVerification.DamagedEntry] = []
        /// The latest revision in a zone's log, where that is later than the zone's.
        var logEnd: Int64?
        var isRepaired = false
        var roundTrips = 0
        var bytesSent = 0
        var bytesReceived = 0
        var conflicts = 0

        var isRight: Bool {
            isRepaired
                || records.isEmpty && damagedEntries.isEmpty && logEnd == nil
                    && (expected == nil || computed == nil || expected == computed)
        }
    }

    // MARK: Looking

    private func look() async throws -> Report {
        try ExistingFile.require(file)
        var configuration = Configuration()
        configuration.readonly = true
        let isZone = try await DatabaseQueue(path: file, configuration: configuration).read {
            try $0.tableExists("tidemark_zone")
        }
        return isZone ? try zone() : try await device()
    }

    private func zone() throws -> Report {
        let found = try ZoneVerification(path: file, repairing: repair)
        return Report(
            kind: "zone",
            revision: found.revision,
            expected: found.expected,
            computed: found.computed,
            isServerReached: false,
            damagedEntries: found.damagedEntries,
            logEnd: found.logEnd > found.revision ? found.logEnd : nil,
            isRepaired: repair
        )
    }

    private func device() async throws -> Report {
        let device = try await OpenDevice(file, access: access)
        let books = try await device.engine.checkRows()
        var report = Report(
            kind: "device",
            revision: try await device.engine.status().revision,
            expected: books.expected,
            computed: books.computed,
            isServerReached: false
        )
        do {
            let found = try await device.engine.verify(repairing: repair)
            let status = try await device.engine.status()
            report.isServerReached = true
            report.server = found.fingerprint
            report.revision = status.revision
            report.records = found.records
            report.roundTrips = found.roundTrips
            report.bytesSent = found.bytesSent
            report.bytesReceived = found.bytesReceived
            report.conflicts = status.conflicts
            report.isRepaired = repair
            if !repair || found.records.isEmpty {
                // What was new has been taken in meanwhile: all three are of one revision.
                let now = try await device.engine.checkRows()
                report.expected = now.expected
                report.computed = now.computed
            }
        } catch let error as TidemarkError where error.code == .unreachable {
            if !json { Terminal.note("tidemark: \(error.message)") }
        }
        return report
    }

    // MARK: Printing

    private func show(_ report: Report) {
        let mine = report.computed?.hex ?? "not known"
        Terminal.line("rows    \(mine), at revision \(report.revision)")
        Terminal.line("books   \(report.expected?.hex ?? "not known")")
        if report.isServerReached { Terminal.line("server  \(report.server?.hex ?? "not known")") }
        for entry in report.damagedEntries {
            Terminal.line("log     revision \(entry.revision) is damaged, of \(entry.tables.joined(separator: ", "))")
        }
        if let end = report.logEnd {
            Terminal.line("log     reaches revision \(end), after the zone's \(report.revision)")
        }
        for record in report.records {
            let columns = record.columns.joined(separator: ", ")
            Terminal.line(
                "\(record.difference.rawValue): \(record.table) \(record.key)" + (columns.isEmpty ? "" : ": \(columns)")
            )
        }
        if report.isServerReached {
            Terminal.line(
                "asked \(Counted.text(report.roundTrips, "time")), \(report.bytesSent) bytes sent, \(report.bytesReceived) received"
            )
        }
        Terminal.line(verdict(report))
    }

    private func zoneVerdict(_ report: Report) -> String {
        var parts: [String] = []
        if let expected = report.expected, expected != report.computed {
            parts.append(
                "rows changed behind the triggers' back, which ones is not known; devices take them over as they are when they sync"
            )
        }
        if !report.damagedEntries.isEmpty || report.logEnd != nil {
            parts.append(
                report.isRepaired
                    ? "the log is repaired; devices that are behind it take a snapshot"
                    : "the log is damaged, the rows are not; --repair takes it away up to there"
            )
        }
        return parts.isEmpty ? "all is right" : parts.joined(separator: "\n")
    }

    private func verdict(_ report: Report) -> String {
        let count = report.records.count
        guard report.kind == "device" else { return zoneVerdict(report) }
        guard count > 0 else {
            if !report.isServerReached, !report.isRight {
                return "rows are wrong; the server, which knows which, was not reached"
            }
            return report.isServerReached
                ? "all is right" : "all is right by the file's own books; the server was not reached"
        }
        guard report.isRepaired else {
            let unsent = report.records.count { $0.difference == .unsent }
            let differing = count - unsent
            let found = [
                differing == 0
                    ? nil
                    : Counted.text(differing, "record differs", plural: "records differ")
                        + "; --repair replaces \(differing == 1 ? "it" : "them")",
                unsent == 0
                    ? nil
                    : Counted.text(unsent, "new record waits", plural: "new records wait")
                        + " nowhere; --repair lets the next sync send \(unsent == 1 ? "it" : "them")",
            ]
            return found.compactMap { $0 }.joined(separator: "; ")
        }
        let conflicts =
            report.conflicts > 0
            ? "; \(Counted.text(report.conflicts, "conflict waits", plural: "conflicts wait"))" : ""
        return "\(Counted.text(count, "record")) repaired\(conflicts)"
    }
}
