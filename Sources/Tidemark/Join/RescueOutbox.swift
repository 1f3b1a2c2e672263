import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Takes over what waits in a damaged file into one that has just joined the same zone: edits, the
/// outbox, conflicts, the map of ids, and who the device is.
///
/// The rows themselves come from the server, so it does not matter which of the damaged ones can
/// be read. The outbox is taken over whole or not at all: half a change set must not be sent. The
/// change sets keep their ids, so what the server has already is answered and not done again.
struct RescueOutbox {
    let db: Database
    /// The damaged file, or better a copy of it.
    let damagedPath: String
    let now: Date
    let newID: () -> UUID

    private static let outbox = [
        "tidemark_changeset", "tidemark_wire_rest", "tidemark_outbox", "tidemark_after",
        "tidemark_base", "tidemark_idmap", "tidemark_temporary",
    ]
    /// What the snapshot says about the new file.
    private static let ofTheNewFile: Set<String> = ["id", "epoch", "schema", "contact"]
    private static let conflicts = ["tidemark_conflict", "tidemark_conflict_record"]

    /// The server and zone that a damaged file has joined.
    static func membership(ofFileAt path: String) throws -> (server: String, zone: String) {
        var configuration = Configuration()
        configuration.readonly = true
        return try typing(path) {
            try DatabaseQueue(path: path, configuration: configuration).read { db in
                try SyncEngine.membership(in: db)
            }
        }
    }

    /// Takes everything over, in one transaction of its own.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` that names the part of the damaged file which
    ///   cannot be read; then nothing was taken over.
    func takeOver() throws {
        try db.execute(sql: "ATTACH ? AS damaged", arguments: [damagedPath])
        let outcome = Swift.Result {
            try Self.typing(damagedPath) {
                try Transaction.withoutForeignKeys(db) { try copyAll() }
            }
        }
        try db.execute(sql: "DETACH damaged")
        try outcome.get()
    }

    private func copyAll() throws {
        let file = try DeviceFile(db)
        let epoch = try String.fetchOne(db, sql: "SELECT epoch FROM damaged.tidemark_device")
        try EngineConnection.prepare(db, schema: file.schema)
        for table in Self.outbox + Self.conflicts { try copy(table) }
        try copy("tidemark_capture")
        for table in file.schema.tables { try copy(CaptureTables.shadow(table)) }
        try keepIdentity()
        try DrainCapture(db: db, schema: file.schema).drain(
            boundaries: [],
            now: now,
            newID: newID
        )
        // In another history what waits is judged with the next sync, which first asks the server
        // what it knows of it; until then its bases stay those of the old history.
        if let epoch, epoch != file.epoch {
            return try db.execute(sql: "UPDATE tidemark_device SET epoch = ?", arguments: [epoch])
        }
        try DeviceFile.whileApplying(db) {
            let pending = PendingChanges(db: db, schema: file.schema)
            try pending.refreshBase()
            try pending.replay()
        }
    }

    /// Copies the rows of a table of bookkeeping, of the columns that both files know.
    private func copy(_ table: String) throws {
        let known = try columns(of: table, in: "main")
        let there = Set(try columns(of: table, in: "damaged"))
        let shared = known.filter(there.contains)
        guard !shared.isEmpty else { return }
        let (name, list) = (SQLText.name(table), SQLText.names(shared))
        try db.execute(sql: "DELETE FROM main.\(name)")
        try db.execute(
            sql:
                "INSERT INTO main.\(name) (\(list)) SELECT \(list) FROM damaged.\(name) NOT INDEXED"
        )
    }

    private func columns(of table: String, in file: String) throws -> [String] {
        try String.fetchAll(
            db,
            sql: "SELECT name FROM pragma_table_info(?, ?)",
            arguments: [table, file]
        )
    }

    /// The new file is the same device, and goes on counting where the damaged one was.
    private func keepIdentity() throws {
        let there = Set(try columns(of: "tidemark_device", in: "damaged"))
        let own = try columns(of: "tidemark_device", in: "main")
            .filter { there.contains($0) && !Self.ofTheNewFile.contains($0) }
        let list = SQLText.names(own)
        // The snapshot's rows have been seen, too.
        let clock = try DeviceClock.read(db)
        try db.execute(
            sql:
                "UPDATE tidemark_device SET (\(list)) = (SELECT \(list) FROM damaged.tidemark_device)"
        )
        try DeviceClock.store(clock, in: db)
        try db.execute(
            sql: """
                UPDATE sqlite_sequence SET seq = max(sqlite_sequence.seq, d.seq)
                FROM damaged.sqlite_sequence AS d WHERE d.name = sqlite_sequence.name
                """
        )
    }

    private static func typing<Result>(_ path: String, _ work: () throws -> Result) throws -> Result
    {
        do {
            return try work()
        } catch let error as DatabaseError where error.isAboutContent {
            throw TidemarkError(
                .fileDamaged,
                "What waits in the file cannot be read either: \(error.message ?? "it is damaged").",
                fix:
                    "Try `sqlite3 FILE .recover`, or join anew with `tidemark device join` and keep the file."
            )
        }
    }
}

extension DatabaseError {
    /// Whether the content of a file is the matter: damaged, or without what a device's file has.
    fileprivate var isAboutContent: Bool {
        [.SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_MISMATCH]
            .contains(resultCode)
    }
}
