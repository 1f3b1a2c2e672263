/// Which staged change sets a statement is about.
package enum StagedSets: Hashable, Sendable {
    /// One, by its number.
    case one(Int)
    /// Those that are written together: a segment in `temp.tidemark_planned`.
    case segment(Int)

    /// The condition under which a column of numbers has that of one of them.
    ///
    /// Its parameter is `?1`.
    package func contains(_ ord: String) -> String {
        switch self {
        case .one: "\(ord) = ?1"
        case .segment: "\(ord) IN (SELECT p.ord FROM temp.tidemark_planned AS p WHERE p.segment = ?1)"
        }
    }

    /// What the parameter `?1` is bound to.
    package var number: Int {
        switch self {
        case .one(let number), .segment(let number): number
        }
    }
}
