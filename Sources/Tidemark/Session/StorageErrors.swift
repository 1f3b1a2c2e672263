import GRDB
import TidemarkCore
import TidemarkSQLite

extension DatabaseReader {
    /// Runs work on the file, and makes a storage error of SQLite's in it a typed one.
    func typingStorage<Result>(_ work: () async throws -> Result) async throws -> Result {
        do { return try await work() } catch { throw TidemarkError.typed(error, of: path) }
    }
}
