/// A synced table with its columns, key, references and unique constraints.
///
/// The store reads it from SQLite by introspection and never parses SQL. Every table or column name
/// in an SQL statement comes from here.
package struct SyncedTable: Hashable, Sendable, Codable {
    /// A synced column.
    ///
    /// Generated columns are not listed: each side computes them.
    package struct Column: Hashable, Sendable, Codable {
        /// The name, as declared.
        package let name: String
        /// The declared type, possibly empty.
        package let type: String
        /// Whether the column is declared NOT NULL.
        package let isNotNull: Bool
        /// The SQL expression of the default value.
        package let defaultSQL: String?

        /// Creates a column.
        package init(name: String, type: String, isNotNull: Bool, defaultSQL: String?) {
            self.name = name
            self.type = type
            self.isNotNull = isNotNull
            self.defaultSQL = defaultSQL
        }

        /// SQLite's type affinity, which decides how it converts stored values.
        package var affinity: String {
            let type = type.uppercased()
            let has = { (words: [String]) in words.contains { type.contains($0) } }
            if has(["INT"]) { return "INTEGER" }
            if has(["CHAR", "CLOB", "TEXT"]) { return "TEXT" }
            if type.isEmpty || has(["BLOB"]) { return "BLOB" }
            return has(["REAL", "FLOA", "DOUB"]) ? "REAL" : "NUMERIC"
        }
    }

    /// The author and the JSON form of a table's keys.
    package enum KeyKind: String, Hashable, Sendable, Codable {
        /// An `INTEGER PRIMARY KEY`, or the rowid: the server replaces temporary ids by permanent ones.
        ///
        /// The JSON form is a number.
        case integer
        /// One column of TEXT affinity: the client chooses the key.
        ///
        /// The JSON form is a string.
        case text
        /// Any other key, such as a composite one: the client chooses it.
        ///
        /// The JSON form is canonical JSON.
        case general
    }

    /// A foreign key.
    package struct Reference: Hashable, Sendable, Codable {
        /// The action on children when their parent is deleted.
        package enum Action: String, Hashable, Sendable, Codable {
            /// Refuse the deletion at the end of the statement or transaction.
            case noAction = "NO ACTION"
            /// Refuse the deletion at once.
            case restrict = "RESTRICT"
            /// Set the reference to NULL.
            case setNull = "SET NULL"
            /// Set the reference to its default.
            case setDefault = "SET DEFAULT"
            /// Delete the children too.
            case cascade = "CASCADE"
        }

        /// The referencing columns.
        package let columns: [String]
        /// The referenced table.
        package let parent: String
        /// The referenced columns, in the order of `columns`.
        package let parentColumns: [String]
        /// The `ON DELETE` action.
        package let onDelete: Action

        /// Creates a reference.
        package init(columns: [String], parent: String, parentColumns: [String], onDelete: Action) {
            self.columns = columns
            self.parent = parent
            self.parentColumns = parentColumns
            self.onDelete = onDelete
        }
    }

    /// The name, as declared.
    package let name: String
    /// The synced columns in table order, including the key.
    package private(set) var columns: [Column]
    /// The names of the key's columns, in key order.
    ///
    /// A table without a primary key may have `rowid` as its key; then `columns` has it, too.
    package let key: [String]
    /// The kind of key.
    package let keyKind: KeyKind
    /// Whether an `INSERT` without an id takes it from `sqlite_sequence`.
    package let isAutoincrement: Bool
    /// The foreign keys.
    package private(set) var references: [Reference]
    /// The columns of each unique constraint or unique index except the primary key.
    package let uniques: [[String]]
    /// Whether a unique index covers an expression or a generated column.
    ///
    /// SQLite does not report the columns that such a value depends on.
    package let hasComputedUniques: Bool
    /// The columns of partial unique indexes, sorted; nil if there is no such index.
    ///
    /// If such an index has an expression, these are all columns.
    package let partiallyUnique: [String]?
    /// The `CREATE TABLE` statement.
    package let sql: String
    /// The `CREATE INDEX` statements, in creation order.
    package let indexSQL: [String]
    /// Properties that the statement does not show; nil for an ordinary table.
    package private(set) var traits: TableTraits?

    /// Creates a description from introspected parts.
    package init(
        name: String,
        columns: [Column],
        key: [String],
        keyKind: KeyKind,
        isAutoincrement: Bool,
        references: [Reference],
        uniques: [[String]],
        hasComputedUniques: Bool = false,
        partiallyUnique: [String]? = nil,
        sql: String,
        indexSQL: [String],
        traits: TableTraits? = nil
    ) {
        self.name = name
        self.columns = columns
        self.key = key
        self.keyKind = keyKind
        self.isAutoincrement = isAutoincrement
        self.references = references
        self.uniques = uniques
        self.sql = sql
        self.indexSQL = indexSQL
        self.hasComputedUniques = hasComputedUniques
        self.partiallyUnique = partiallyUnique
        self.traits = traits
    }

    /// Returns the table with other columns and references.
    package func with(columns: [Column], references: [Reference]) -> SyncedTable {
        var table = self
        table.columns = columns
        table.references = references
        return table
    }

    /// Returns the table with other traits.
    package func with(traits: TableTraits?) -> SyncedTable {
        var table = self
        table.traits = traits
        return table
    }

    /// The columns that are not part of the key.
    package var valueColumns: [Column] { columns.filter { !key.contains($0.name) } }
}
