import Foundation
import Testing
import TidemarkPostgresStore

/// A database of its own in the PostgreSQL that `Scripts/with-services.sh` has started.
///
/// It goes with that server.
struct TestDatabase: Sendable {
    /// Its address.
    let address: String

    init() async throws {
        let server = try #require(
            ProcessInfo.processInfo.environment["TIDEMARK_POSTGRES"],
            "run the tests beside PostgreSQL: Scripts/with-services.sh swift test"
        )
        let name = "test_\(UUID().uuidString.lowercased().replacing("-", with: ""))"
        try await OtherProgram(server).execute("CREATE DATABASE \(name)")
        address = server.replacing(/\/[^\/]*$/, with: "/\(name)")
    }

    /// Another program's connection.
    func connect() async throws -> OtherProgram { try await OtherProgram(address) }

    /// Runs statements as another program, in one transaction.
    func writeOutside(_ sql: String) async throws {
        try await connect().execute("BEGIN; \(sql); COMMIT")
    }

    /// Has tables read by their indexes on connections that are made from now on.
    func forbidScans() async throws {
        let admin = try await connect()
        let name = try #require(try await admin.column("SELECT current_database()").first)
        try await admin.execute("ALTER DATABASE \(name) SET enable_seqscan = off")
    }
}
