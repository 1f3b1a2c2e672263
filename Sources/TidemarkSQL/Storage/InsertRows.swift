package import GRDB

/// Inserts many rows with few statements, which are compiled once.
package struct InsertRows {
    /// A row of a statement; its columns count from 0.
    package struct Row {
        fileprivate let statement: BoundStatement
        fileprivate let first: Int32

        /// Binds an integer.
        package func bind(_ value: Int64, at column: Int32) { statement.bind(value, at: first + column) }

        /// Binds a text.
        package func bind(_ text: String, at column: Int32) { statement.bind(text, at: first + column) }
    }

    private let target: String
    private let columns: Int
    private let conflict: String
    private let db: Database

    /// The most rows of a statement.
    private static let rowsMax = 32

    /// Makes inserts into `target`, a table with the names of its columns; `conflict` is the end of the statement.
    package init(_ target: String, columns: Int, _ conflict: String = "", in db: Database) {
        self.target = target
        self.columns = columns
        self.conflict = conflict
        self.db = db
    }

    /// Inserts `count` rows; `bind` binds the values of each.
    ///
    /// - Throws: `DatabaseError`.
    package func run(_ count: Int, _ bind: (_ index: Int, _ row: Row) -> Void) throws {
        for start in stride(from: 0, to: count, by: Self.rowsMax) {
            let size = min(Self.rowsMax, count - start)
            let marks = "(\(Array(repeating: "?", count: columns).joined(separator: ", ")))"
            let rows = Array(repeating: marks, count: size).joined(separator: ", ")
            let statement = try BoundStatement("INSERT INTO \(target) VALUES \(rows) \(conflict)", in: db)
            try statement.run { statement in
                for index in 0..<size {
                    bind(start + index, Row(statement: statement, first: Int32(index * columns + 1)))
                }
            }
        }
    }
}
