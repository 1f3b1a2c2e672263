import GRDB
import Tidemark

/// An app that takes the product `Tidemark`: it sets limits, and decides by the error's code and recovery.
func syncOnce(_ database: DatabaseQueue) async throws -> String {
    var limits = Limits.standard
    limits.valueBytesMax = 1 << 20
    let sync = try await SyncEngine(database, server: "https://sync.example.org", limits: limits)
    do {
        try await sync.sync()
        return "synced"
    } catch let error as TidemarkError where error.code == .unreachable {
        return "\(error.recovery): \(error.message)"
    }
}
