public import Foundation
public import GRDB
public import TidemarkCore

/// Former names of the public face: they stay for one release.
extension SyncEngine {
    /// Returns whether a record has changes that the server has not acknowledged, and that wait for no decision.
    ///
    /// - Parameters:
    ///   - table: The table.
    ///   - key: The key in canonical JSON.
    /// - Returns: Whether the record has such changes.
    /// - Throws: As ``state(of:)``.
    @available(*, deprecated, renamed: "state(of:)", message: "state(of: RecordName(table, key)) says more")
    public func isPending(table: String, key: String) async throws -> Bool {
        switch try await state(of: RecordName(table, RecordKey(json: key))) {
        case .waiting, .sending, .failed: true
        case .synced, .conflict: false
        }
    }
}

extension SyncEngine {
    /// Resolves a conflict; see ``resolve(_:with:)``.
    ///
    /// - Parameters:
    ///   - conflict: The conflict's id, or its number.
    ///   - resolution: The version to keep.
    /// - Returns: The conflicts that depend on this one.
    /// - Throws: As ``resolve(_:with:)``.
    @available(*, deprecated, renamed: "resolve(_:with:)")
    @discardableResult public func resolve(_ conflict: String, _ resolution: Resolution) async throws -> [Conflict] {
        try await resolve(conflict, with: resolution)
    }

    /// Prepares a database for syncing, with merge functions by table.
    ///
    /// - Throws: As the initializer with `merges`.
    @available(
        *,
        deprecated,
        renamed: "init(_:server:zone:credentials:user:name:transport:renames:independent:environment:limits:merges:)",
        message: "Give merges: [TableMerge(table, function)], or a RecordMerge"
    )
    public init(
        _ database: any DatabaseWriter,
        server: String,
        zone: String = "main",
        credentials: Credentials = .none,
        user: String? = nil,
        name: String? = nil,
        transport: (any Transport)? = nil,
        renames: [String: String] = [:],
        independent: IndependentTables? = nil,
        environment: Environment = .system,
        limits: Limits = .standard,
        merge: [String: MergeFunction]
    ) async throws {
        try await self.init(
            database,
            server: server,
            zone: zone,
            credentials: credentials,
            user: user,
            name: name,
            transport: transport,
            renames: renames,
            independent: independent,
            environment: environment,
            limits: limits,
            merges: merge.map { TableMerge($0.key, $0.value) }
        )
    }
}

extension SyncAccount {
    /// Opens the account of a folder, with merge functions by table.
    ///
    /// - Throws: As the initializer with `merges`.
    @available(
        *,
        deprecated,
        renamed: "init(server:folder:credentials:name:certificateAuthorities:configuration:environment:merges:migrate:)",
        message: "Give merges: [TableMerge(table, function)], or a RecordMerge"
    )
    public init(
        server: String,
        folder: URL,
        credentials: Credentials,
        name: String? = nil,
        certificateAuthorities: String? = nil,
        configuration: Configuration = Configuration(),
        environment: SyncEngine.Environment = .system,
        merge: [String: MergeFunction],
        migrate: @escaping @Sendable (DatabasePool) throws -> Void
    ) async throws {
        try await self.init(
            server: server,
            folder: folder,
            credentials: credentials,
            name: name,
            certificateAuthorities: certificateAuthorities,
            configuration: configuration,
            environment: environment,
            merges: merge.map { TableMerge($0.key, $0.value) },
            migrate: migrate
        )
    }
}

extension SyncEngine {
    /// A stream of the events sent after this call.
    @available(*, deprecated, renamed: "deviceEvents")
    public nonisolated var events: AsyncStream<SyncEvent> {
        let events = deviceEvents
        return AsyncStream { continuation in
            let task = Task {
                for await event in events { continuation.yield(SyncEvent(event)) }
                continuation.finish()
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }
}

/// An event of a sync that an app may want to show.
@available(*, deprecated, renamed: "DeviceEvent")
public enum SyncEvent: Hashable, Sendable {
    /// As ``DeviceEvent/sent(changeSets:)``.
    case sent(changeSets: Int)
    /// As ``DeviceEvent/changed(_:)``; `records` is the number of changed records.
    case remoteChanges(revision: Int64, records: Int)
    /// As ``DeviceEvent/identitiesAssigned(table:ids:)``.
    case identitiesAssigned(table: String, ids: [Int64: Int64])
    /// As ``DeviceEvent/conflict(_:)``.
    case conflict(id: String)
    /// As ``DeviceEvent/merged(_:)``.
    case merged(id: String)
    /// As ``DeviceEvent/overruled(_:)``.
    case overruled(id: String)
    /// As ``DeviceEvent/changedWhileEdited(_:isDeleted:)``; the key is in canonical JSON.
    case changedWhileEdited(table: String, key: String, isDeleted: Bool)
    /// As ``DeviceEvent/repaired(_:)``.
    case repaired(records: Int)
    /// As ``DeviceEvent/snapshotTaken(revision:records:)``.
    case snapshotTaken(revision: Int64, records: Int)
    /// As ``DeviceEvent/historyChanged(epoch:offeredAgain:)``.
    case historyChanged(epoch: String, offeredAgain: Int)
    /// As ``DeviceEvent/signInNeeded``.
    case signInNeeded
    /// As ``DeviceEvent/accessEnded(zone:isEmptied:)``.
    case accessEnded(zone: String, isEmptied: Bool)
    /// As ``DeviceEvent/failed(_:)``.
    case failed(code: String, message: String)

    init(_ event: DeviceEvent) {
        self =
            switch event {
            case .sent(let count): .sent(changeSets: count)
            case .changed(let changes): .remoteChanges(revision: changes.revision, records: changes.records)
            case .identitiesAssigned(let table, let ids): .identitiesAssigned(table: table, ids: ids)
            case .conflict(let id): .conflict(id: id)
            case .merged(let id): .merged(id: id)
            case .overruled(let id): .overruled(id: id)
            case .changedWhileEdited(let record, let isDeleted):
                .changedWhileEdited(table: record.table, key: record.key.json, isDeleted: isDeleted)
            case .repaired(let records): .repaired(records: records.count)
            case .snapshotTaken(let revision, let records): .snapshotTaken(revision: revision, records: records)
            case .historyChanged(let epoch, let count): .historyChanged(epoch: epoch, offeredAgain: count)
            case .signInNeeded: .signInNeeded
            case .accessEnded(let zone, let isEmptied): .accessEnded(zone: zone, isEmptied: isEmptied)
            case .failed(let error): .failed(code: error.code.rawValue, message: error.message)
            }
    }
}
