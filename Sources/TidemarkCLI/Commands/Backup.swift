import ArgumentParser
import Foundation
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTerminal

/// `tidemark backup`: creates a copy that a server can serve again.
struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Copy a served file, or a server's rows, so that it can be served again.",
        discussion: """
            For a served FILE, OUT is a full backup: rows, log, ids and policies, all of one commit. A server may \
            serve FILE meanwhile, and its requests do not wait. To restore, stop the server, copy OUT to FILE, and \
            start it once with --restored.

            For a URL, OUT has only the tables and rows of the latest revision: no log, no ids of deleted records, and \
            none of the app's views and triggers. `tidemark serve OUT` begins a new history, and devices must join \
            again: the new history cannot recognize changes of older devices, so their retries would duplicate \
            records. The same holds for the URL of a server on PostgreSQL; use pg_dump for full backups of that \
            database.

            OUT is one SQLite file, checked before it gets its name. The command overwrites no file.

              tidemark backup zone.sqlite backups/monday.sqlite
              tidemark backup https://sync.example.org rows.sqlite

            Exit codes: 0 OUT is there and sound; 4 the server cannot be reached; 1 another failure, and there is no \
            OUT.
            """
    )
    @Argument(help: "The served file, or the server, for instance http://127.0.0.1:8080.", completion: .file())
    var source: String
    @Argument(help: "The file to create; it must not exist yet.") var out: String
    @Option(help: "The zone, for a server with several zones.") var zone = EmbeddedStore.zoneName
    @OptionGroup var access: ServerAccess

    private var isURL: Bool { source.hasPrefix("http://") || source.hasPrefix("https://") }

    func validate() throws {
        guard isURL || zone == EmbeddedStore.zoneName else {
            throw ValidationError("A file has one zone, \(EmbeddedStore.zoneName).")
        }
    }

    func run() async throws {
        try await Terminal.runInterruptibly { if isURL { try await copyRows() } else { try copyFile() } }
    }

    private func copyFile() throws {
        try ExistingFile.require(source)
        let bar = ProgressBar("copying")
        let backup = try ZoneBackup(of: source, at: out, id: UUID()) { done, total in
            try Task.checkCancellation()
            bar.update(done, of: total, unit: "pages")
        }
        bar.clear()
        Terminal.line(
            """
            \(out) is \(source) at revision \(backup.revision), \(Counted.text(Int(backup.rows), "row")), checked; to \
            put it back: serve it with --restored
            """
        )
    }

    private func copyRows() async throws {
        let bar = ProgressBar("downloading")
        let copy = try await DeviceFileJoin(transport: try access.transport(to: source), server: source, zone: zone)
            .copy(path: out) { bar.update($0, of: $1) }
        bar.clear()
        let policies = copy.policies.sorted { $0.key < $1.key }.map { " --policy \($0.key)=\($0.value.rawValue)" }
            .joined()
        Terminal.line(
            """
            \(out) has \(Counted.text(Int(copy.rows), "row")) of \(source) at revision \(copy.revision), without its \
            history
            """
        )
        Terminal.line("to begin a new history with them: tidemark serve \(out)\(policies)")
    }
}
