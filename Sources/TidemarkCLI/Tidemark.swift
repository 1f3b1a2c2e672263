import ArgumentParser
import Foundation
import TidemarkCore
import TidemarkTerminal

/// The command line: a thin shell around the libraries, one file per command.
@main struct TidemarkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tidemark",
        abstract: "Offline-first sync for SQLite: your tables, your server.",
        discussion: """
            Serve an existing SQLite file, join it from any number of devices, and edit the files with any program:

              tidemark serve chinook.sqlite
              tidemark device join http://127.0.0.1:8080 phone.sqlite
              sqlite3 phone.sqlite "UPDATE artists SET name = 'AC-DC' WHERE id = 1"
              tidemark device sync phone.sqlite

            Exit codes: 0 done; 1 failed; 3 done, but conflicts wait to be resolved; 4 the server cannot be \
            reached, nothing is lost; 5 another process is syncing the file; 6 the server asks to come back \
            later; 64 wrong usage.
            """,
        version: TidemarkVersion.current,
        subcommands: [
            Serve.self, Device.self, SnapshotCommand.self, SchemaCommand.self, DigestCommand.self, Verify.self,
            Backup.self, UserCommand.self, TokenCommand.self, AuditCommand.self, AccessCommand.self, ZonesCommand.self,
            Misplaced.self,
        ])

    static func main() async {
        LargeBlocks.giveBack()
        // Zones, device files, snapshots and backups hold rows: other accounts of the machine may not read them.
        umask(0o077)
        // From here on: a reload while the server still opens its store does not end it.
        if CommandLine.arguments.dropFirst().first == "serve" { Interruption.ignoreHangUp() }
        await main(nil)
    }
}
