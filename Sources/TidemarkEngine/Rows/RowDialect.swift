package import TidemarkCore

/// The parts of a question for rows in which SQLite's and PostgreSQL's SQL differ.
///
/// The listed table has the alias `app_row`. Values reach the statement as parameters only.
package protocol RowDialect {
    /// A value in canonical JSON, to compare with ``operand(_:)`` of a column.
    ///
    /// `index` is the number of its parameter, counted from 0.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invalidValue`` if the column's type has no such value.
    func value(_ json: String, of column: SyncedTable.Column, at index: Int) throws -> BoundSQL
    /// A column, compared and ordered by value, and text by bytes.
    func operand(_ column: SyncedTable.Column) -> String
    /// The condition that a column has one of the values, in SQL, so that an index of the column serves it.
    func isOneOf(_ column: SyncedTable.Column, _ values: [String]) -> String
    /// The condition that a column's text fits a pattern, in which `*` stands for any text.
    func like(_ column: SyncedTable.Column, _ pattern: String, at index: Int) -> BoundSQL
    /// Whether ``operand(_:)`` may be NULL.
    func mayBeNull(_ column: SyncedTable.Column) -> Bool
    /// Whether rows with NULL in the first column of an order need a statement of their own.
    ///
    /// The usual index in PostgreSQL has NULL above every value, so it serves either side, but not both.
    var readsNullApart: Bool { get }
    /// The words after a column in `ORDER BY`: the direction, with NULL below every value.
    ///
    /// `isUniform` says that either all rows have NULL there, or none.
    func direction(of column: SyncedTable.Column, isDescending: Bool, isUniform: Bool) -> String
    /// A column's value as canonical JSON, as a cut value if it has more characters than the maximum.
    func json(_ column: SyncedTable.Column, charactersMax: Int?) -> String
    /// The record's key as canonical JSON.
    var keyJSON: String { get }
    /// The revision that last changed the record.
    var revision: String { get }
    /// The table with its alias, and what else `FROM` needs.
    var from: String { get }
    /// A condition that every row fulfils, such as that of the zone.
    var scope: String? { get }
    /// `FROM` for the records that have one of the keys, in any spelling of a key's canonical JSON.
    func from(keys: [String], at index: Int) throws -> BoundSQL
    /// The statement that reads the rows of a selection.
    func statement(_ selection: RowSelection) -> String
}

/// SQL with one parameter, and the parameter's value.
package struct BoundSQL: Hashable, Sendable {
    /// The SQL.
    package let sql: String
    /// The value.
    package let argument: String

    /// Creates SQL with its parameter.
    package init(_ sql: String, _ argument: String) {
        self.sql = sql
        self.argument = argument
    }
}

/// The parts of a statement that reads rows.
package struct RowSelection: Hashable, Sendable {
    /// The selected expressions.
    package let cells: [String]
    /// `FROM` and its conditions.
    package let source: String
    /// The terms of the order; empty for records by their keys, which come in the order of the keys.
    package let order: [String]
    /// The most rows; nil for all.
    package let limit: Int?
}
