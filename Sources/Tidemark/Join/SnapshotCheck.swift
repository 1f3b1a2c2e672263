import GRDB
import TidemarkCore
import TidemarkSQLite

/// A snapshot is hostile input: what must be true of its file before it is read, and of its rows
/// before they are kept.
enum SnapshotCheck {
    /// The error of a snapshot of which nothing was taken.
    static func unusable(_ reason: String, table: String? = nil) -> TidemarkError {
        TidemarkError(
            .invalidResponse,
            "The server's snapshot cannot be used: \(reason)",
            fix: "Nothing was taken from it, and what waits is kept. Check the URL and the server.",
            place: .init(table: table)
        )
    }

    /// Runs what reads the snapshot, and turns what SQLite or the schema has against it into an
    /// error that says so.
    ///
    /// `isOwnFileSound` tells whether damage that is found is the snapshot's.
    static func blaming<Result>(isOwnFileSound: () throws -> Bool = { true }, _ body: () throws -> Result) throws
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
        } catch is UnsyncableSchema { throw unusable("its tables are none that can be synced.") }
    }

    /// Refuses everything that is more than plain tables: reading it could run something.
    static func content(_ db: Database) throws {
        if planted(PlantedBug.trustsSnapshot) { return }
        let other = try String.fetchOne(
            db,
            sql: """
                SELECT name FROM sqlite_master WHERE type <> 'table' OR sql LIKE 'CREATE VIRTUAL%'
                UNION ALL
                SELECT m.name FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS x WHERE x.hidden
                LIMIT 1
                """
        )
        guard other == nil else { throw unusable("it contains more than plain tables.") }
    }

    /// Refuses another zone than the one asked for, and a revision that no zone reaches.
    static func header(_ header: SnapshotFormat.Header, zone: String) throws {
        guard header.zone == zone else { throw unusable("it is of another zone.") }
        guard (0...TemporaryID.reservedMax).contains(header.revision), !header.epoch.isEmpty else {
            throw unusable("it is of a revision that there cannot be.")
        }
    }

    /// Refuses rows with ids that mean other records on this device, or that refer to nothing,
    /// while the tables hold the snapshot's rows alone.
    static func rows(of schema: SyncSchema, in db: Database) throws {
        for table in schema.tables {
            try ids(of: table, in: "main", db)
            guard !table.references.isEmpty else { continue }
            let broken = try Row.fetchOne(db, sql: "PRAGMA foreign_key_check(\(SQLText.name(table.name)))")
            guard broken == nil else { throw unusable("a record refers to one that is not there.", table: table.name) }
        }
    }

    /// Refuses rows of a database with ids that mean other records on this device.
    static func ids(of table: SyncedTable, in database: String, _ db: Database) throws {
        guard table.keyKind == .integer else { return }
        let name = SQLText.name(table.name)
        let key = SQLText.name(table.key[0])
        let isTemporary = try Bool.fetchOne(
            db,
            sql: """
                SELECT EXISTS (SELECT 1 FROM \(database).\(name) WHERE \(key) < 0)
                    OR EXISTS (SELECT 1 FROM \(database).\(name)
                        WHERE \(key) > \(TemporaryID.permanentMax))
                """
        )
        guard isTemporary != true else { throw unusable("a record has an id that no server gives.", table: table.name) }
    }
}
