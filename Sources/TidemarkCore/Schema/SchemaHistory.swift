/// The additions, renames and removals of a zone's columns and tables, by which a device with an older schema follows.
package struct SchemaHistory: Hashable, Sendable {
    /// The backfill values of added columns in canonical JSON, by table and column; the log has only other values.
    package var fills: [String: [String: String]]
    /// The current names of columns, by table and former name.
    package var renames: [String: [String: String]]
    /// The dropped columns, by table; old revisions name them.
    package var droppedColumns: [String: [String]] = [:]
    package var droppedTables: [String] = []

    package init(fills: [String: [String: String]] = [:], renames: [String: [String: String]] = [:]) {
        self.fills = fills
        self.renames = renames
    }
}

/// A renamed column, as declared by the app or the operator.
public struct ColumnRename: Hashable, Sendable {
    /// The table.
    public let table: String
    /// The old name.
    public let old: String
    /// The new name.
    public let new: String

    /// Creates a rename.
    public init(table: String, old: String, new: String) {
        self.table = table
        self.old = old
        self.new = new
    }

    /// Parses names such as `notes.body` and `notes.text`; throws `invalidArgument` if they are of two tables.
    public init(_ old: String, to new: String) throws(TidemarkError) {
        let oldParts = old.split(separator: ".")
        let newParts = new.split(separator: ".")
        guard oldParts.count == 2, newParts.count == 2, oldParts[0] == newParts[0], oldParts[1] != newParts[1] else {
            throw TidemarkError(
                .invalidArgument, "\(old) to \(new) does not rename a column.",
                fix: "Write TABLE.OLD and TABLE.NEW, for instance notes.body and notes.text.")
        }
        self.init(table: String(oldParts[0]), old: String(oldParts[1]), new: String(newParts[1]))
    }
}

/// The tables and columns of only one side: the zone's extra values go to a side table, the file's stay in its rows.
package struct SchemaDifference: Hashable, Sendable {
    /// Columns that only the zone has, by table.
    package var unknownColumns: [String: [SyncedTable.Column]] = [:]
    /// Tables that only the zone has.
    package var unknownTables: [SyncedTable] = []
    /// Columns that only the file has, by table.
    package var unservedColumns: [String: [SyncedTable.Column]] = [:]
    /// Tables that only the file has; they may be local tables of the app.
    package var unservedTables: [SyncedTable] = []
    /// The zone's names of columns with another name in the file, by table and name in the file.
    package var wireNames: [String: [String: String]] = [:]

    package init() {}

    /// Whether the zone has tables or columns that the file does not have.
    package var hasUnknown: Bool { !unknownColumns.isEmpty || !unknownTables.isEmpty }
}
