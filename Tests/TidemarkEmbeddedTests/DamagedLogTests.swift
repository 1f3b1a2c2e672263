import Foundation
import GRDB
import StoreTestSupport
import Synchronization
import Testing
import TidemarkCore
import TidemarkEmbedded
import TidemarkTestSupport

/// A damaged entry in the served file's log, with intact rows.
@Suite struct DamagedLogTests {
    private static let schema = """
        CREATE TABLE note (id TEXT PRIMARY KEY, text TEXT);
        CREATE TABLE tag (id TEXT PRIMARY KEY);
        """

    /// The damages to the entry of revision 2.
    private static let damages = [
        "UPDATE tidemark_revision SET body = substr(body, 2) WHERE revision = 2",
        "UPDATE tidemark_revision SET body = replace(body, 'b', 'x') WHERE revision = 2",
        "UPDATE tidemark_revision SET body = replace(body, 'second', 'record') WHERE revision = 2",
        "UPDATE tidemark_revision SET body = '' WHERE revision = 2",
        "UPDATE tidemark_revision SET chain = 'x' || chain WHERE revision = 2",
        "DELETE FROM tidemark_revision WHERE revision = 2",
    ]

    /// A zone at revision 3.
    private static func zone() async throws -> TestZone {
        let zone = try TestZone(schema)
        for (revision, key) in ["a", "b", "c"].enumerated() {
            let text = ["first", "second", "third"][revision]
            _ = try await zone.sync(at: Int64(revision), device: key, create(key, text))
        }
        return zone
    }

    private static func create(_ key: String, _ text: String) -> String {
        #"{"note":{"create":["\#(key)"],"attributes":{"\#(key)":{"text":"\#(text)"}}}}"#
    }

    private static func code(_ store: EmbeddedStore, at revision: Int64, _ changeSets: String = "") async throws
        -> ErrorCode?
    {
        let body = #"{"maxRevision":\#(revision),"device":"z","changeSets":[\#(changeSets)]}"#
        do {
            _ = try await store.sync(zone: "main", body: Array(body.utf8))
            return nil
        } catch let error as TidemarkError { return error.code }
    }

    @Test(arguments: damages)
    func `rule 6: devices below a damaged log entry get a snapshot, others continue`(_ damage: String)
        async throws
    {
        let zone = try await Self.zone()
        try await zone.store.close()
        try TestZone.write(damage, to: zone.path)
        let log = Mutex<[String]>([])
        let store = try EmbeddedStore(
            path: zone.path, newEpoch: UUID(), warn: { text in log.withLock { $0.append(text) } })
        // A device above the entry is not affected.
        #expect(try await Self.code(store, at: 3) == .none)
        #expect(log.withLock(\.self).isEmpty)
        // A device below the entry is refused before any effect, with an edit or without.
        #expect(try await Self.code(store, at: 1) == .snapshotRequired)
        #expect(try await Self.code(store, at: 0, Self.create("z", "new")) == .snapshotRequired)
        #expect(try await zone.column("SELECT count(*) FROM note") == ["3"])
        #expect(log.withLock { $0.first?.contains("revision 2") } == true)
        // After the snapshot sync works normally.
        let snapshot = try await store.snapshot(zone: "main", since: nil)
        #expect(snapshot.revision == 3)
        await store.releaseSnapshot(snapshot)
        #expect(try await Self.code(store, at: 3, Self.create("z", "new")) == nil)
        #expect(try await store.state().revision == 4)
        try await store.close()
        let verification = try ZoneVerification(path: zone.path, repairing: false)
        #expect(verification.damagedEntries.isEmpty && verification.expected == verification.computed)
    }

    @Test(arguments: damages) func `verify names the damaged log entry and its tables, and repairs the log`(
        _ damage: String
    )
        async throws
    {
        let zone = try await Self.zone()
        try await zone.store.close()
        #expect(try ZoneVerification(path: zone.path, repairing: false).damagedEntries.isEmpty)
        try TestZone.write(damage, to: zone.path)
        let verification = try ZoneVerification(path: zone.path, repairing: true).damagedEntries
        #expect(verification.first?.revision == 2 && verification.first?.tables == ["note"])
        #expect(try ZoneVerification(path: zone.path, repairing: false).damagedEntries.isEmpty)
        let store = try EmbeddedStore(path: zone.path, newEpoch: UUID())
        #expect(try await Self.code(store, at: 1) == .snapshotRequired)
        #expect(try await Self.code(store, at: 3, Self.create("z", "new")) == nil)
        try await store.close()
    }

    @Test func `a zone whose revision is below its log is refused until verify has repaired it`() async throws {
        let zone = try await Self.zone()
        try await zone.store.close()
        try TestZone.write("UPDATE tidemark_zone SET revision = 1", to: zone.path)
        let refusal = #expect(throws: TidemarkError.self) { _ = try EmbeddedStore(path: zone.path, newEpoch: UUID()) }
        #expect(refusal?.code == .fileDamaged)
        #expect(refusal?.fix.contains("verify") == true)
        #expect(try ZoneVerification(path: zone.path, repairing: true).logEnd == 3)
        let store = try EmbeddedStore(path: zone.path, newEpoch: UUID())
        #expect(try await Self.code(store, at: 3, Self.create("z", "new")) == nil)
        #expect(try await store.state().revision == 4)
        try await store.close()
    }
}
