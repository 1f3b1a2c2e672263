import ArgumentParser
import Foundation
import Tidemark
import TidemarkTerminal

extension Device {
    /// `tidemark device rescue`.
    struct Rescue: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract:
                "Make a new device file in place of a damaged one, with all that waits in it.",
            discussion: """
                The rows come from the server; edits, the outbox and conflicts from DAMAGED, as far as these can be read: all of \
                them, or there is no new file and the error says what cannot be read. DAMAGED is not changed. The new file is the \
                same device, so do not sync DAMAGED any more.
                """
        )
        @Argument(help: "The damaged file.") var damaged: String
        @Argument(help: "The file to make.") var file: String
        @OptionGroup var access: ServerAccess

        func run() async throws {
            try await Terminal.runInOrder {
                let place = try SyncEngine.membership(ofFileAt: damaged)
                try await Download(url: place.server, zone: place.zone, access: access).run {
                    try await $0.rescue(path: file, damaged: damaged, progress: $1)
                } saying: {
                    "\(file) has everything of \(damaged) that waits: \(Counted.text($0.pendingChangeSets, "change set")), "
                        + "\(Counted.text($0.conflicts, "conflict")), at revision \($0.revision)"
                }
            }
        }
    }
}
