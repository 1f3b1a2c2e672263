/// The database of users, tokens and members: the interface between the rules of access and a store.
///
/// The statements are the same for SQLite and PostgreSQL, with the parameters `$1`, `$2`, … in the
/// order of their first use. So a store implements these functions and nothing of the logic.
///
/// Every function throws ``TidemarkCore/TidemarkError`` when the database cannot be reached, read or
/// written. The server then admits nobody.
package protocol AccessDatabase: Sendable {
    /// Runs `body` in one transaction, alone, on the store's own thread; commits durably at its end.
    ///
    /// When `body` throws, the transaction changes nothing.
    func transaction<Success: Sendable>(_ body: @escaping @Sendable (any AccessStatements) throws -> Success)
        async throws -> Success

    /// Runs `body`, which only reads, on one state of the database; it waits for no writer.
    ///
    /// Everybody can make a server look up a token, so this takes no lock and writes nothing.
    func read<Success: Sendable>(_ body: @escaping @Sendable (any AccessStatements) throws -> Success)
        async throws -> Success

    /// Returns the number of changes of the database so far: equal numbers mean equal content.
    ///
    /// Cheap enough for every request.
    func version() async throws -> Int64
}

/// The statements of one transaction.
package protocol AccessStatements {
    /// Runs a statement, and returns its rows; parameters and values are texts, or nil for NULL.
    @discardableResult func rows(_ sql: String, _ parameters: [String?]) throws -> [AccessRow]
}

/// A row of an answer.
package struct AccessRow: Hashable, Sendable {
    private let values: [String?]

    package init(_ values: [String?]) { self.values = values }

    /// The text of a column; nil for NULL.
    package func text(_ column: Int) -> String? { values[column] }

    /// The number of a column; nil for NULL.
    package func integer(_ column: Int) -> Int64? { values[column].flatMap { Int64($0) } }
}
