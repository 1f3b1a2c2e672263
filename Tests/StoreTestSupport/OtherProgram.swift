import Foundation
package import TidemarkPostgres

/// A connection like psql's, on a thread of its own, so that a wait for it does not block the
/// test's threads.
package final class OtherProgram: Sendable {
    private let queue = DispatchQueue(label: "other program")
    private let link: Link

    private final class Link: @unchecked Sendable {
        // Used on the program's queue only.
        private var connection: PostgresConnection?

        func open(_ address: String) throws -> PostgresConnection {
            if let connection { return connection }
            let opened = try PostgresConnection(address)
            connection = opened
            return opened
        }
    }

    private let address: String

    /// Connects.
    package init(_ address: String) async throws {
        link = Link()
        self.address = address
        try await run { [link] in
            try link.open(address).execute(
                """
                RESET tidemark.engine; RESET idle_in_transaction_session_timeout
                """
            )
        }
    }

    /// Runs statements.
    package func execute(_ sql: String) async throws {
        try await run { [link, address] in try link.open(address).execute(sql) }
    }

    /// The first column of a query, NULL as `NULL`.
    package func column(_ sql: String) async throws -> [String] {
        try await run { [link, address] in try link.open(address).rows(sql).map { $0[0] ?? "NULL" } }
    }

    /// All columns of a query.
    package func table(_ sql: String, columns: Int) async throws -> [[String]] {
        try await run { [link, address] in
            try link.open(address).rows(sql).map { row in (0..<columns).map { row[$0] ?? "NULL" } }
        }
    }

    /// Runs a function of the store on the connection.
    package func run<Success: Sendable>(_ body: @escaping @Sendable (PostgresConnection) throws -> Success)
        async throws -> Success
    { try await run { [link, address] in try body(link.open(address)) } }

    private func run<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try body() }) }
        }
    }
}
