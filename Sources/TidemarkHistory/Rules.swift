/// What the checker has to know of the tables, since it reads no schema itself.
public struct Rules: Sendable {
    /// A synced table.
    public struct Table: Sendable {
        /// As in `CREATE TABLE`.
        public let name: String
        /// The columns of the primary key, in key order.
        public let key: [String]
        /// Whether the server gives the keys, as in an `INTEGER PRIMARY KEY` table.
        public let hasAssignedKeys: Bool
        /// What happens when two devices change one record.
        public let policy: Policy
        /// The columns with a policy of their own.
        public let columnPolicies: [String: Policy]
        /// The foreign keys.
        public let references: [Reference]
        /// The unique constraints and indexes.
        public let unique: [Unique]
        /// The columns that triggers at the server write, whatever a change set says of them.
        public let triggered: Set<String>

        /// Makes a table.
        public init(
            name: String,
            key: [String],
            hasAssignedKeys: Bool,
            policy: Policy = .reject,
            columnPolicies: [String: Policy] = [:],
            references: [Reference] = [],
            unique: [Unique] = [],
            triggered: Set<String> = []
        ) {
            self.name = name
            self.key = key
            self.hasAssignedKeys = hasAssignedKeys
            self.policy = policy
            self.columnPolicies = columnPolicies
            self.references = references
            self.unique = unique
            self.triggered = triggered
        }

        /// The policy of a column.
        func policy(of column: String) -> Policy { columnPolicies[column] ?? policy }
    }

    /// A unique constraint, or a unique index.
    public struct Unique: Sendable, ExpressibleByArrayLiteral {
        private let columns: [String]
        private let foldsCase: Bool
        private let nullColumn: String?

        /// Makes an index over columns; one that takes letters for equal whose case alone differs,
        /// or that has only the rows where a column is NULL.
        public init(_ columns: [String], foldingCase: Bool = false, whereNull: String? = nil) {
            self.columns = columns
            foldsCase = foldingCase
            nullColumn = whereNull
        }

        /// Makes an index over columns.
        public init(arrayLiteral columns: String...) { self.init(columns) }

        /// What no two rows may have alike; nil where a row has nothing of the kind.
        func values(of row: Cells) -> [String]? {
            if let nullColumn, row[nullColumn] ?? "null" != "null" { return nil }
            let values = columns.map { row[$0] ?? "null" }
            guard !values.contains("null") else { return nil }
            return foldsCase ? values.map(Self.folded) : values
        }

        /// As SQLite's NOCASE does: 26 letters.
        private static func folded(_ text: String) -> String {
            let bytes = text.utf8.map { (65...90).contains($0) ? $0 + 32 : $0 }
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    /// A foreign key to the primary key of another table.
    public struct Reference: Sendable {
        /// The columns of the child, in the order of the parent's key.
        public let columns: [String]
        /// The table that they refer to.
        public let parent: String

        /// Makes a foreign key.
        public init(columns: [String], parent: String) {
            self.columns = columns
            self.parent = parent
        }
    }

    /// Who wins when two devices change one record, per table.
    public enum Policy: String, Sendable {
        /// Nobody: the later change set is a conflict.
        case reject
        /// Both, as long as they changed different columns.
        case columns
        /// The later change set at the server, per column; the losing value is kept.
        case lastWriter
        /// The later edit by hybrid logical clock, per column; the losing value is kept.
        case latest

        /// Whether one of two values stands and the other one is kept, so that nobody is asked.
        var decides: Bool { self == .lastWriter || self == .latest }
    }

    /// The synced tables.
    public let tables: [Table]
    /// Upper bounds of what a ``Event/Kind/measured(actor:name:value:)`` may report, by name.
    public let caps: [String: Int]
    /// The most requests that a device may need, once all faults have stopped.
    public let requestsToDrainMax: Int
    /// The most virtual seconds that a device may need, once all faults have stopped.
    public let secondsToDrainMax: Double

    private let byName: [String: Int]

    /// Makes rules.
    public init(
        tables: [Table],
        caps: [String: Int] = [:],
        requestsToDrainMax: Int = 50,
        secondsToDrainMax: Double = 3600
    ) {
        self.tables = tables
        self.caps = caps
        self.requestsToDrainMax = requestsToDrainMax
        self.secondsToDrainMax = secondsToDrainMax
        byName = Dictionary(uniqueKeysWithValues: tables.enumerated().map { ($0.element.name, $0.offset) })
    }

    /// The table of a name; nil when it is not synced.
    public func table(_ name: String) -> Table? { byName[name].map { tables[$0] } }
}
