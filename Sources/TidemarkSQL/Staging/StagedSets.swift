/// The staged change sets that a statement reads or writes.
package enum StagedSets: Hashable, Sendable {
    /// One change set, by its number.
    case one(Int)
    /// The change sets of a segment in `temp.tidemark_planned`, which are written together.
    case segment(Int)

    /// Returns the condition that a column contains the number of one of these change sets.
    ///
    /// Its parameter is `?1`.
    package func contains(_ ord: String) -> String {
        switch self {
        case .one: "\(ord) = ?1"
        case .segment: "\(ord) IN (SELECT planned.ord FROM temp.tidemark_planned AS planned WHERE planned.segment = ?1)"
        }
    }

    /// The value of the parameter `?1`.
    package var number: Int {
        switch self {
        case .one(let number), .segment(let number): number
        }
    }
}
