import GRDB
import TidemarkCore
import TidemarkSQL

/// Validates a snapshot, which is untrusted input: its file before reading, its rows before the commit.
enum SnapshotCheck {
    static func unusable(_ reason: String, table: String? = nil) -> TidemarkError {
        TidemarkError(
            .invalidResponse, "The server's snapshot cannot be used: \(reason)",
            fix: "The device applied nothing of it, and the outbox is kept. Check the URL and the server.",
            place: .init(table: table))
    }

    /// Turns errors of SQLite or the schema into ``unusable(_:table:)``, unless the device's own file is damaged.
    static func typingErrors<Result>(isOwnFileSound: () throws -> Bool = { true }, _ body: () throws -> Result) throws
        -> Result
    {
        do { return try body() } catch let error as DatabaseError {
            switch error.resultCode {
            case .SQLITE_CORRUPT, .SQLITE_NOTADB:
                guard try isOwnFileSound() else { throw error }
                throw unusable("it is damaged.")
            case .SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_ERROR, .SQLITE_MISUSE, .SQLITE_TOOBIG, .SQLITE_INTERRUPT:
                throw unusable("\(error.message ?? "it does not fit the tables").")
            default: throw error
            }
        } catch let schema as UnsyncableSchema {
            let problem = schema.problems[0]
            throw unusable("its tables cannot be synced: \(problem.table) \(problem.reason).", table: problem.table)
        }
    }

    /// Refuses anything but plain tables, because reading it could run code.
    static func content(_ db: Database) throws {
        if planted(PlantedBug.trustsSnapshot) { return }
        let other = try String.fetchOne(
            db,
            sql: """
                SELECT name FROM sqlite_master WHERE type <> 'table' OR sql LIKE 'CREATE VIRTUAL%'
                UNION ALL
                SELECT entry.name
                FROM sqlite_master AS entry, pragma_table_xinfo(entry.name) AS column_info
                WHERE column_info.hidden
                LIMIT 1
                """)
        guard other == nil else { throw unusable("it contains more than plain tables.") }
    }

    /// Refuses the snapshot of another zone, or of an impossible revision.
    static func header(_ header: SnapshotFormat.Header, zone: String) throws {
        guard header.zone == zone || zone == ZoneKind.privateAlias else { throw unusable("it is of another zone.") }
        guard (0...TemporaryID.reservedMax).contains(header.revision), !header.epoch.isEmpty else {
            throw unusable("its revision is impossible.")
        }
    }

    /// Refuses rows with temporary ids or broken references, while the tables hold the snapshot's rows only.
    static func rows(of schema: SyncSchema, in db: Database) throws {
        for table in schema.tables {
            try ids(of: table, in: "main", db)
            guard !table.references.isEmpty else { continue }
            guard try !hasBrokenReference(table, db) else {
                throw unusable("a record refers to one that is not there.", table: table.name)
            }
        }
    }

    private static func hasBrokenReference(_ table: SyncedTable, _ db: Database) throws -> Bool {
        guard let zeroReferences = table.traits?.zeroReferences else {
            return try Row.fetchOne(db, sql: "PRAGMA foreign_key_check(\(SQLText.name(table.name)))") != nil
        }
        let isNone = zeroReferences.map {
            "reference.\"from\" = \(SQLText.literal($0)) AND child_row.\(SQLText.name($0)) = 0"
        }
        return try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (
                    SELECT 1
                    FROM pragma_foreign_key_check(?1) AS broken
                    JOIN pragma_foreign_key_list(?1) AS reference ON reference.id = broken.fkid
                    LEFT JOIN main.\(SQLText.name(table.name)) AS child_row ON child_row.rowid = broken.rowid
                    WHERE (\(isNone.joined(separator: " OR "))) IS NOT TRUE)
                """, arguments: [table.name]) ?? false
    }

    /// Refuses rows with temporary ids, which mean other records on this device.
    static func ids(of table: SyncedTable, in database: String, _ db: Database) throws {
        guard table.keyKind == .integer else { return }
        let name = SQLText.name(table.name)
        let key = SQLText.name(table.key[0])
        let isTemporary = try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (SELECT 1 FROM \(database).\(name) WHERE \(key) < \(table.lowestID))
                    OR EXISTS (SELECT 1 FROM \(database).\(name)
                        WHERE \(key) > \(TemporaryID.permanentMax))
                """)
        guard isTemporary != true else { throw unusable("a record has an id that no server gives.", table: table.name) }
    }
}
