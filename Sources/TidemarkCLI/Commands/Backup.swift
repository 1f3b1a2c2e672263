import ArgumentParser
import Foundation
import Tidemark
import TidemarkCore
import TidemarkEmbedded
import TidemarkTerminal

/// `tidemark backup`: creates a copy that a server can serve again.
struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Copy a server's data folder, a served file, or a server's rows, so that it can be served again.",
        discussion: """
            For a served FILE, OUT is a full backup: rows, log, ids and policies, all of one commit. A server may \
            serve FILE meanwhile, and its requests do not wait. To restore, stop the server, copy OUT to FILE, and \
            start it once with --restored.

            With --data FOLDER, or with --file FILE for a served file with users, OUT is a folder with all zones and \
            the users, each file of one commit. To restore, stop the server, move its files away, copy those of OUT to \
            their place, and start it once with --restored.

            For a URL, OUT has only the tables and rows of the latest revision: no log, no ids of deleted records, and \
            none of the app's views and triggers. `tidemark serve OUT` begins a new history, and devices must join \
            again: the new history cannot recognize changes of older devices, so their retries would duplicate \
            records. The same holds for the URL of a server on PostgreSQL; use pg_dump for full backups of that \
            database.

            Each SQLite file is checked before OUT gets its name. The command overwrites no file.

              tidemark backup --data ./data backups/monday
              tidemark backup zone.sqlite backups/monday.sqlite
              tidemark backup https://sync.example.org rows.sqlite

            Exit codes: 0 OUT is there, whole and sound; 4 the server cannot be reached; 1 another failure. Then there \
            is no OUT, or of a folder one without the zones that the command names.
            """)
    @Option(help: ArgumentHelp("The data folder of a server, to copy it as a whole.", valueName: "folder"))
    var data: String?
    @Option(help: ArgumentHelp("A served file, to copy it with the zones and users beside it.", valueName: "file"))
    var file: String?
    @Argument(
        help: "The served file, or the server, for instance http://127.0.0.1:8080; none with --data or --file.",
        completion: .file())
    var sources: [String]
    @Option(help: "The zone, for a server with several zones.") var zone = EmbeddedStore.zoneName
    @OptionGroup var access: ServerAccess
    /// The file or server; empty with --data or --file.
    private var source: String { places == nil ? sources.first ?? "" : "" }
    /// The files of a server, to copy all of them.
    private var places: DataPlaces? { data.map(DataPlaces.init(folder:)) ?? file.map(DataPlaces.init(file:)) }
    private var out: String { sources.last ?? "" }
    private var isURL: Bool { source.hasPrefix("http://") || source.hasPrefix("https://") }

    func validate() throws {
        guard sources.count == (places == nil ? 2 : 1), data == nil || file == nil else {
            throw ValidationError(
                "Give FILE and OUT, a server's URL and OUT, or OUT with --data FOLDER or --file FILE.")
        }
        guard isURL || zone == EmbeddedStore.zoneName else {
            throw ValidationError("A file has one zone, \(EmbeddedStore.zoneName).")
        }
    }

    func run() async throws {
        try await Terminal.runInterruptibly {
            if let places {
                try copyAll(places, of: data ?? file ?? "")
            } else if isURL {
                try await copyRows()
            } else {
                try copyFile()
            }
        }
    }

    private func copyAll(_ places: DataPlaces, of name: String) throws {
        let bar = ProgressBar("copying")
        let backup = try ServerBackup(of: places, at: out, newID: { UUID() }) { done, total in
            try Task.checkCancellation()
            bar.update(done, of: total, unit: "zones")
        }
        bar.clear()
        let users = backup.hasUsers ? " and the users" : ""
        Terminal.line(
            "\(out) has \(Counted.text(backup.zones, "zone"))\(users) of \(name), "
                + "\(Counted.text(backup.rows, "row")), checked")
        let copying =
            data == nil
            ? "move its files away, copy those in \(out) there," : "move \(name) away, cp -Rp \(out) \(name),"
        Terminal.line("to put it back: stop the server, \(copying)")
        Terminal.line("and start it once with --restored; devices then send again what the copy lacks")
        guard !backup.missing.isEmpty else { return }
        throw TidemarkError(
            .unusableFile,
            "\(out) lacks \(Counted.text(backup.missing.count, "zone")). \(backup.missing.joined(separator: " "))",
            fix: "`tidemark verify` names the damage of the file of such a zone; keep its older backups.")
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
            """)
        let folder = URL(filePath: source).deletingLastPathComponent().path
        let isInFolder = source.hasSuffix("/\(EmbeddedStore.zoneName).sqlite") && DataPlaces(folder: folder).hasMore
        guard isInFolder || DataPlaces(file: source).hasMore else { return }
        let place = isInFolder ? "--data \(folder)" : "--file \(source)"
        Terminal.line("it has neither the users nor the other zones; for these: tidemark backup \(place) OUT")
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
            """)
        Terminal.line("to begin a new history with them: tidemark serve \(out)\(policies)")
    }
}
