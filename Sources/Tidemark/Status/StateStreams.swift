import Foundation
import GRDB
import TidemarkCore

/// Streams of the state now.
extension SyncEngine {
    /// The status now, and after every round and every commit of this and other processes.
    ///
    /// Each access returns a new stream, which begins at once. Only the latest status waits for a slow reader. The
    /// stream ends with the engine.
    public nonisolated var statuses: AsyncStream<DeviceStatus> {
        let values = LatestValues(of: self) { try await $0.status() }
        return AsyncStream(unfolding: { await values.nextReadable() })
    }

    /// The parked conflicts now, and the list after each change of it.
    ///
    /// Each access returns a new stream, which begins at once. Only the latest list waits for a slow reader. The
    /// stream ends with the engine.
    public nonisolated var openConflicts: AsyncStream<[Conflict]> {
        let values = LatestValues(of: self, without: ==) { try await $0.conflicts() }
        return AsyncStream(unfolding: { await values.nextReadable() })
    }

    /// The progress of the first download now, and as it grows.
    ///
    /// It ends at ``DownloadProgress/Stage/finished``, which a device that has the zone's rows says at once.
    public nonisolated var progress: AsyncStream<DownloadProgress> {
        let values = LatestValues(of: self) { try await $0.downloadProgress }
        let end = Remembered(false)
        return AsyncStream(unfolding: {
            guard !end.update({ $0 }), let value = await values.nextReadable() else { return nil }
            if value == .finished { end.update { $0 = true } }
            return value
        })
    }

    private nonisolated var downloadProgress: DownloadProgress {
        get async throws {
            let hasRows = try await database.read { try DeviceFile($0).epoch != nil }
            return hasRows ? .finished : meter.current
        }
    }

    /// Waits until the file has the zone's rows, and ids that the server has lent for new records.
    ///
    /// Without the background sync it syncs itself, and repeats what a retry can help.
    ///
    /// - Parameter limit: The longest wait; nil waits without end.
    /// - Throws: ``WaitError/notYet(pending:)`` at the end of the limit, the error of a sync that no retry can help, or
    ///   `CancellationError`.
    public func waitForFirstSync(within limit: Duration? = nil) async throws {
        let lendsIDs = limits.lendsIDs
        try await wait(within: limit) { db, _ -> Look<Void> in
            let file = try DeviceFile(db)
            guard file.epoch != nil else { return .pending(0) }
            let hasIDs = try !lendsIDs || DrawnIDs.hasAsked(for: file.schema.tables, in: db)
            return hasIDs ? .done(()) : .pending(0)
        }
    }
}
