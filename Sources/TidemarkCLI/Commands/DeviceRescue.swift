import ArgumentParser
import Foundation
import Tidemark

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

        func run() async throws {
            try await Terminal.run {
                let place = try SyncEngine.membership(ofFileAt: damaged)
                let bar = ProgressBar("downloading")
                let device = try await DeviceFileJoin(
                    transport: HTTPTransport(url: place.server),
                    server: place.server,
                    zone: place.zone
                ).rescue(path: file, damaged: damaged) { bar.update($0, of: $1) }
                bar.finish(
                    "\(file) has everything of \(damaged) that waits: \(device.pendingChangeSets) change set(s), "
                        + "\(device.conflicts) conflict(s), at revision \(device.revision)"
                )
            }
        }
    }
}
