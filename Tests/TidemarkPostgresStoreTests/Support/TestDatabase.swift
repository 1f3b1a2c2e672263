import Foundation
import Testing
import TidemarkPostgresStore

/// A database of its own in the PostgreSQL that `Scripts/with-services.sh` has started.
final class TestDatabase: Sendable {
    /// Its address.
    let address: String
    private let name: String

    init() throws {
        name = "test_\(UUID().uuidString.lowercased().replacing("-", with: ""))"
        let server = try Self.server()
        try PostgresConnection(server).execute("CREATE DATABASE \(name)")
        address =
            server.split(separator: "/").dropLast().joined(separator: "/")
            .replacing("postgres:/", with: "postgres://") + "/\(name)"
    }

    deinit {
        do {
            try PostgresConnection(Self.server()).execute("DROP DATABASE \(name) WITH (FORCE)")
        } catch {
            // It goes with the server.
            return
        }
    }

    /// The server's address.
    private static func server() throws -> String {
        try #require(
            ProcessInfo.processInfo.environment["TIDEMARK_POSTGRES"],
            "run the tests beside PostgreSQL: Scripts/with-services.sh swift test"
        )
    }

    /// A connection as another program has it.
    func connect() throws -> PostgresConnection {
        let connection = try PostgresConnection(address)
        try connection.execute("RESET tidemark.engine")
        return connection
    }

    /// Runs statements as another program, in one transaction.
    func writeOutside(_ sql: String) throws { try connect().execute("BEGIN; \(sql); COMMIT") }
}
