import ArgumentParser
import Foundation
import Tidemark
import TidemarkTerminal

extension Device {
    struct Rescue: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replace a damaged device file by a new one, with all pending changes.",
            discussion: """
                The rows come from the server; edits, outbox and conflicts come from DAMAGED. If any of these cannot \
                be read, the command creates no file and names them. Before it creates the file, it sends one request, \
                like the next sync. DAMAGED is not changed. The new file is the same device, so do not sync DAMAGED \
                any more.
                """)
        @Argument(help: "The damaged file.") var damaged: String
        @Argument(help: "The file to create.") var file: String
        @OptionGroup var functions: FunctionOptions
        @OptionGroup var access: ServerAccess

        func run() async throws {
            try await Terminal.runInterruptibly {
                let place = try SyncEngine.membership(ofFileAt: damaged)
                var lostItems: [String] = []
                let download = Download(url: place.server, zone: place.zone, access: access, functions: functions.names)
                try await download.run { join, progress in
                    let outcome = try await join.rescue(path: file, damaged: damaged, progress: progress)
                    lostItems = outcome.lost
                    return outcome.status
                } saying: {
                    """
                    \(file) has everything of \(damaged) that waits: \
                    \(Counted.text($0.pendingChangeSets, "change set")), \
                    \(Counted.text($0.conflicts, "conflict")), at revision \($0.revision)
                    """
                }
                for item in lostItems { Terminal.note("lost, since it cannot be read: \(item)") }
            }
        }
    }
}
