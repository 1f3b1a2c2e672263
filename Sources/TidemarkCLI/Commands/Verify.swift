import ArgumentParser
import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTerminal

/// `tidemark verify`: checks a file's rows, names wrong records, and repairs them.
struct Verify: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check a file's rows against its books, name wrong records, and repair them.",
        discussion: """
            For a device's file, the command compares the rows with the file's own books, and with the server if it \
            can reach it. It first applies new changes of the server, because rows are comparable at one revision \
            only; it sends no edits. It names the records that differ, with their columns. --repair replaces exactly \
            these by the server's. A new record that no change set has sent or will send is captured again. Pending \
            edits stay; edits of a record that differed become conflicts. It also runs SQLite's quick_check on the file, \
            and reads its conflicts.

            For a zone's file, on the server, the command compares the rows with the file's own books. It cannot tell \
            which row is wrong, because the tables are the truth: it updates the books to the rows, and every device \
            repairs its rows at its next sync. It also compares each log entry with the hash of its commit. --repair \
            deletes the log up to the last damaged entry, and devices behind it take a snapshot.

            Exit codes: 0 all is right, or was repaired; 1 something differs.
            """)
    @Argument(help: "A device's file, or a zone's.") var file: String
    @Flag(help: "Repair the records that differ, or the log.") var repair = false
    @Flag(help: "Print JSON.") var json = false
    @OptionGroup var access: ServerAccess

    func run() async throws {
        try await Terminal.run {
            let report = try await makeReport()
            if json { try Terminal.json(report) } else { show(report) }
            if !report.isRight { throw ExitCode.failure }
        }
    }

    private struct Report: Encodable {
        var kind: String
        var revision: Int64
        /// The fingerprint in the file's own books.
        var expected: Fingerprint?
        /// The fingerprint of the file's rows.
        var computed: Fingerprint?
        var server: Fingerprint?
        var isServerReached: Bool
        var records: [Verification.Record] = []
        var damagedEntries: [ZoneVerification.DamagedEntry] = []
        /// The latest revision in a zone's log, if it is later than the zone's.
        var logEnd: Int64?
        var isRepaired = false
        var roundTrips = 0
        var bytesSent = 0
        var bytesReceived = 0
        var conflicts = 0
        /// What SQLite's `quick_check` finds in a device's file, and the conflicts whose text is damaged.
        var damage: [String] = []

        var isRight: Bool {
            damage.isEmpty
                && (isRepaired
                    || records.isEmpty && damagedEntries.isEmpty && logEnd == nil
                        && (expected == nil || computed == nil || expected == computed))
        }
    }

    // MARK: Checks

    private func makeReport() async throws -> Report {
        try ExistingFile.require(file)
        let isZone = try await OpenDevice.reading(at: file) { try $0.tableExists("tidemark_zone") }
        return isZone ? try checkZone() : try await checkDevice()
    }

    private func checkZone() throws -> Report {
        let verification = try ZoneVerification(path: file, repairing: repair)
        return Report(
            kind: Self.zoneKind, revision: verification.revision, expected: verification.expected,
            computed: verification.computed, isServerReached: false, damagedEntries: verification.damagedEntries,
            logEnd: verification.logEnd > verification.revision ? verification.logEnd : nil, isRepaired: repair)
    }

    private static let zoneKind = "zone"
    private static let deviceKind = "device"

    private func checkDevice() async throws -> Report {
        let device = try await OpenDevice(file, access: access)
        let books = try await device.engine.checkRows()
        var report = Report(
            kind: Self.deviceKind, revision: try await device.engine.status().revision, expected: books.expected,
            computed: books.computed, isServerReached: false)
        report.damage = try await Self.damage(file)
        do {
            let verification = try await device.engine.verify(repairing: repair)
            let status = try await device.engine.status()
            report.isServerReached = true
            report.server = verification.fingerprint
            report.revision = status.revision
            report.records = verification.records
            report.roundTrips = verification.roundTrips
            report.bytesSent = verification.bytesSent
            report.bytesReceived = verification.bytesReceived
            report.conflicts = status.conflicts
            report.isRepaired = repair
            if !repair || verification.records.isEmpty {
                // The check applied new changes, so now all three fingerprints are of one revision.
                let now = try await device.engine.checkRows()
                report.expected = now.expected
                report.computed = now.computed
            }
        } catch let error as TidemarkError where error.code == .unreachable {
            if !json { Terminal.note("tidemark: \(error.message)") }
        }
        return report
    }

    /// The most lines of SQLite's report.
    private static let damageMax = 5

    /// Returns the damage of a device's file beside its rows.
    private static func damage(_ file: String) async throws -> [String] {
        let lines = try await OpenDevice.reading(at: file) { db in
            try String.fetchAll(db, sql: "PRAGMA quick_check(\(damageMax))").filter { $0 != "ok" }
        }
        let conflicts = try await OpenDevice.conflicts(file).filter(\.isDamaged)
        return lines + conflicts.map { "the text of conflict \($0.number) cannot be read" }
    }

    // MARK: Output

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
        for line in report.damage { Terminal.line("damage  \(line)") }
        for record in report.records {
            let columns = record.columns.joined(separator: ", ")
            Terminal.line(
                "\(record.difference.rawValue): \(record.table) \(record.key)" + (columns.isEmpty ? "" : ": \(columns)")
            )
        }
        if report.isServerReached {
            Terminal.line(
                """
                asked \(Counted.text(report.roundTrips, "time")), \(report.bytesSent) bytes sent, \
                \(report.bytesReceived) received
                """)
        }
        Terminal.line(verdict(report))
    }

    private func zoneVerdict(_ report: Report) -> String {
        var parts: [String] = []
        if let expected = report.expected, expected != report.computed {
            parts.append(
                """
                rows changed behind the triggers' back, which ones is not known; devices take them over as they are \
                when they sync
                """)
        }
        if !report.damagedEntries.isEmpty || report.logEnd != nil {
            parts.append(
                report.isRepaired
                    ? "the log is repaired; devices that are behind it take a snapshot"
                    : "the log is damaged, the rows are not; --repair takes it away up to there")
        }
        return parts.isEmpty ? "all is right" : parts.joined(separator: "\n")
    }

    private func verdict(_ report: Report) -> String {
        let count = report.records.count
        guard report.kind == Self.deviceKind else { return zoneVerdict(report) }
        guard report.damage.isEmpty else {
            return "the file is damaged: keep a copy of it; ERRORS.md says under fileDamaged what can be saved"
        }
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
            let parts = [
                differing == 0
                    ? nil
                    : Counted.text(differing, "record differs", plural: "records differ")
                        + "; --repair replaces \(differing == 1 ? "it" : "them")",
                unsent == 0
                    ? nil
                    : Counted.text(unsent, "new record waits", plural: "new records wait")
                        + " nowhere; --repair lets the next sync send \(unsent == 1 ? "it" : "them")",
            ]
            return parts.compactMap { $0 }.joined(separator: "; ")
        }
        let conflicts =
            report.conflicts > 0
            ? "; \(Counted.text(report.conflicts, "conflict waits", plural: "conflicts wait"))" : ""
        return "\(Counted.text(count, "record")) repaired\(conflicts)"
    }
}
