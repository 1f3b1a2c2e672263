import Foundation
public import GRDB
import TidemarkCore
import TidemarkSQL

/// Waiting until the server has a record's changes.
///
/// A change is durable in the file when the app's write returns. To wait for the server is another thing: it takes as
/// long as the network does, so it never blocks a write, and the end of its time undoes nothing.
extension SyncEngine {
    /// Waits until the server has all changes that were made before this call.
    ///
    /// Without the background sync it syncs itself, and repeats what a retry can help.
    ///
    /// - Parameter limit: The longest wait; nil waits without end.
    /// - Returns: The receipt.
    /// - Throws: ``WaitError``; ``TidemarkCore/TidemarkError`` if a person has to change something first; or
    ///   `CancellationError`. The changes stay where they are.
    @discardableResult public func waitUntilSynced(within limit: Duration? = nil) async throws -> Receipt {
        try await waitForServer(within: limit) { _ in nil }
    }

    /// Waits until the server has all changes of a record, and those before them, that were made before this call.
    ///
    /// As ``waitUntilSynced(within:)``. A refusal of earlier changes of the record ends the wait, too.
    ///
    /// - Parameters:
    ///   - record: The name of the record, with any of its ids.
    ///   - limit: The longest wait; nil waits without end.
    /// - Returns: The receipt.
    /// - Throws: As ``waitUntilSynced(within:)``; ``TidemarkCore/ErrorCode/unknownTable``;
    ///   ``TidemarkCore/ErrorCode/unknownRecord`` if neither the file nor the server has the record, and no
    ///   acknowledged change set of this device that the file still keeps has named it.
    @discardableResult public func waitUntilSynced(_ record: RecordName, within limit: Duration? = nil) async throws
        -> Receipt
    { try await waitForServer(within: limit) { try record.require(in: $0) } }

    /// Waits until the server has all changes of a record of the app.
    ///
    /// As with the record's name. A record without a value in a key column has no name, and is refused.
    @discardableResult public func waitUntilSynced<Record: EncodableRecord & TableRecord & Sendable>(
        _ record: Record, within limit: Duration? = nil
    ) async throws -> Receipt { try await waitForServer(within: limit) { try RecordName(of: record, in: $0) } }

    /// Reads a record's name as people write it, such as `player/7`; throws `unknownTable` or `invalidKey`.
    package func recordName(_ path: String) async throws -> RecordName {
        try await database.typingStorage {
            try await database.read { try RecordName(path: path, in: DeviceFile($0).schema) }
        }
    }

    private func waitForServer(within limit: Duration?, _ name: @escaping @Sendable (SyncSchema) throws -> RecordName?)
        async throws -> Receipt
    {
        let sets = Remembered(try await awaitedSets(name))
        let revision = try await wait(within: limit) { db, hasSynced -> Look<Int64> in
            // Verdicts come from a zone that the file has joined.
            let outcome = try sets.update { try $0.look(in: db) }
            guard case .done = outcome else { return outcome }
            if try DeviceFile(db).epoch == nil { return .pending(0) }
            guard try !sets.update({ try $0.isKnown(in: db) }) else { return outcome }
            // The server may have the record, and the file not yet.
            guard hasSynced else { return .pending(0) }
            throw try Self.unknownRecord(name(DeviceFile(db).schema))
        }
        return Receipt(
            zone: try await status().zone, revision: revision,
            changeSets: sets.update { $0.ids.compactMap { UUID(uuidString: $0) } }, at: environment.now())
    }

    private static func unknownRecord(_ record: RecordName?) -> TidemarkError {
        let name = record.map { "\($0.table) \($0.key.json)" } ?? "the record"
        return TidemarkError(
            .unknownRecord, "Neither this file nor the server has \(name).", fix: "Check the table and the key.",
            place: .init(table: record?.table, key: record?.key.json))
    }

    /// Drains the captured changes, and finds the change sets of a record or of all records.
    private func awaitedSets(_ name: @escaping @Sendable (SyncSchema) throws -> RecordName?) async throws -> AwaitedSets
    {
        try await withRound { round in
            let record = try name(round.schema)
            try round.drain()
            return try AwaitedSets(of: record, in: round.db)
        }
    }

    /// Runs `body` in a transaction, after it has adapted the bookkeeping to altered tables.
    func withRound<Output: Sendable>(_ body: @escaping @Sendable (RoundContext) throws -> Output) async throws -> Output
    {
        try await database.typingStorage { [commits, environment] in
            try await database.writeWithoutTransaction { db in
                let moment = Moment(environment, boundaries: commits.takeBoundaries())
                try FitSchema(db: db, moment: moment).runAlone()
                var output: Output?
                try db.inTransaction(.immediate) {
                    output = try body(RoundContext(db, at: moment))
                    return .commit
                }
                guard let output else { throw TidemarkError.unreadable("The file") }
                return output
            }
        }
    }
}
