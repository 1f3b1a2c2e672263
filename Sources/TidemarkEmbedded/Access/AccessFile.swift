import Foundation
import GRDB
import Synchronization
package import TidemarkEngine
import TidemarkSQL

/// The users, tokens and members of a server with SQLite files: a SQLite file of their own.
///
/// The server and the commands of an operator open it at the same time.
package final class AccessFile: AccessDatabase {
    private let writer: DatabaseQueue
    /// A second connection, because `data_version` does not change by a connection's own commits.
    private let watch: DatabaseQueue

    /// Opens the file, and makes it where it is missing.
    package init(path: String) throws {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.label = "tidemark.access"
        writer = try DatabaseQueue(path: path, configuration: configuration)
        // Only the server's account may read the hashes of tokens.
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        try writer.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
            try db.inTransaction(.immediate) {
                for statement in AccessTables.statements { try db.execute(sql: statement) }
                return .commit
            }
        }
        configuration.readonly = true
        configuration.label = "tidemark.access.watch"
        watch = try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Runs `body` in an immediate transaction.
    package func transaction<Success: Sendable>(
        _ body: @escaping @Sendable (any AccessStatements) throws -> Success
    ) async throws -> Success {
        try await writer.writeWithoutTransaction { db in
            var result: Success?
            try db.inTransaction(.immediate) {
                result = try body(Statements(db: db))
                return .commit
            }
            guard let result else { throw CancellationError() }
            return result
        }
    }

    /// Returns SQLite's count of the commits of other connections.
    package func version() async throws -> Int64 {
        try await watch.read { db in
            try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA data_version")) ?? 0
        }
    }

    /// Closes the file.
    package func close() throws {
        try watch.close()
        try writer.close()
    }

    private struct Statements: AccessStatements {
        let db: Database

        func rows(_ sql: String, _ parameters: [String?]) throws -> [AccessRow] {
            try Row.fetchAll(db.cachedStatement(sql: sql), arguments: StatementArguments(parameters)).map { row in
                AccessRow(row.databaseValues.map { String.fromDatabaseValue($0) ?? Int64.fromDatabaseValue($0).map { "\($0)" } })
            }
        }
    }
}
