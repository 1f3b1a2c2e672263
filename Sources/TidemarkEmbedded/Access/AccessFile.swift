import GRDB
import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// The users, tokens and members of a server with SQLite files: a SQLite file of their own.
///
/// The server and the commands of an operator open it at the same time. Only the server's account may
/// read it, because it has the hashes of tokens; SQLite gives `-wal` and `-shm` the same permissions.
package final class AccessFile: AccessDatabase {
    private let writer: DatabaseQueue
    private let reader: DatabaseQueue
    /// A connection of its own, because `data_version` does not change by a connection's own commits.
    private let commits: CommitCount
    private let place: FilePlace

    /// The file, as clients read of it.
    private static let role = "The file of users"

    /// Opens the file, and makes it where it is missing.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unusableFile`` for other content or another version; the file stays as it is.
    package init(path: String) throws {
        try PrivateFile.make(path)
        let configuration = Configuration.waiting(label: "tidemark.access")
        let reading = Configuration.waiting(readonly: true, label: "tidemark.access.reader")
        (writer, reader, commits, place) = try TidemarkError.translatingStorageErrors(of: path) {
            let writer = try DatabaseQueue(path: path, configuration: configuration)
            try writer.read { try Self.check($0, path: path) }
            try PrivateFile.narrow(path)
            try writer.writeWithoutTransaction { try Self.prepare($0) }
            let reader = try DatabaseQueue(path: path, configuration: reading)
            let place = try reader.read { try Self.place(of: $0) }
            return (writer, reader, try CommitCount(path: path), place)
        }
    }

    package func transaction<Success: Sendable>(_ body: @escaping @Sendable (any AccessStatements) throws -> Success)
        async throws -> Success
    {
        try await translatingErrors {
            try await writer.writeWithoutTransaction { [place] db in
                var result: Success?
                try db.inTransaction(.immediate) {
                    try place.requireUnmoved()
                    result = try body(Statements(db: db))
                    return .commit
                }
                guard let result else { throw CancellationError() }
                return result
            }
        }
    }

    /// Runs `body` in a read transaction of a connection that only reads.
    package func read<Success: Sendable>(_ body: @escaping @Sendable (any AccessStatements) throws -> Success)
        async throws -> Success
    { try await translatingErrors { try await reader.read { try body(Statements(db: $0)) } } }

    /// Returns SQLite's count of the commits of other connections, read on the caller's thread.
    package func version() async throws -> Int64 {
        try await translatingErrors {
            // A revocation in the file that replaced this one would not count.
            try place.requireUnmoved()
            return try commits.read()
        }
    }

    package func close() throws {
        commits.close()
        try reader.close()
        try writer.close()
    }

    private func translatingErrors<Success>(_ work: () async throws -> Success) async throws -> Success {
        do { return try await work() } catch {
            throw TidemarkError.translateStorageError(error, of: Self.role.lowercased())
        }
    }

    private struct Statements: AccessStatements {
        let db: Database

        func rows(_ sql: String, _ parameters: [String?]) throws -> [AccessRow] {
            try Row.fetchAll(db.cachedStatement(sql: sql), arguments: StatementArguments(parameters)).map { row in
                AccessRow(row.databaseValues.map(Self.text))
            }
        }

        private static func text(_ value: DatabaseValue) -> String? {
            String.fromDatabaseValue(value) ?? Int64.fromDatabaseValue(value).map { "\($0)" }
        }
    }
}

extension AccessFile {
    /// Refuses a file with other content, before anything is written.
    private static func check(_ db: Database, path: String) throws {
        let layout = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        let tables = try String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE type = 'table'")
        guard !tables.isEmpty else { return }
        guard tables.contains("tidemark_token"), tables.contains("tidemark_member"), layout > 0 else {
            throw TidemarkError(
                .unusableFile, "\(path) is a database, but not one of users and tokens.",
                fix: "Name another file; a new one is made where none is.")
        }
        guard layout == AccessTables.layout else {
            let version = layout < AccessTables.layout ? "an earlier" : "a later"
            throw TidemarkError(
                .unusableFile, "\(path) was written by \(version) version of Tidemark (layout \(layout)).",
                fix: "Use that version, or put a backup of the file back.")
        }
    }

    private static func prepare(_ db: Database) throws {
        // An acknowledged revocation must survive a power cut.
        try db.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        try db.inTransaction(.immediate) {
            guard try Int.fetchOne(db, sql: "PRAGMA user_version") != AccessTables.layout else { return .commit }
            for statement in AccessTables.statements { try db.execute(sql: statement) }
            try db.execute(sql: "PRAGMA user_version = \(AccessTables.layout)")
            return .commit
        }
    }

    private static func place(of db: Database) throws -> FilePlace {
        // SQLite makes the side files with the first read.
        _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM tidemark_user")
        return FilePlace(of: db, role: role)
    }
}
