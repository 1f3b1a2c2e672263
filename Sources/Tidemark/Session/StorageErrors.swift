import GRDB
import TidemarkCore
import TidemarkSQL

extension DatabaseReader {
    /// Runs work on the file and turns storage errors of SQLite into ``TidemarkError``.
    func typingStorage<Result>(_ work: () async throws -> Result) async throws -> Result {
        do { return try await work() } catch { throw TidemarkError.translateStorageError(error, of: path) }
    }
}
