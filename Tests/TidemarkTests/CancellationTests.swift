import Foundation
import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A cancelled sync has all of its effects or none, and the next one succeeds.
@Suite struct CancellationTests {
    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"
    private static let seed = "INSERT INTO notes (text) VALUES ('milk'), ('bread')"

    @Test func `A15: a sync cancelled during its snapshot does not block the next one`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let trap = Trap()
        let system = SyncEngine.Environment.system
        let engine = try await SyncEngine(
            anna.database,
            server: "http://cluster.test",
            transport: EditedMeanwhile(real: anna.transport) {
                // An edit gets its id when the snapshot is attached.
                try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
                trap.lay()
            },
            environment: .init(
                now: system.now,
                newID: {
                    trap.spring()
                    return system.newID()
                }
            )
        )
        try await anna.write("UPDATE tidemark_device SET stale = 1")
        let sync = trap.watch { try await engine.sync() }
        await #expect(throws: CancellationError.self) { try await sync.value }
        #expect(trap.hasSprung)
        #expect(try await anna.rows("SELECT text FROM notes") == ["oat milk", "bread"])
        let enforces = try await anna.database.writeWithoutTransaction { db in
            try Bool.fetchOne(db, sql: "PRAGMA foreign_keys")
        }
        #expect(enforces == true)
        try await engine.sync()
        #expect(try await anna.rows("SELECT stale FROM tidemark_device") == ["0"])
        #expect(try await cluster.rows("SELECT text FROM notes") == ["oat milk", "bread"])
        try await cluster.converge(anna)
    }
}

/// Cancels a sync when its engine next requests an id, in the middle of any step.
private final class Trap: Sendable {
    private struct State {
        var sync: Task<Void, any Error>?
        var isLaid = false
        var hasSprung = false
    }

    private let state = Mutex(State())

    var hasSprung: Bool { state.withLock { $0.hasSprung } }

    /// Starts the sync that the trap cancels.
    func watch(_ sync: @escaping @Sendable () async throws -> Void) -> Task<Void, any Error> {
        // The task is not cancelled before it is stored.
        state.withLock { state -> Task<Void, any Error> in
            let task = Task { try await sync() }
            state.sync = task
            return task
        }
    }

    func lay() { state.withLock { $0.isLaid = !$0.hasSprung } }

    func spring() {
        let sync = state.withLock { state -> Task<Void, any Error>? in
            guard state.isLaid else { return nil }
            state.isLaid = false
            state.hasSprung = true
            return state.sync
        }
        sync?.cancel()
    }
}

/// A transport that runs code during a snapshot download.
private struct EditedMeanwhile: ForwardingTransport {
    let real: InProcessTransport
    let meanwhile: @Sendable () async throws -> Void

    func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        try await real.snapshot(zone: zone, since: base, to: path, progress: progress)
        try await meanwhile()
    }
}
