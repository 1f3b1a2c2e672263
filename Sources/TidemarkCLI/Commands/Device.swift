import ArgumentParser
import Foundation
import Tidemark
import TidemarkCore
import TidemarkTerminal

/// `tidemark device`: commands for a device's file.
struct Device: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Join a SQLite file to a server, sync it, and maintain it.",
        subcommands: [
            Join.self, Rescue.self, Sync.self, Wait.self, Status.self, Conflicts.self, Resolve.self, SignOut.self,
        ])
}

extension Device {
    struct Join: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a device file: the zone's tables with all their rows, ready to edit.",
            discussion: """
                FILE must not exist yet. It becomes an ordinary SQLite file; edit it with any program. New rows of \
                tables with an INTEGER PRIMARY KEY keep the id that SQLite draws (leave the id out), because the \
                server lends it to this file.

                If the server wants a token and none is at hand, the command asks for the sign-in token that the \
                server's operator has issued. It stores a token of this machine's own, so later commands need none.

                An interrupted join leaves nothing behind; run it again. Only a killed join leaves a folder FILE.<id>, \
                which the next join of FILE removes.
                """)
        @Argument(help: "The server, for instance http://127.0.0.1:8080.") var url: String
        @Argument(help: "The file to create.") var file: String
        @Option(help: "The zone; ~ for your private one.") var zone = "main"
        @Option(help: "The name of this device for the server's operators, such as \"Anna's iPhone\".")
        var name: String?
        @OptionGroup var functions: FunctionOptions
        @OptionGroup var access: ServerAccess

        func run() async throws {
            try await Terminal.runInterruptibly {
                if let name { try DeviceName.require(name) }
                let start = ContinuousClock.now
                try await Download(url: url, zone: zone, access: access, asksForToken: true, functions: functions.names)
                    .run {
                        try await $0.join(path: file, progress: $1)
                    } saying: {
                        "\(file) joined \(url) at revision \($0.revision) in \(Self.seconds(since: start)) s"
                    }
                for (object, reason) in try await OpenDevice.leftOut(of: file).sorted(by: { $0.key < $1.key }) {
                    Terminal.note("left out of this file: \(object): \(reason)")
                }
                // The first sync brings ids for the first records.
                do {
                    _ = try await OpenDevice(file, access: access, name: name).engine.sync()
                } catch let error as TidemarkError where error.recovery == .retry {
                    Terminal.note(
                        "tidemark: \(error.message) The file is ready; sync it when the server can be reached.")
                }
            }
        }

        static func seconds(since start: ContinuousClock.Instant) -> String {
            let seconds = (ContinuousClock.now - start) / .seconds(1)
            return String(format: "%.1f", seconds)
        }
    }

    struct Sync: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send local edits, and apply other devices' changes.",
            discussion: """
                Exit codes: 0 synced; 3 synced, but conflicts wait (see `device conflicts`); 4 the server cannot be \
                reached: the edits are in the outbox and nothing is lost; 5 another process is syncing the file; 6 \
                the server asks to come back later, and the message says when; 1 another failure.
                """)
        @Argument(help: "The device's file.") var file: String
        @Flag(
            help: """
                Keep running: sync when the server announces changes, and check for edits and changes \
                every --every seconds.
                """) var watch = false
        @Option(
            help: ArgumentHelp(
                "The longest pause with --watch, in seconds; after failures pauses grow beyond it.",
                valueName: "seconds")) var every = 2.0
        @Option(
            help: ArgumentHelp("The largest value of a column that is sent; larger ones are parked.", valueName: "MiB"))
        var valueMax = Limits.standard.valueBytesMax >> 20
        @OptionGroup var access: ServerAccess

        @Flag(
            inversion: .prefixedNo,
            help: """
                Divide other programs' edits between two syncs along references, so that one refused edit does not \
                affect the others; the file keeps the setting until the opposite option.
                """) var independent: Bool?
        @Option(help: ArgumentHelp("The same for one table; may be repeated.", valueName: "table"))
        var independentTable: [String] = []

        /// The setting of the options; nil if there is none.
        private var independentTables: IndependentTables? {
            if !independentTable.isEmpty { return IndependentTables(independentTable) }
            return independent.map { $0 ? .all : .none }
        }

        func validate() throws {
            guard (1...1_024).contains(valueMax) else {
                throw ValidationError("--value-max is a number of MiB, from 1 to 1024.")
            }
            guard independent == nil || independentTable.isEmpty else {
                throw ValidationError("Give either --[no-]independent or --independent-table.")
            }
            guard (0.001...86_400).contains(every) else {
                throw ValidationError("--every is a number of seconds, from 0.001 up to a day.")
            }
        }

        func run() async throws {
            try await Terminal.runInterruptibly {
                var limits = Limits.standard
                limits.valueBytesMax = valueMax << 20
                let device = try await OpenDevice(file, access: access, independent: independentTables, limits: limits)
                if watch {
                    await device.engine.listen()
                    await device.engine.watchOutside()
                }
                var pace = Pace(interval: .seconds(every), first: .seconds(min(every, 1)))
                var pushedChange: PushedChange?
                var lastNote: String?
                repeat {
                    do {
                        try await round(device, pushedChange)
                        pace.recordSuccess()
                        lastNote = nil
                    } catch let error as TidemarkError where watch && isTransient(error) {
                        let note = "tidemark: \(error.message) \(Self.plan(after: error))"
                        // A zone that was left can stay so for days.
                        if error.recovery != .leave || note != lastNote { Terminal.note(note) }
                        lastNote = note
                        pace.recordFailure(retryAfterSeconds: error.retryAfterSeconds)
                    }
                    if watch { pushedChange = await device.engine.rest(pace) }
                } while watch
            }
        }

        /// Whether the next round may succeed without the user: a member can be invited again, a deleted zone restored.
        private func isTransient(_ error: TidemarkError) -> Bool { [.retry, .signIn, .leave].contains(error.recovery) }

        private static func plan(after error: TidemarkError) -> String {
            switch error.recovery {
            case .signIn: "Waiting for another token."
            case .leave: "Waiting for access."
            default: "Trying again."
            }
        }

        @Flag(help: "Go on although most of the records here would be deleted.") var acceptMassDeletion = false

        private func round(_ device: OpenDevice, _ pushedChange: PushedChange?) async throws {
            let before = try await device.engine.status()
            let events = try await device.syncCollectingEvents(
                acceptingMassDeletion: acceptMassDeletion, pushedChange: pushedChange)
            let after = try await device.engine.status()
            let isQuiet = events.isEmpty && before.revision == after.revision
            if !watch || !isQuiet { report(events, before: before, after: after) }
            if !watch, after.conflicts > 0 { throw ExitCode(3) }
        }

        private func report(_ events: [DeviceEvent], before: DeviceStatus, after: DeviceStatus) {
            var parts = ["revision \(before.revision) -> \(after.revision)"]
            var changeSetsSent = 0
            var records = 0
            var snapshotRecords = nil as Int?
            var numbers = NewNumbers()
            var repairs = 0
            for event in events {
                if case .sent(let count) = event { changeSetsSent += count }
                if case .changed(let changes) = event { records += changes.records }
                if case .snapshotTaken(_, let count) = event { snapshotRecords = count }
                if case .identitiesAssigned(let table, let ids) = event { numbers.add(ids, in: table) }
                if case .repaired(let records) = event { repairs += records.count }
                if case .conflict(let id) = event { Terminal.line("conflict: \(id)") }
                if case .historyChanged(_, let count) = event {
                    // A forgotten device, and the second of two copies, go on in the same history.
                    let isSame = before.epoch == after.epoch && before.device != after.device
                    parts.append(
                        isSame
                            ? "another copy used this file's identity, or the server forgot it; the file took a new one"
                            : "the server's history is another one now")
                    if count > 0 { parts.append("\(Counted.text(count, "forgotten change set")) offered again") }
                }
            }
            if changeSetsSent > 0 { parts.append("\(Counted.text(changeSetsSent, "change set")) sent") }
            if numbers.assigned > 0 {
                let ids = numbers.assigned == 1 ? "its id" : "their ids"
                parts.append("\(Counted.text(numbers.assigned, "new record")) got \(ids)")
            }
            let changes = numbers.changes
            if !changes.isEmpty {
                let records = Counted.text(changes.count, "new record")
                let others = changes.count == 1 ? "another id" : "other ids"
                let list = changes.prefix(3).joined(separator: ", ") + (changes.count > 3 ? ", ..." : "")
                parts.append("\(records) got \(others): \(list)")
            }
            if let snapshotRecords { parts.append("a snapshot of \(Counted.text(snapshotRecords, "record")) taken in") }
            if records > 0 {
                let others = Counted.text(records, "record of others", plural: "records of others")
                parts.append("\(others) taken in")
            }
            if repairs > 0 { parts.append("\(Counted.text(repairs, "record")) repaired") }
            if after.conflicts > 0 {
                let waiting = Counted.text(after.conflicts, "conflict waits", plural: "conflicts wait")
                parts.append("\(waiting): tidemark device conflicts \(file)")
            }
            if after.overruled > before.overruled {
                parts.append(
                    """
                    \(after.overruled - before.overruled) overruled, the values kept: tidemark device conflicts \
                    \(file)
                    """)
            }
            Terminal.line("synced: \(parts.joined(separator: ", "))")
        }
    }

    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show a device's state: server, revision, pending changes, conflicts.")
        @Argument(help: "The device's file.") var file: String
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Terminal.run {
                let status = try await OpenDevice.status(file)
                if json { return try Terminal.json(status) }
                let uncaptured = Counted.text(status.uncapturedRecords, "record")
                let program = "\(uncaptured): a program seems to edit this file with triggers switched off"
                Terminal.table([
                    ["server", status.server], ["zone", status.zone], ["user", status.user ?? "nobody's yet"],
                    ["device", status.device],
                    ["epoch", status.epoch ?? "not known yet"], ["revision", String(status.revision)],
                    [
                        "pending",
                        """
                        \(Counted.text(status.pendingChangeSets, "change set")), \
                        \(Counted.text(status.pendingRecords, "record"))
                        """,
                    ], ["conflicts", String(status.conflicts)], ["overruled", String(status.overruled)],
                    ["uncaptured", status.uncapturedRecords > 0 ? program : "0"],
                    ["last contact", status.lastContact.map { "\($0), noted once a minute" } ?? "never"],
                ])
            }
        }
    }
}
