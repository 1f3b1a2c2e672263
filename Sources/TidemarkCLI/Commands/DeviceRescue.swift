import ArgumentParser
import Foundation
import Tidemark
import TidemarkTerminal

extension Device {
    /// `tidemark device rescue`.
    struct Rescue: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a new device file in place of a damaged one, with all that waits in it.",
            discussion: """
                The rows come from the server; edits, the outbox and conflicts from DAMAGED, as far as these can be read: all of \
                them, or there is no new file and the error says what cannot be read. Before the new file is there it makes a \
                request, as its next sync will. DAMAGED is not changed. The new file is the same device, so do not sync DAMAGED \
                any more.
                """
        )
        @Argument(help: "The damaged file.") var damaged: String
        @Argument(help: "The file to make.") var file: String
        @OptionGroup var access: ServerAccess

        func run() async throws {
            try await Terminal.runInOrder {
                let place = try SyncEngine.membership(ofFileAt: damaged)
                var lost: [String] = []
                let download = Download(url: place.server, zone: place.zone, access: access)
                try await download.run { join, progress in
                    let rescued = try await join.rescue(path: file, damaged: damaged, progress: progress)
                    lost = rescued.lost
                    return rescued.status
                } saying: {
                    "\(file) has everything of \(damaged) that waits: \(Counted.text($0.pendingChangeSets, "change set")), "
                        + "\(Counted.text($0.conflicts, "conflict")), at revision \($0.revision)"
                }
                for words in lost { Terminal.note("lost, since it cannot be read: \(words)") }
            }
        }
    }
}
