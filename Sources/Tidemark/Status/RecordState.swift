public import Foundation
public import GRDB
public import TidemarkCore
import TidemarkSQL

/// Whether a record is safe on the server, and if not, why.
///
/// An app can show it at each row. In SQL, the view `tidemark_state_TABLE` has the same states but ``failed(_:)``.
public enum RecordState: Hashable, Sendable {
    /// The server has all changes of the record; `revision` is the file's.
    case synced(revision: Int64)
    /// A change waits in the file, since this time; nil for an edit that the engine has not looked at yet.
    case waiting(since: Date?)
    /// All changes are in a request, and the server's answer is outstanding; offline, since the last attempt.
    case sending
    /// The server refused a change, which is among the conflicts under this id; nothing of it is lost.
    case conflict(Conflict.ID)
    /// A change waits, and is not sent before a person changes something: the error says it.
    case failed(TidemarkError)

    /// Whether the server has all changes.
    public var isSynced: Bool { if case .synced = self { true } else { false } }
}

/// The state of one record.
extension SyncEngine {
    /// Returns the state of a record, named by any of its ids; it reads the file and writes nothing.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unknownTable``, or an error of the file.
    public func state(of record: RecordName) async throws -> RecordState {
        try await state { try record.require(in: $0) }
    }

    /// Returns the state of a record of the app, as with its name; one without a value in a key column is refused.
    public func state<Record: EncodableRecord & TableRecord & Sendable>(of record: Record) async throws -> RecordState {
        try await state { try RecordName(of: record, in: $0) }
    }

    /// The state of a record now, and each other one that it gets.
    ///
    /// Each call returns a new stream. Only the latest state waits for a slow reader. The stream ends with the engine,
    /// and throws as ``state(of:)`` does.
    public nonisolated func states(of record: RecordName) -> AsyncThrowingStream<RecordState, any Error> {
        states { try record.require(in: $0) }
    }

    /// The state of a record of the app now, and each other one that it gets, as with the record's name.
    public nonisolated func states<Record: EncodableRecord & TableRecord & Sendable>(of record: Record)
        -> AsyncThrowingStream<RecordState, any Error>
    { states { try RecordName(of: record, in: $0) } }

    private nonisolated func states(_ name: @escaping @Sendable (SyncSchema) throws -> RecordName)
        -> AsyncThrowingStream<RecordState, any Error>
    {
        let values = LatestValues<RecordState>(of: self, without: ==) { try await $0.state(name) }
        return AsyncThrowingStream(unfolding: { try await values.next() })
    }

    private func state(_ name: @escaping @Sendable (SyncSchema) throws -> RecordName) async throws -> RecordState {
        let state = try await database.typingStorage { try await readState(name) }
        // A table without a view does not fit the zone's, so nothing of it is sent.
        let known = state ?? .waiting(since: nil)
        switch known {
        case .synced, .conflict, .failed: return known
        case .waiting, .sending: return lastFailure.flatMap { Self.endsWait($0) ? .failed($0) : nil } ?? known
        }
    }

    private func readState(_ name: @escaping @Sendable (SyncSchema) throws -> RecordName) async throws -> RecordState? {
        if let state = try await database.read({ try Self.state(name, in: $0) }) { return state }
        // The app has altered tables while the engine was open, and their views are still to be made.
        try await database.writeWithoutTransaction { [commits, environment] db in
            try FitSchema(db: db, moment: Moment(environment, boundaries: commits.takeBoundaries())).runAlone()
        }
        return try await database.read { try Self.state(name, in: $0) }
    }

    /// Reads a record's state; nil if the record's table has no view yet.
    private static func state(_ name: (SyncSchema) throws -> RecordName, in db: Database) throws -> RecordState? {
        let file = try DeviceFile(db)
        let record = try name(file.schema)
        guard let table = file.schema.byName[record.table], try StateViews.hasView(of: table, in: db) else {
            return nil
        }
        if let state = try state(of: record.key.json, in: table, db) { return state }
        if let id = Int64(record.key.json), let other = try TemporaryIDs.permanentID(for: id, in: table.name, db),
            let state = try state(of: String(other), in: table, db)
        {
            return state
        }
        // Nobody has confirmed the rows of a file that has not joined its zone.
        return file.epoch == nil ? .waiting(since: nil) : .synced(revision: file.revision)
    }

    /// Reads a record's state in its table's view; nil if it has none.
    ///
    /// It reads by the key, so that SQLite uses an index and lists no captured rows.
    private static func state(of key: String, in table: SyncedTable, _ db: Database) throws -> RecordState? {
        let columns = ["state", "since", "conflict"].map { StateViews.column($0, of: table) }.joined(separator: ", ")
        let row = try Row.fetchOne(
            db, cached: "SELECT \(columns) FROM \(SQLText.name(StateViews.name(of: table))) WHERE tidemark_key = ?",
            arguments: [key])
        guard let row else { return try isCaptured(key, in: table, db) ? .waiting(since: nil) : nil }
        switch try row.value(0) as String {
        case "conflict": return .conflict(try row.value(2))
        case "sending": return .sending
        default:
            let since: Int64? = try row.value(1)
            return .waiting(since: since.map { Date(timeIntervalSince1970: Double($0)) })
        }
    }

    private static func isCaptured(_ key: String, in table: SyncedTable, _ db: Database) throws -> Bool {
        let isKey = table.key.map { "\(SQLText.name($0)) = ?" }.joined(separator: " AND ")
        return try Bool.fetchOne(
            db, cached: "SELECT EXISTS (SELECT 1 FROM \(StateViews.captured(table)) WHERE \(isKey))",
            arguments: StatementArguments(CanonicalJSON.parts(of: key))) ?? false
    }
}
