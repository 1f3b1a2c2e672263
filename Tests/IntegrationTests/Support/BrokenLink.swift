import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A device in this process, a server in another, and two connections: one through a relay
/// that follows a fault plan, and one without faults.
final class BrokenLink: Sendable {
    let workshop: Workshop
    let server: Server
    let relay: TCPRelay
    /// The connection through the relay.
    let brokenURL: String
    /// The device's file, as its app opens it.
    let device: DatabasePool
    /// Syncs through the relay.
    let broken: SyncEngine
    /// Syncs without the relay.
    let whole: SyncEngine

    init(schema: String, limits: Limits = .standard) async throws {
        workshop = try Workshop()
        try await workshop.sqlite3("zone.sqlite", schema)
        server = try await workshop.serve("zone.sqlite")
        try await workshop.join(server, "a.sqlite")
        relay = TCPRelay(targetPort: server.port)
        brokenURL = "http://127.0.0.1:\(try await relay.start())"
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        device = try DatabasePool(path: workshop.path("a.sqlite"), configuration: configuration)
        broken = try await SyncEngine(
            device, server: brokenURL, transport: HTTPTransport(url: brokenURL, limits: limits))
        whole = try await SyncEngine(device, server: server.url)
    }

    /// Edits the device's file, as the app.
    func edit(_ sql: String) async throws { try await device.write { try $0.execute(sql: sql) } }

    /// The rows of a query in the server's file.
    func served(_ sql: String) async throws -> String { try await workshop.sqlite3("zone.sqlite", sql) }

    /// Syncs through the relay while it follows a plan; returns the error, if any.
    func sync(_ faults: RelayPlan.Fault...) async throws -> TidemarkError? {
        relay.hangUp()
        relay.follow(RelayPlan(faults))
        let before = relay.traffic.faults
        let first = try await sync()
        // The request may have used the old connection, before its end was noticed.
        guard first?.code == .unreachable, relay.traffic.faults == before else { return first }
        return try await sync()
    }

    private func sync() async throws -> TidemarkError? {
        do {
            try await broken.sync()
            return nil
        } catch let error as TidemarkError { return error }
    }

    /// The device's outbox, captured edits, conflicts and revision.
    func waiting() async throws -> [String] {
        try await device.read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT 'set', id, wire FROM tidemark_changeset
                    UNION ALL SELECT 'edit', tbl || key, attributes FROM tidemark_outbox
                    UNION ALL SELECT 'parked', id, reasons FROM tidemark_conflict
                    UNION ALL SELECT 'state', revision, applying FROM tidemark_state
                    """
            ).map(\.description)
        }
    }

    /// Compares the files as a whole.
    func finish() async throws {
        try await whole.sync()
        try await relay.stop()
        try device.close()
        try await workshop.expectEqual(server, "a.sqlite", "zone.sqlite")
        try await server.stopped()
    }
}
