import Foundation
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// A database restored from a backup starts a new history, if the operator says so.
@Suite struct RestoreTests {
    @Test func `rule 14: after a restore devices are told the last common revision`() async throws {
        let zone = try await PostgresZone()
        _ = try await zone.sync(at: 0, #"{"team":{"create":[-1],"attributes":{"-1":{"name":"a"}}}}"#)
        let before = try await zone.store.latest(zone: "main")
        var options = PostgresStore.Options(address: zone.database.address, newEpoch: UUID())
        options.isRestored = true
        let restored = try await PostgresStore(options)
        let after = try await restored.latest(zone: "main")
        #expect(after.epoch != before.epoch)
        #expect(after.revision == before.revision)
        let body = #"{"maxRevision":1,"epoch":"\#(before.epoch)"}"#
        let error = await #expect(throws: TidemarkError.self) {
            try await restored.sync(zone: "main", body: Array(body.utf8))
        }
        #expect(error?.code == .epochMismatch)
        #expect(error?.message.contains("revision 1") == true)
        await restored.close()
    }
}
