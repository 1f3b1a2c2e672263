public import GRDB
import TidemarkCore

/// The counter of temporary ids for an app: -1, -2, and so on.
///
/// The file stores the counter, so it survives restarts, and two processes get different ids.
public enum TemporaryIDs {
    /// Returns the next id, inside a write; throws `DatabaseError` if the file has no Tidemark tables.
    public static func next(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db, cached: "UPDATE tidemark_temporary SET next = next - 1 RETURNING next + 1") ?? -1
    }

    /// Returns the permanent id of a temporary one; nil until the server has assigned it.
    public static func permanentID(for id: Int64, in table: String, _ db: Database) throws -> Int64? {
        try Int64.fetchOne(
            db, cached: "SELECT permanent FROM tidemark_idmap WHERE tbl = ? AND temporary = ?", arguments: [table, id])
    }

    /// Returns the current id of a record: the permanent id if the server has assigned it.
    ///
    /// In plain SQL: `coalesce((SELECT permanent FROM tidemark_idmap WHERE tbl = 'player' AND temporary = -5), -5)`.
    public static func current(_ id: Int64, in table: String, _ db: Database) throws -> Int64 {
        guard TemporaryID.isTemporary(id) else { return id }
        return try permanentID(for: id, in: table, db) ?? id
    }
}

/// A GRDB record with an integer key, which any program of this device may create.
///
/// Where the server lends ids, SQLite draws the record's permanent id, and there is nothing to do. Otherwise
/// a new record without an id gets a temporary one, until the next sync.
///
/// ```swift
/// struct Player: Codable, FetchableRecord, SyncedRecord {
///     var id: Int64?
///     var name: String
/// }
/// try player.insert(db)  // player.id is the id that the record keeps
/// ```
public protocol SyncedRecord: MutablePersistableRecord {
    /// The record's key; nil before the insert.
    var id: Int64? { get set }
}

extension SyncedRecord {
    /// Gives the record a temporary id if it has no id and SQLite draws none that it keeps.
    public mutating func willInsert(_ db: Database) throws {
        guard id == nil, try !DrawnIDs.drawsPermanentIDs(Self.databaseTableName, in: db) else { return }
        id = try TemporaryIDs.next(db)
    }

    /// Takes the id that SQLite has drawn.
    public mutating func didInsert(_ inserted: InsertionSuccess) { if id == nil { id = inserted.rowID } }
}

extension SyncedRecord {
    /// Replaces a temporary id by the permanent one if the server has assigned it.
    ///
    /// Call it before `update(db)` or `delete(db)` if a sync may have run since the app read the record.
    /// After a sync, no row has the temporary id.
    public mutating func resolveID(_ db: Database) throws {
        if let id { self.id = try TemporaryIDs.current(id, in: Self.databaseTableName, db) }
    }

    /// Updates the record, even if it still has its temporary id.
    public mutating func updateResolved(_ db: Database) throws {
        try resolveID(db)
        try update(db)
    }

    /// Deletes the record, even if it still has its temporary id.
    ///
    /// - Returns: Whether a row existed.
    @discardableResult public mutating func deleteResolved(_ db: Database) throws -> Bool {
        try resolveID(db)
        return try delete(db)
    }
}

extension SyncedRecord where Self: FetchableRecord {
    /// Fetches a record by its current id or its former temporary id.
    public static func fetchResolved(_ db: Database, id: Int64) throws -> Self? {
        try fetchOne(db, key: TemporaryIDs.current(id, in: databaseTableName, db))
    }
}
