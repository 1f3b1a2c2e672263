import ArgumentParser
import Foundation
import GRDB
import Tidemark
import TidemarkCore
import TidemarkSQL
import TidemarkEmbedded
import TidemarkTerminal

/// `tidemark digest`: prints content hashes of a file or a server.
struct DigestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "digest",
        abstract: "Print a canonical content hash of every table of a file or a server.",
        discussion: """
            Equal hashes mean equal rows, byte for byte, whatever the page layout or the order of insertion. Works on \
            a device's file, a served file, any other SQLite file, and on a server's URL. For a device's file and a \
            served file, it covers the synced tables.
            """)
    @Argument(help: "A SQLite file, or a server's URL.") var source: String
    @Option(help: "With a server's URL, the zone; ~ for your private one.") var zone = "main"
    @Flag(help: "Print JSON.") var json = false
    @OptionGroup var access: ServerAccess

    func run() async throws {
        try await Terminal.run {
            let digest = try await compute()
            if json { return try Terminal.json(digest) }
            let rows = digest.tables.map { [$0.table, String($0.rows), $0.hash] }
            let total = digest.tables.reduce(0) { $0 + $1.rows }
            Terminal.table(rows + [["total", String(total), digest.hash]], right: [1])
        }
    }

    private func compute() async throws -> ZoneDigest {
        if source.hasPrefix("http://") || source.hasPrefix("https://") {
            return try await access.transport(to: source).digest(zone: zone)
        }
        try ExistingFile.require(source)
        return try await OpenDevice.reading(at: source) { db in
            let schema = try SchemaIntrospection.syncedSchema(in: db)
            let revisionSQL =
                try db.tableExists("tidemark_zone")
                ? "SELECT revision FROM tidemark_zone"
                : db.tableExists("tidemark_state") ? "SELECT revision FROM tidemark_state" : "SELECT 0"
            return try Digest.compute(
                db, schema: schema, zone: "main", revision: Int64.fetchOne(db, sql: revisionSQL) ?? 0)
        }
    }
}
