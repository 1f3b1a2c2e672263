import ArgumentParser
import Foundation
import Tidemark

/// `tidemark snapshot`: the file that an app brings along.
struct SnapshotCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "snapshot",
        abstract: "Make a file to ship inside an app, so that its first start needs no download.",
        discussion: """
            OUT has the zone's rows, tables and revision, and is nobody's yet: each copy of it becomes a device of its own \
            when an app opens it with a SyncEngine, or `tidemark device sync` does, and asks only for what is new since. It is \
            one file, vacuumed, without a write-ahead log, so it may lie in a read-only bundle; copy it from there before \
            you open it.

              tidemark snapshot https://sync.example.org Resources/library.sqlite
            """
    )
    @Argument(help: "The server, for instance http://127.0.0.1:8080.") var url: String
    @Argument(help: "The file to make; it must not exist yet.") var out: String
    @Option(help: "The zone.") var zone = "main"

    func run() async throws {
        try await Terminal.run {
            let bar = ProgressBar("downloading")
            let device = try await DeviceFileJoin(
                transport: HTTPTransport(url: url),
                server: url,
                zone: zone
            ).ship(path: out) { bar.update($0, of: $1) }
            bar.finish("\(out) is \(url) at revision \(device.revision), for any number of devices")
        }
    }
}
