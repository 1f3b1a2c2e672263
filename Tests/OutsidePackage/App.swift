import GRDB
import Tidemark

/// An app that takes the product `Tidemark`: it sets limits, waits for the server, and decides by the errors.
func syncOnce(_ database: DatabaseQueue) async throws -> String {
    var limits = Limits.standard
    limits.valueBytesMax = 1 << 20
    let sync = try await SyncEngine(database, server: "https://sync.example.org", limits: limits)
    do {
        try await sync.waitForFirstSync(within: .seconds(10))
        let receipt = try await sync.waitUntilSynced(RecordName("player", 7), within: .seconds(10))
        for await status in sync.statuses where status.pendingChangeSets == 0 { break }
        await sync.stop()
        return "synced at revision \(receipt.revision)"
    } catch WaitError.notYet(let pending) {
        return "\(pending) change sets wait"
    } catch let error as TidemarkError where error.code == .unreachable {
        return "\(error.recovery): \(error.message)"
    }
}
