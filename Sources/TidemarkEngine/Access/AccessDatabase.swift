/// The database of users, tokens and members: the interface between the rules of access and a store.
///
/// The statements are the same for SQLite and PostgreSQL, with the parameters `$1`, `$2`, … in the
/// order of their first use. So a store implements these functions and nothing of the logic.
///
/// Every function throws ``TidemarkCore/TidemarkError`` when the database cannot be reached, read or
/// written. The server then admits nobody.
package protocol AccessDatabase: Sendable {
    /// Runs `body` in one transaction, alone, on the store's own thread; commits durably, or not at all if it throws.
    func transaction<Success: Sendable>(_ body: @escaping @Sendable (any AccessStatements) throws -> Success)
        async throws -> Success

    /// Runs `body`, which only reads, on one state of the database without a lock: anybody can have a token looked up.
    func read<Success: Sendable>(_ body: @escaping @Sendable (any AccessStatements) throws -> Success)
        async throws -> Success

    /// Returns the number of changes so far, cheaply enough for every request: equal numbers mean equal content.
    func version() async throws -> Int64
}

/// The statements of one transaction.
package protocol AccessStatements {
    /// Runs a statement, and returns its rows; parameters and values are texts, or nil for NULL.
    @discardableResult func rows(_ sql: String, _ parameters: [String?]) throws -> [AccessRow]
}

package struct AccessRow: Hashable, Sendable {
    private let values: [String?]

    package init(_ values: [String?]) { self.values = values }

    /// The value of a column; nil for NULL.
    package func text(_ column: Int) -> String? { values[column] }
    package func integer(_ column: Int) -> Int64? { values[column].flatMap { Int64($0) } }
}
