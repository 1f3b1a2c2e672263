/// A table as synchronisation sees it: its columns, key, references and unique constraints.
///
/// Read from SQLite by introspection, never parsed from SQL. Every table or column name that
/// reaches an SQL statement comes from here.
public struct SyncedTable: Hashable, Sendable, Codable {
    /// A column that travels.
    ///
    /// Generated columns are computed on each side and are not listed.
    public struct Column: Hashable, Sendable, Codable {
        /// The name, as declared.
        public let name: String
        /// The declared type, possibly empty.
        public let type: String
        /// Whether NULL is refused.
        public let isNotNull: Bool
        /// The SQL expression of the default value.
        public let defaultSQL: String?

        /// Makes a column.
        public init(name: String, type: String, isNotNull: Bool, defaultSQL: String?) {
            self.name = name
            self.type = type
            self.isNotNull = isNotNull
            self.defaultSQL = defaultSQL
        }

        /// What SQLite does to values that are stored in the column: one of its five affinities.
        public var affinity: String {
            let type = type.uppercased()
            let has = { (words: [String]) in words.contains { type.contains($0) } }
            if has(["INT"]) { return "INTEGER" }
            if has(["CHAR", "CLOB", "TEXT"]) { return "TEXT" }
            if type.isEmpty || has(["BLOB"]) { return "BLOB" }
            return has(["REAL", "FLOA", "DOUB"]) ? "REAL" : "NUMERIC"
        }
    }

    /// How the records of a table get their keys, and how a key is written in JSON.
    public enum KeyKind: String, Hashable, Sendable, Codable {
        /// `INTEGER PRIMARY KEY`: temporary ids, replaced by the server's.
        ///
        /// A JSON number.
        case integer
        /// One column of TEXT affinity, made by the client.
        ///
        /// A JSON string.
        case text
        /// Anything else, composite keys above all, made by the client.
        ///
        /// Canonical JSON.
        case general
    }

    /// A foreign key.
    public struct Reference: Hashable, Sendable, Codable {
        /// What the database does to children when their parent goes away.
        public enum Action: String, Hashable, Sendable, Codable {
            /// Refuse at the end of the statement or transaction.
            case noAction = "NO ACTION"
            /// Refuse at once.
            case restrict = "RESTRICT"
            /// Empty the reference.
            case setNull = "SET NULL"
            /// Put the default in its place.
            case setDefault = "SET DEFAULT"
            /// Delete the children too.
            case cascade = "CASCADE"
        }

        /// The columns here.
        public let columns: [String]
        /// The table pointed at.
        public let parent: String
        /// The columns there, in the order of `columns`.
        public let parentColumns: [String]
        /// `ON DELETE`.
        public let onDelete: Action

        /// Makes a reference.
        public init(columns: [String], parent: String, parentColumns: [String], onDelete: Action) {
            self.columns = columns
            self.parent = parent
            self.parentColumns = parentColumns
            self.onDelete = onDelete
        }
    }

    /// The name, as declared.
    public let name: String
    /// The columns that travel, in table order, key columns included.
    public let columns: [Column]
    /// The names of the key's columns, in key order.
    public let key: [String]
    /// The kind of key.
    public let keyKind: KeyKind
    /// Whether a plain `INSERT` draws its id from `sqlite_sequence`.
    public let isAutoincrement: Bool
    /// The foreign keys.
    public let references: [Reference]
    /// The columns of each unique constraint or unique index apart from the primary key.
    public let uniques: [[String]]
    /// Whether a unique index is on an expression or a generated column: nobody says what such a
    /// value is made of.
    public let hasComputedUniques: Bool
    /// The columns that unique indexes are made of which hold for some rows only, all of them where
    /// such an index has an expression; nil when there is none.
    public let partiallyUnique: Set<String>?
    /// The `CREATE TABLE` statement.
    public let sql: String
    /// The `CREATE INDEX` statements, in creation order.
    public let indexSQL: [String]

    /// Makes a description from introspected parts.
    public init(
        name: String,
        columns: [Column],
        key: [String],
        keyKind: KeyKind,
        isAutoincrement: Bool,
        references: [Reference],
        uniques: [[String]],
        hasComputedUniques: Bool = false,
        partiallyUnique: Set<String>? = nil,
        sql: String,
        indexSQL: [String]
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
    }

    /// The same table with other columns and references.
    public func with(columns: [Column], references: [Reference]) -> SyncedTable {
        SyncedTable(
            name: name,
            columns: columns,
            key: key,
            keyKind: keyKind,
            isAutoincrement: isAutoincrement,
            references: references,
            uniques: uniques,
            hasComputedUniques: hasComputedUniques,
            partiallyUnique: partiallyUnique,
            sql: sql,
            indexSQL: indexSQL
        )
    }

    /// The columns that are not part of the key.
    public var valueColumns: [Column] { columns.filter { !key.contains($0.name) } }
}
