import Foundation
import Testing
import TidemarkPostgresStore

/// A connection as psql or a job has it, on a thread of its own: whoever waits for it leaves the
/// test's threads to others.
final class OtherProgram: Sendable {
    private let queue = DispatchQueue(label: "other program")
    private let link: Link

    private final class Link: @unchecked Sendable {
        // Used on the program's queue only.
        var connection: PostgresConnection?
    }

    init(_ address: String) async throws {
        link = Link()
        try await run { [link] in
            let connection = try PostgresConnection(address)
            try connection.execute(
                """
                RESET tidemark.engine; RESET idle_in_transaction_session_timeout;
                -- The tests' role has the name of the schema of the bookkeeping.
                SET search_path = public
                """
            )
            link.connection = connection
        }
    }

    /// Runs statements.
    func execute(_ sql: String) async throws {
        try await run { [link] in try #require(link.connection).execute(sql) }
    }

    /// The first column of a query, NULL as `NULL`.
    func column(_ sql: String) async throws -> [String] {
        try await run { [link] in
            try #require(link.connection).rows(sql).map { $0[0] ?? "NULL" }
        }
    }

    /// All columns of a query.
    func table(_ sql: String, columns: Int) async throws -> [[String]] {
        try await run { [link] in
            try #require(link.connection).rows(sql).map { row in
                (0..<columns).map { row[$0] ?? "NULL" }
            }
        }
    }

    private func run<Result: Sendable>(
        _ body: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try body() }) }
        }
    }
}
