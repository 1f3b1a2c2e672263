import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Copies a damaged file's unsent state into a new file of the same zone.
///
/// It copies edits, the outbox, conflicts, the id map and the device's identity. Rows, schema and
/// fingerprints come from the server. It copies the outbox completely or not at all, because half a
/// change set must not be sent. Change sets keep their ids, so the server does not commit them twice.
/// At the end the new file builds a request, as its next sync would; if that fails, the rescue fails.
struct RescueOutbox {
    let db: Database
    /// The path of a copy of the damaged file, which this type writes to.
    let damagedPath: String
    let moment: Moment
    private static let outbox = ["tidemark_changeset", "tidemark_wire_rest", "tidemark_outbox", "tidemark_after"]
    private static let conflicts = ["tidemark_conflict", "tidemark_conflict_record"]
    /// The tables that a rescue can do without.
    private static let optional = ["tidemark_idmap", "sqlite_sequence", "tidemark_temporary"]

    static func membership(ofFileAt path: String) throws -> (server: String, zone: String) {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.prepareDatabase { try DamagedFile.tolerate(in: $0) }
        return try typing("the table tidemark_device") {
            let row = try DatabaseQueue(path: path, configuration: configuration).read {
                try Row.fetchOne($0, sql: "SELECT server, zone FROM tidemark_device")
            }
            guard let row else { throw RescuedContent.damaged("the device's identity") }
            return try (row.value("server"), row.value("zone"))
        }
    }

    /// Copies all in one transaction and describes lost optional data; throws if a needed part is unreadable.
    func takeOver() throws -> [String] {
        try Self.typing("the file") {
            let damaged = DamagedFile(db: db, path: damagedPath)
            let lost = try damaged.withAttachedCopy {
                let readable = try damaged.copyOptional(Self.optional)
                return try Transaction.withoutForeignKeys(db) { try copyAll(readable) }
            }
            try RescuedContent(db: db).proveUsable(at: moment)
            return lost
        }
    }

    private func copyAll(_ readable: Set<String>) throws -> [String] {
        let round = try RoundContext(prepared: db, at: moment)
        let file = round.file
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
                    """)
        }
        let content = RescuedContent(db: db)
        try content.check(schema: file.schema)
        let epoch = try RescuedIdentity(db: db).take(counters: readable)
        try round.drain(renumbering: .none)
        try content.createBases()
        // If the history differs, the next sync first asks the server which change sets it knows, and
        // then judges the rest. Until then the bases stay those of the old history.
        if let epoch, epoch != file.epoch {
            try db.execute(sql: "UPDATE tidemark_device SET epoch = ?", arguments: [epoch])
            return lost
        }
        // The file is new and has no conflict but those that it takes over.
        _ = try round.rebase(.confirmed) { [] }
        return lost
    }

    /// Copies the rows of a bookkeeping table, in the columns that both files have.
    private func copy(_ table: String) throws {
        try Self.typing("the table \(table)") {
            let ownColumns = try columns(of: table, in: "main")
            let damagedColumns = Set(try columns(of: table, in: "damaged"))
            let shared = ownColumns.filter(damagedColumns.contains)
            guard !shared.isEmpty else { return try requireAbsent(table) }
            let name = SQLText.name(table)
            let list = SQLText.names(shared)
            try db.execute(sql: "DELETE FROM main.\(name)")
            try db.execute(sql: "INSERT INTO main.\(name) (\(list)) SELECT \(list) FROM damaged.\(name) NOT INDEXED")
        }
    }

    /// Checks that the file never had a table, as in an older version; otherwise its schema entry is damaged.
    private func requireAbsent(_ table: String) throws {
        let isUnreadable = try Bool.fetchOne(
            db,
            sql: """
                SELECT count(*) FILTER (WHERE tbl_name = ?1 OR name = ?1) > 0
                    OR count(*) FILTER (WHERE name IN ('tidemark_device', 'tidemark_outbox')) < 2
                FROM damaged.sqlite_schema
                """, arguments: [table])
        guard isUnreadable == false else { throw RescuedContent.damaged("the table \(table)") }
    }

    private func columns(of table: String, in file: String) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT name FROM pragma_table_info(?, ?)", arguments: [table, file])
    }

    private static func typing<Result>(_ part: String, _ work: () throws -> Result) throws -> Result {
        do { return try work() } catch let error as DatabaseError where error.isAboutContent {
            throw RescuedContent.damaged(part, because: error.message)
        } catch let error where error is RowDecodingError || error is DecodingError {
            throw RescuedContent.damaged(part)
        }
    }
}

extension DatabaseError {
    /// Whether the error is about a file's content: it is damaged, or parts of a device's file are missing.
    fileprivate var isAboutContent: Bool {
        [.SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_MISMATCH].contains(resultCode)
    }
}
