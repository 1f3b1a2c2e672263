public import GRDB
import TidemarkCore
import TidemarkSQLite

/// One record that two sides changed without seeing each other's change.
///
/// The values are those of all columns apart from the key, by name.
public struct MergeInput: Hashable, Sendable {
    /// The table.
    public let table: String
    /// The record's key in canonical JSON.
    public let key: String
    /// The record as the server had confirmed it when it was edited here; nil: it was not there.
    public let base: [String: DatabaseValue]?
    /// The record as it was edited here.
    public let mine: [String: DatabaseValue]
    /// The record as the server has it now.
    public let theirs: [String: DatabaseValue]

    /// Makes an input.
    public init(
        table: String,
        key: String,
        base: [String: DatabaseValue]?,
        mine: [String: DatabaseValue],
        theirs: [String: DatabaseValue]
    ) {
        self.table = table
        self.key = key
        self.base = base
        self.mine = mine
        self.theirs = theirs
    }
}

/// Merges one record, or returns nil to leave the decision to a person.
///
/// What it returns are the values of the columns to write; those left out stay as `theirs`. A pure
/// function: it is called inside a transaction of the file, may be called again with a newer
/// `theirs` when the server refuses the outcome, and must not touch the database.
public typealias MergeFunction = @Sendable (MergeInput) -> [String: DatabaseValue]?

/// A record of a conflict as somebody has merged it.
public struct MergedRecord: Hashable, Sendable {
    /// The table.
    public let table: String
    /// The record's key in canonical JSON.
    public let key: String
    /// The values of the columns to write; nil leaves the record as the server has it.
    public let columns: [String: DatabaseValue]?

    /// Makes a merged record.
    public init(table: String, key: String, columns: [String: DatabaseValue]?) {
        self.table = table
        self.key = key
        self.columns = columns
    }

    /// The values of columns that are written as in the protocol: a JSON object.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it is none, or has a value that no column
    ///   holds.
    public static func columns(json: String) throws -> [String: DatabaseValue] {
        do {
            return try DatabaseQueue().write { db in
                try EngineConnection.prepare(db, schema: SyncSchema(tables: []))
                return try RowValues(db: db).decode(json)
            }
        } catch let error as DatabaseError {
            throw TidemarkError(
                .invalidArgument,
                "\(json) is no object of columns: \(error.message ?? "it cannot be read").",
                fix: #"Write the values in JSON, for instance {"name":"Anna","goals":7}."#
            )
        }
    }
}

/// What becomes of a parked conflict.
public enum Resolution: Hashable, Sendable {
    /// The server's rows stay; mine is dropped.
    case accept
    /// My changes are made again on top of the server's rows, as a new change set.
    case retry
    /// As ``retry``, but these records get other values than mine.
    case merge([MergedRecord])
}
