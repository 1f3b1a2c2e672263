import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Takes over what waits in a damaged file into one that has just joined the same zone: edits, the
/// outbox, conflicts, the map of ids, and who the device is.
///
/// Only what nobody else has comes from the damaged file; rows, schema, fingerprints and whatever
/// else the server can tell are those of the new one. The outbox is taken over whole or not at
/// all: half a change set must not be sent. The change sets keep their ids, so what the server has
/// already is answered and not done again. At the end the new file makes a request, as its next
/// sync would: what cannot be sent is no rescue.
struct RescueOutbox {
    let db: Database
    /// A copy of the damaged file, which is written to.
    let damagedPath: String
    let now: Date
    let newID: () -> UUID
    var limits = Limits.standard

    private static let outbox = ["tidemark_changeset", "tidemark_wire_rest", "tidemark_outbox", "tidemark_after"]
    private static let conflicts = ["tidemark_conflict", "tidemark_conflict_record"]
    /// What can be done without.
    private static let optional = ["tidemark_idmap", "sqlite_sequence", "tidemark_temporary"]

    /// The server and zone that a damaged file has joined.
    static func membership(ofFileAt path: String) throws -> (server: String, zone: String) {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.prepareDatabase { try DamagedFile.tolerate(in: $0) }
        return try typing("the table tidemark_device") {
            let row = try DatabaseQueue(path: path, configuration: configuration).read {
                try Row.fetchOne($0, sql: "SELECT server, zone FROM tidemark_device")
            }
            guard let row else { throw RescuedContent.damaged("who the device is") }
            return try (row.value("server"), row.value("zone"))
        }
    }

    /// Takes everything over, in one transaction of its own.
    ///
    /// - Returns: What is lost, in words; mostly nothing.
    /// - Throws: ``TidemarkCore/TidemarkError`` that names the part of the damaged file which
    ///   cannot be read; then nothing was taken over.
    func takeOver() throws -> [String] {
        var lost: [String] = []
        try Self.typing("the file") {
            let damaged = DamagedFile(db: db, path: damagedPath)
            try damaged.attached {
                let readable = try damaged.setAside(Self.optional)
                try Transaction.withoutForeignKeys(db) { lost = try copyAll(readable) }
            }
            try RescuedContent(db: db).proveUsable(limits: limits, now: now, newID: newID)
        }
        return lost
    }

    private func copyAll(_ readable: Set<String>) throws -> [String] {
        let file = try DeviceFile(db)
        try EngineConnection.prepare(db, schema: file.schema)
        for table in Self.outbox + Self.conflicts + ["tidemark_capture"] { try copy(table) }
        for table in file.schema.tables { try copy(CaptureTables.shadow(table)) }
        var lost: [String] = []
        if !readable.contains("tidemark_idmap") {
            lost.append("the permanent ids that earlier temporary ids became")
        } else {
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO tidemark_idmap (tbl, temporary, permanent)
                    SELECT tbl, temporary, permanent FROM temp.rescued_tidemark_idmap
                    WHERE typeof(tbl) = 'text' AND typeof(temporary) = 'integer'
                        AND typeof(permanent) = 'integer'
                    """
            )
        }
        let content = RescuedContent(db: db)
        try content.check(schema: file.schema)
        let epoch = try RescuedIdentity(db: db).take(counters: readable)
        try DrainCapture(db: db, schema: file.schema).drain(boundaries: [], now: now, newID: newID)
        try content.nameBases()
        // In another history what waits is judged with the next sync, which first asks the server
        // what it knows of it; until then its bases stay those of the old history.
        if let epoch, epoch != file.epoch {
            try db.execute(sql: "UPDATE tidemark_device SET epoch = ?", arguments: [epoch])
            return lost
        }
        try DeviceFile.whileApplying(db) {
            let pending = PendingChanges(db: db, schema: file.schema)
            try pending.refreshBase()
            try pending.replay()
        }
        return lost
    }

    /// Copies the rows of a table of bookkeeping, of the columns that both files know.
    private func copy(_ table: String) throws {
        try Self.typing("the table \(table)") {
            let known = try columns(of: table, in: "main")
            let there = Set(try columns(of: table, in: "damaged"))
            let shared = known.filter(there.contains)
            guard !shared.isEmpty else { return try requireAbsent(table) }
            let name = SQLText.name(table)
            let list = SQLText.names(shared)
            try db.execute(sql: "DELETE FROM main.\(name)")
            try db.execute(sql: "INSERT INTO main.\(name) (\(list)) SELECT \(list) FROM damaged.\(name) NOT INDEXED")
        }
    }

    /// A table that is not there at all is an older version's file, or one whose entry of the
    /// schema is damaged.
    private func requireAbsent(_ table: String) throws {
        let isUnreadable = try Bool.fetchOne(
            db,
            sql: """
                SELECT count(*) FILTER (WHERE tbl_name = ?1 OR name = ?1) > 0
                    OR count(*) FILTER (WHERE name IN ('tidemark_device', 'tidemark_outbox')) < 2
                FROM damaged.sqlite_schema
                """,
            arguments: [table]
        )
        guard isUnreadable == false else { throw RescuedContent.damaged("the table \(table)") }
    }

    private func columns(of table: String, in file: String) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT name FROM pragma_table_info(?, ?)", arguments: [table, file])
    }

    private static func typing<Result>(_ what: String, _ work: () throws -> Result) throws -> Result {
        do { return try work() } catch let error as DatabaseError where error.isAboutContent {
            throw RescuedContent.damaged(what, because: error.message)
        } catch let error where error is RowDecodingError || error is DecodingError {
            throw RescuedContent.damaged(what)
        }
    }
}

extension DatabaseError {
    /// Whether the content of a file is the matter: damaged, or without what a device's file has.
    fileprivate var isAboutContent: Bool {
        [.SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(resultCode)
    }
}
