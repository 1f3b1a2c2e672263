import GRDB
import Synchronization
import TidemarkEngine

/// Detects commits of other connections and programs to a zone's file.
///
/// The watch has a read-only connection of its own. SQLite's `PRAGMA data_version` changes on it when
/// another connection commits. Reading it costs some microseconds while the file is unchanged.
final class OutsideWatch: Sendable {
    private struct State {
        var file: DatabaseQueue?
        var version: Int64?
        /// The zone's head as last read, and the file's `data_version` at that time.
        var head: (version: Int64, head: ZoneHead)?
    }

    private let path: String
    private let state = Mutex(State())

    init(path: String) { self.path = path }

    /// Opens the file unless it is open; call this on a thread that may block.
    func open() throws {
        try state.withLock { state in
            guard state.file == nil else { return }
            state.file = try DatabaseQueue(path: path, configuration: .waiting(readonly: true, label: "tidemark.watch"))
        }
    }

    var isOpen: Bool { state.withLock { $0.file != nil } }

    /// Whether the file changed since the last call, with captured changes to log, which the server's commits lack.
    func hasNews() async throws -> Bool {
        guard let file = state.withLock(\.file) else { return false }
        return try await file.read { [self] db in
            let version = try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA data_version"))
            let isSeen = state.withLock { state in
                defer { state.version = version }
                return state.version == version
            }
            guard !isSeen else { return false }
            return try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM tidemark_capture)")) ?? false
        }
    }

    /// Returns the zone's head for a device, cached until another connection commits; nil if only a writer can tell.
    func head(of schema: ServedSchema, for device: String?) async throws -> ZoneHead? {
        guard let file = state.withLock(\.file) else { return nil }
        return try await file.read { [self] db in
            guard var head = try latest(schema, in: db) else { return nil }
            if let device { head.hasMessages = try FileConnection(db).hasMessages(for: device) }
            return head
        }
    }

    private func latest(_ schema: ServedSchema, in db: Database) throws -> ZoneHead? {
        let version = try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA data_version")) ?? 0
        if let cached = state.withLock(\.head), cached.version == version, cached.head.state.schema == schema.hash {
            return cached.head
        }
        let layout = schema.schema.fingerprintLayout
        guard try schema.version.isCurrent(in: db),
            let head = try FileConnection(db).zoneHead(for: nil, schema: schema.hash, layout: layout)
        else { return nil }
        state.withLock { $0.head = (version, head) }
        return head
    }

    func close() throws {
        let file = state.withLock { state in
            defer { state = State() }
            return state.file
        }
        try file?.close()
    }
}
