/// How the columns of a zone came to be what they are.
///
/// Travels with the schema, so that whoever knows an older one can follow.
public struct SchemaHistory: Hashable, Sendable {
    /// The value that the rows of the time got when a column was added, canonical JSON, by table
    /// and column.
    ///
    /// No revision tells it: a row with another value was logged, the others were not.
    public var fills: [String: [String: String]]
    /// The names that columns have now, by table and former name.
    public var renames: [String: [String: String]]
    /// The columns that are gone, by table; old revisions name them.
    public var dropped: [String: [String]] = [:]
    /// The tables that are gone.
    public var droppedTables: [String] = []

    /// Makes a history.
    public init(fills: [String: [String: String]] = [:], renames: [String: [String: String]] = [:]) {
        self.fills = fills
        self.renames = renames
    }
}

/// A column that was called otherwise before, as whoever renamed it declares it.
public struct ColumnRename: Hashable, Sendable {
    /// The table.
    public let table: String
    /// The name before.
    public let old: String
    /// The name now.
    public let new: String

    /// Makes a rename.
    public init(table: String, old: String, new: String) {
        self.table = table
        self.old = old
        self.new = new
    }

    /// Reads `notes.body`, `notes.text`.
    ///
    /// - Throws: ``TidemarkError`` with `invalidArgument` when they are not columns of one table.
    public init(_ old: String, to new: String) throws(TidemarkError) {
        let before = old.split(separator: ".")
        let now = new.split(separator: ".")
        guard before.count == 2, now.count == 2, before[0] == now[0], before[1] != now[1] else {
            throw TidemarkError(
                .invalidArgument,
                "\(old) to \(new) is no rename of a column.",
                fix: "Write TABLE.OLD and TABLE.NEW, for instance notes.body and notes.text."
            )
        }
        self.init(table: String(before[0]), old: String(before[1]), new: String(now[1]))
    }
}

/// What a device's file and its zone do not have in common.
///
/// Neither keeps the other from syncing: what only the zone has waits in a side table, what only
/// the file has stays in its rows.
public struct SchemaDifference: Hashable, Sendable {
    /// Columns that only the zone has, by table.
    public var unknownColumns: [String: [SyncedTable.Column]] = [:]
    /// Tables that only the zone has.
    public var unknownTables: [SyncedTable] = []
    /// Columns that only the file has, by table.
    public var unservedColumns: [String: [SyncedTable.Column]] = [:]
    /// Tables that only the file has.
    ///
    /// They may be the app's own business.
    public var unservedTables: [SyncedTable] = []
    /// The zone's names for columns that the file calls otherwise, by table and name in the file.
    public var wireNames: [String: [String: String]] = [:]

    /// Makes an empty difference.
    public init() {}

    /// Whether the zone has something that the file has not.
    public var hasUnknown: Bool { !unknownColumns.isEmpty || !unknownTables.isEmpty }
}
