import ArgumentParser
import Foundation
import Tidemark
import TidemarkCore
import TidemarkTerminal

/// `tidemark device`: everything about one device's file.
struct Device: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Join a server with a SQLite file, sync it, and look after it.",
        subcommands: [Join.self, Rescue.self, Sync.self, Status.self, Conflicts.self, Resolve.self]
    )
}

extension Device {
    /// `tidemark device join`.
    struct Join: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a device file: the zone's tables with all their rows, ready to edit.",
            discussion: """
                FILE must not exist yet. It becomes an ordinary SQLite file; edit it with any program. New rows of tables with \
                an INTEGER PRIMARY KEY get a temporary id (leave the id out) until the server answers with the permanent one.

                A join that is cut short leaves nothing behind; run it again. Only if it is killed outright, the folder \
                FILE.<id> with what was there stays, until the next join of FILE removes it.
                """
        )
        @Argument(help: "The server, for instance http://127.0.0.1:8080.") var url: String
        @Argument(help: "The file to make.") var file: String
        @Option(help: "The zone.") var zone = "main"
        @OptionGroup var access: ServerAccess

        func run() async throws {
            try await Terminal.runInOrder {
                let started = ContinuousClock.now
                try await Download(url: url, zone: zone, access: access).run {
                    try await $0.join(path: file, progress: $1)
                } saying: {
                    "\(file) joined \(url) at revision \($0.revision) in \(Self.seconds(since: started)) s"
                }
            }
        }

        static func seconds(since start: ContinuousClock.Instant) -> String {
            let seconds = (ContinuousClock.now - start) / .seconds(1)
            return String(format: "%.1f", seconds)
        }
    }

    /// `tidemark device sync`.
    struct Sync: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send what was edited, take in what others did.",
            discussion: """
                Exit codes: 0 all is even; 3 synced, but conflicts wait (see `device conflicts`); 4 the server cannot be reached: \
                the edits are in the outbox and nothing is lost; 5 another process syncs the file just now; 1 another failure.
                """
        )
        @Argument(help: "The device's file.") var file: String
        @Flag(
            help: """
                Go on: sync when the server tells of news, and look for edits and news every \
                --every seconds.
                """
        ) var watch = false
        @Option(
            help: ArgumentHelp(
                "The longest pause with --watch, in seconds; after failures pauses grow beyond it.",
                valueName: "seconds"
            )
        ) var every = 2.0
        @Option(
            help: ArgumentHelp("The largest value of a column that is sent; larger ones are parked.", valueName: "MiB")
        ) var valueMax = Limits.standard.valueBytesMax >> 20
        @OptionGroup var access: ServerAccess

        @Flag(
            inversion: .prefixedNo,
            help: """
                Divide what other programs wrote between two looks along references, so that one refused edit leaves the \
                others alone; kept for the file until the opposite is said.
                """
        ) var independent: Bool?
        @Option(help: ArgumentHelp("The same for one table; may be repeated.", valueName: "table"))
        var independentTable: [String] = []

        /// What is declared; nil: nothing new.
        private var declared: IndependentTables? {
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
            try await Terminal.runInOrder {
                var limits = Limits.standard
                limits.valueBytesMax = valueMax << 20
                let device = try await OpenDevice(file, access: access, independent: declared, limits: limits)
                if watch {
                    await device.engine.listen()
                    await device.engine.watchOutside()
                }
                var pace = Pace(interval: .seconds(every), first: .seconds(min(every, 1)))
                var told: PushedChange?
                repeat {
                    do {
                        try await round(device, told)
                        pace.succeeded()
                    } catch let error as TidemarkError where watch && isPassing(error) {
                        Terminal.note("tidemark: \(error.message) Trying again.")
                        pace.failed(retryAfterSeconds: error.retryAfterSeconds)
                    }
                    if watch {
                        told = await device.engine.pause(
                            atMost: pace.pause(jitter: Pace.systemJitter()),
                            canEndEarly: pace.endsWithEdit
                        )
                    }
                } while watch
            }
        }

        /// Whether an error can be over by the next round, in which the edits are sent.
        private func isPassing(_ error: TidemarkError) -> Bool { [.retry, .signIn].contains(error.recovery) }

        @Flag(help: "Go on although most of the records here would be deleted.") var acceptMassDeletion = false

        private func round(_ device: OpenDevice, _ told: PushedChange?) async throws {
            let before = try await device.engine.status()
            let events = try await device.syncCollectingEvents(acceptingMassDeletion: acceptMassDeletion, told: told)
            let after = try await device.engine.status()
            let isQuiet = events.isEmpty && before.revision == after.revision
            if !watch || !isQuiet { report(events, before, after) }
            if !watch, after.conflicts > 0 { throw ExitCode(3) }
        }

        private func report(_ events: [SyncEvent], _ before: DeviceStatus, _ after: DeviceStatus) {
            var parts = ["revision \(before.revision) -> \(after.revision)"]
            var sent = 0
            var records = 0
            var taken = nil as Int?
            var identities = 0
            var repaired = 0
            for event in events {
                if case .sent(let count) = event { sent += count }
                if case .remoteChanges(_, let count) = event { records += count }
                if case .snapshotTaken(_, let count) = event { taken = count }
                if case .identitiesAssigned(_, let ids) = event { identities += ids.count }
                if case .repaired(let count) = event { repaired += count }
                if case .conflict(let id) = event { Terminal.line("conflict: \(id)") }
                if case .historyChanged(_, let count) = event {
                    parts.append("the server's history is another one now")
                    if count > 0 { parts.append("\(Counted.text(count, "forgotten change set")) offered again") }
                }
            }
            if sent > 0 { parts.append("\(Counted.text(sent, "change set")) sent") }
            if identities > 0 {
                let ids = identities == 1 ? "its id" : "their ids"
                parts.append("\(Counted.text(identities, "new record")) got \(ids)")
            }
            if let taken { parts.append("a snapshot of \(Counted.text(taken, "record")) taken in") }
            if records > 0 {
                let others = Counted.text(records, "record of others", plural: "records of others")
                parts.append("\(others) taken in")
            }
            if repaired > 0 { parts.append("\(Counted.text(repaired, "record")) repaired") }
            if after.conflicts > 0 {
                let waiting = Counted.text(after.conflicts, "conflict waits", plural: "conflicts wait")
                parts.append("\(waiting): tidemark device conflicts \(file)")
            }
            if after.overruled > before.overruled {
                parts.append(
                    "\(after.overruled - before.overruled) overruled, the values kept: tidemark device conflicts \(file)"
                )
            }
            Terminal.line("synced: \(parts.joined(separator: ", "))")
        }
    }

    /// `tidemark device status`.
    struct Status: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show where a device stands: server, revision, what waits."
        )
        @Argument(help: "The device's file.") var file: String
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Terminal.run {
                let status = try await OpenDevice.status(file)
                if json { return try Terminal.json(status) }
                Terminal.table([
                    ["server", status.server], ["zone", status.zone], ["device", status.device],
                    ["epoch", status.epoch ?? "not known yet"], ["revision", String(status.revision)],
                    [
                        "pending",
                        "\(Counted.text(status.pendingChangeSets, "change set")), \(Counted.text(status.pendingRecords, "record"))",
                    ], ["conflicts", String(status.conflicts)], ["overruled", String(status.overruled)],
                    ["last contact", status.lastContact ?? "never"],
                ])
            }
        }
    }
}
