/// A condition on the rows of one table.
package indirect enum RowFilter: Hashable, Sendable {
    package enum Comparison: String, Hashable, Sendable, CaseIterable {
        case equal = "eq"
        /// Another value, but not NULL.
        case unequal = "neq"
        case greater = "gt"
        case greaterOrEqual = "gte"
        case less = "lt"
        case lessOrEqual = "lte"
    }

    case all([RowFilter])
    /// At least one condition holds.
    case any([RowFilter])
    /// The condition does not hold; as in SQL, a comparison with NULL neither holds nor fails.
    case not(RowFilter)
    /// A column compares with a value in canonical JSON; text compares by bytes.
    case compare(SyncedTable.Column, Comparison, String)
    /// A column has one of the values, in canonical JSON.
    case isOneOf(SyncedTable.Column, [String])
    /// A column's text fits a pattern, in which `*` stands for any text; case counts.
    case isLike(SyncedTable.Column, String)
    case isNull(SyncedTable.Column)

    /// The columns that must equal a value, for an index.
    var equalColumns: [SyncedTable.Column] {
        switch self {
        case .all(let parts): parts.flatMap(\.equalColumns)
        case .compare(let column, .equal, _), .isOneOf(let column, _), .isNull(let column): [column]
        default: []
        }
    }

    package var columns: [SyncedTable.Column] {
        switch self {
        case .all(let parts), .any(let parts): parts.flatMap(\.columns)
        case .not(let part): part.columns
        case .compare(let column, _, _), .isOneOf(let column, _), .isLike(let column, _), .isNull(let column): [column]
        }
    }

    var count: Int {
        switch self {
        case .all(let parts), .any(let parts): parts.reduce(0) { $0 + $1.count }
        case .not(let part): part.count
        case .isOneOf(_, let values): values.count
        default: 1
        }
    }
}
