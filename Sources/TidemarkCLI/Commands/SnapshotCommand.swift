import ArgumentParser
import Foundation
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTerminal

/// `tidemark snapshot`: creates a file to ship inside an app.
struct SnapshotCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "snapshot",
        abstract: "Create a file to ship inside an app, so that its first start needs no download.",
        discussion: """
            OUT has the zone's rows, tables and revision, but no device id yet. Each copy becomes a new device when an \
            app opens it with a SyncEngine, or when `tidemark device sync` syncs it, and requests only later changes. \
            OUT is one file, vacuumed, without a write-ahead log, so it may lie in a read-only bundle; copy it from \
            there before you open it.

            The rows come from a server, or from a zone's own file on this machine, the file of `tidemark serve FILE`; \
            a server may serve it meanwhile. Other programs' changes to that file become a revision first. The file \
            knows its revision, its history, its served tables and their policies. It does not know its server's \
            address: give --server if you sync copies with `tidemark device sync`; for a SyncEngine, the app gives the \
            address.

              tidemark snapshot https://sync.example.org Resources/library.sqlite
              tidemark snapshot zone.sqlite Resources/library.sqlite --server https://sync.example.org
            """)
    @Argument(help: "The server, for instance http://127.0.0.1:8080, or the zone's file.", completion: .file())
    var source: String
    @Argument(help: "The file to create; it must not exist yet.") var out: String
    @Option(help: "The zone, for a server with several zones.") var zone = EmbeddedStore.zoneName
    @Option(help: ArgumentHelp("With a file, the server that has it.", valueName: "url")) var server: String?
    @OptionGroup var functions: FunctionOptions
    @OptionGroup var access: ServerAccess
    private var isURL: Bool { source.hasPrefix("http://") || source.hasPrefix("https://") }

    func validate() throws {
        guard !isURL || server == nil else { throw ValidationError("--server belongs to a file, not to a server.") }
        guard isURL || zone == EmbeddedStore.zoneName else {
            throw ValidationError("A file has one zone, \(EmbeddedStore.zoneName).")
        }
    }

    func run() async throws {
        try await Terminal.runInterruptibly {
            if isURL {
                return try await Download(url: source, zone: zone, access: access, functions: functions.names).run {
                    try await $0.ship(path: out, progress: $1)
                } saying: {
                    summary($0)
                }
            }
            Terminal.line(summary(try await ship()))
        }
    }

    private func summary(_ status: DeviceStatus) -> String {
        "\(out) is \(source) at revision \(status.revision), for any number of devices"
    }

    private func ship() async throws -> DeviceStatus {
        try ExistingFile.require(source, fix: "Check the path; a server's address begins with http:// or https://.")
        if let server { _ = try HTTPTransport(url: server) }
        let store = try EmbeddedStore(servedFile: source)
        let outcome = await Result {
            var join = DeviceFileJoin(server: server ?? "") { path in try await store.writeSnapshot(to: path) }
            join.functions = functions.names
            return try await join.ship(path: out)
        }
        try await store.close()
        return try outcome.get()
    }
}
