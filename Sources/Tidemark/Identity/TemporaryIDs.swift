public import GRDB
import TidemarkCore

/// The counter from which an app draws temporary ids: -1, -2, and so on.
///
/// It lies in the file, so it survives restarts, and two processes that draw at once get different
/// ids.
public enum TemporaryIDs {
    /// Draws the next id.
    ///
    /// Call inside a write.
    ///
    /// - Throws: `DatabaseError` when the file has no sync engine's tables.
    public static func next(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(db.cachedStatement(sql: "UPDATE tidemark_temporary SET next = next - 1 RETURNING next + 1"))
            ?? -1
    }

    /// The permanent id that a temporary one became, or nil while the server has not answered.
    public static func permanentID(for id: Int64, in table: String, _ db: Database) throws -> Int64? {
        try Int64.fetchOne(
            db.cachedStatement(sql: "SELECT permanent FROM tidemark_idmap WHERE tbl = ? AND temporary = ?"),
            arguments: [table, id]
        )
    }

    /// The id under which a record is found now: the permanent one, if that is known.
    ///
    /// In plain SQL: `coalesce((SELECT permanent FROM tidemark_idmap WHERE tbl = 'player' AND
    /// temporary = -5), -5)`.
    public static func current(_ id: Int64, in table: String, _ db: Database) throws -> Int64 {
        guard TemporaryID.isTemporary(id) else { return id }
        return try permanentID(for: id, in: table, db) ?? id
    }
}

/// A GRDB record whose integer key is given by the server, and which has a temporary id until then.
///
/// Conform instead of writing `willInsert`: a new record without an id gets a temporary one.
///
/// ```swift
/// struct Player: Codable, FetchableRecord, SyncedRecord {
///     var id: Int64?
///     var name: String
/// }
/// try player.insert(db)  // player.id == -1 until the next sync
/// ```
public protocol SyncedRecord: MutablePersistableRecord {
    /// The record's key; nil before it is inserted.
    var id: Int64? { get set }
}

extension SyncedRecord {
    /// Gives the record a temporary id when it has none.
    public mutating func willInsert(_ db: Database) throws { if id == nil { id = try TemporaryIDs.next(db) } }
}

extension SyncedRecord {
    /// Takes over the permanent id, if the server has given it meanwhile.
    ///
    /// Call before `update(db)` or `delete(db)` when a sync may have run since the record was read:
    /// under its temporary id there is no row any more.
    public mutating func resolveID(_ db: Database) throws {
        if let id { self.id = try TemporaryIDs.current(id, in: Self.databaseTableName, db) }
    }

    /// Updates the record, also when it still has its temporary id.
    public mutating func updateResolved(_ db: Database) throws {
        try resolveID(db)
        try update(db)
    }

    /// Deletes the record, also when it still has its temporary id.
    ///
    /// - Returns: Whether there was one.
    @discardableResult public mutating func deleteResolved(_ db: Database) throws -> Bool {
        try resolveID(db)
        return try delete(db)
    }
}

extension SyncedRecord where Self: FetchableRecord {
    /// Fetches a record by its id, which may be the temporary one that it had once.
    public static func fetchResolved(_ db: Database, id: Int64) throws -> Self? {
        try fetchOne(db, key: TemporaryIDs.current(id, in: databaseTableName, db))
    }
}
