/// The facts about the tables that the checker needs, since it reads no schema itself.
package struct Rules: Sendable {
    /// A synced table.
    package struct Table: Sendable {
        /// As in `CREATE TABLE`.
        package let name: String
        /// The columns of the primary key, in key order.
        package let key: [String]
        /// Whether the server gives the keys, as in an `INTEGER PRIMARY KEY` table.
        package let hasAssignedKeys: Bool
        /// The rule for two devices that change one record.
        package let policy: Policy
        /// The columns with a policy of their own.
        package let columnPolicies: [String: Policy]
        /// The foreign keys.
        package let references: [Reference]
        /// The unique constraints and indexes.
        package let unique: [Unique]
        /// The columns that triggers at the server write, whatever a change set sets there.
        package let triggered: Set<String>
        /// The least integers that a CHECK allows, by column.
        package let minimums: [String: Int64]

        /// Makes a table.
        package init(
            name: String, key: [String], hasAssignedKeys: Bool, policy: Policy = .reject,
            columnPolicies: [String: Policy] = [:], references: [Reference] = [], unique: [Unique] = [],
            triggered: Set<String> = [], minimums: [String: Int64] = [:]
        ) {
            self.name = name
            self.key = key
            self.hasAssignedKeys = hasAssignedKeys
            self.policy = policy
            self.columnPolicies = columnPolicies
            self.references = references
            self.unique = unique
            self.triggered = triggered
            self.minimums = minimums
        }

        /// Whether the table takes a row: its CHECK holds, and all its sums are integers.
        func takes(_ row: Cells) -> Bool {
            !row.values.contains(Rules.noSum)
                && minimums.allSatisfy { row[$0.key].flatMap { Int64($0) } ?? $0.value >= $0.value }
        }

        /// The policy of a column.
        func policy(of column: String) -> Policy { columnPolicies[column] ?? policy }
    }

    /// A unique constraint, or a unique index.
    package struct Unique: Sendable, ExpressibleByArrayLiteral {
        private let columns: [String]
        private let foldsCase: Bool
        private let nullColumn: String?

        /// Makes an index over columns.
        ///
        /// It may ignore the case of letters, or cover only the rows where a column is NULL.
        package init(_ columns: [String], foldingCase: Bool = false, whereNull: String? = nil) {
            self.columns = columns
            foldsCase = foldingCase
            nullColumn = whereNull
        }

        /// Makes an index over columns.
        package init(arrayLiteral columns: String...) { self.init(columns) }

        /// The values that must be unique; nil for a row outside the index.
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
    package struct Reference: Sendable {
        /// The columns of the child, in the order of the parent's key.
        package let columns: [String]
        /// The table that they refer to.
        package let parent: String

        /// Makes a foreign key.
        package init(columns: [String], parent: String) {
            self.columns = columns
            self.parent = parent
        }
    }

    /// The rule for two devices that change one record, per table.
    package enum Policy: String, Sendable {
        /// The later change set is a conflict.
        case reject
        /// Both stand, if they changed different columns.
        case columns
        /// The later change set at the server, per column; the losing value is kept.
        case lastWriter
        /// The later edit by hybrid logical clock, per column; the losing value is kept.
        case latest
        /// What change sets add to an integer adds up; other values are as under `columns`.
        case add

        /// Whether one of two values stands and the other one is kept, without a decision by a
        /// user.
        var decides: Bool { self == .lastWriter || self == .latest }
    }

    /// The synced tables.
    package let tables: [Table]
    /// Upper bounds of what a ``Event/Kind/measured(actor:name:value:)`` may report, by name.
    package let caps: [String: Int]
    /// The most requests that a device may need, once all faults have stopped.
    package let requestsToDrainMax: Int
    /// The most virtual seconds that a device may need, once all faults have stopped.
    package let secondsToDrainMax: Double

    private let byName: [String: Int]

    /// Makes rules.
    package init(
        tables: [Table], caps: [String: Int] = [:], requestsToDrainMax: Int = 50, secondsToDrainMax: Double = 3600
    ) {
        self.tables = tables
        self.caps = caps
        self.requestsToDrainMax = requestsToDrainMax
        self.secondsToDrainMax = secondsToDrainMax
        byName = Dictionary(uniqueKeysWithValues: tables.enumerated().map { ($0.element.name, $0.offset) })
    }

    /// The table of a name; nil when it is not synced.
    package func table(_ name: String) -> Table? { byName[name].map { tables[$0] } }
}
