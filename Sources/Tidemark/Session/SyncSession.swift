import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// The shell of a sync: carries the core's requests to the server and the answers back, until both
/// sides are even.
///
/// It decides nothing about rows. What it knows is which error asks for which next step.
struct SyncSession: Sendable {
    let database: any DatabaseWriter
    let transport: any Transport
    let environment: SyncEngine.Environment
    let limits: Limits
    let commits: CommitObserver

    /// Runs rounds until nothing waits and nothing is missing.
    func run(_ tell: @Sendable (SyncEvent) -> Void) async throws {
        var changeSetsMax = limits.changeSetsPerRequestMax
        var (isCatchingUp, snapshotsTaken) = (false, 0)
        while true {
            try Task.checkCancellation()
            do {
                let outgoing = try await prepare(isCatchingUp ? 0 : changeSetsMax)
                guard let answer = try await send(outgoing, tell) else {
                    changeSetsMax = max(1, outgoing.changeSets.count / 2)
                    continue
                }
                let applied = try await apply(answer, to: outgoing)
                applied.events.forEach(tell)
                isCatchingUp = applied.hasMore
                if !applied.hasMore, !applied.hasPending, !applied.isStale { return }
                try requireProgress(outgoing, applied)
            } catch let error as TidemarkError where error.recovery == .resync && snapshotsTaken < 2
            {
                snapshotsTaken += 1
                try await takeSnapshot().events.forEach(tell)
            } catch let error as TidemarkError
                where error.recovery == .permanent && error.place.id != nil
            {
                try await park(error).forEach(tell)
            }
        }
    }

    private func prepare(_ changeSetsMax: Int) async throws -> DeviceCore.Outgoing {
        let (core, newID) = (DeviceCore(limits: limits), environment.newID)
        return try await database.write { db in
            try core.prepareRequest(
                db,
                boundaries: commits.takeBoundaries(),
                changeSetsMax: changeSetsMax,
                newID: newID
            )
        }
    }

    /// Brings the answer, or nil when the request has to be made smaller.
    ///
    /// A change set that is too large by itself is parked, so that the others flow on.
    private func send(
        _ outgoing: DeviceCore.Outgoing,
        _ tell: @Sendable (SyncEvent) -> Void
    ) async throws -> [UInt8]? {
        do {
            return try await transport.sync(zone: outgoing.zone, body: outgoing.body)
        } catch var error as TidemarkError where error.code == .tooLarge {
            guard let first = outgoing.changeSets.first else { throw error }
            if outgoing.changeSets.count == 1 {
                error.place.id = first
                try await park(error).forEach(tell)
            }
            return nil
        }
    }

    private func apply(
        _ answer: [UInt8],
        to outgoing: DeviceCore.Outgoing
    ) async throws -> Applied {
        let (core, newID, now) = (DeviceCore(limits: limits), environment.newID, environment.now())
        return try await database.writeWithoutTransaction { db in
            try core.apply(
                answer,
                to: outgoing,
                in: db,
                boundaries: commits.takeBoundaries(),
                now: now,
                newID: newID
            )
        }
    }

    /// An answer that settles nothing of what was sent would be asked for again for ever.
    private func requireProgress(_ outgoing: DeviceCore.Outgoing, _ applied: Applied) throws {
        guard !outgoing.changeSets.isEmpty, !applied.isStale, !applied.hasMore,
            applied.settledCount == 0
        else { return }
        throw TidemarkError(
            .invalidResponse,
            "The answer has no verdict on the change sets that were sent.",
            fix: "They are kept and sent again later. Compare the versions of both sides."
        )
    }

    /// Moves a change set that the server refuses to take out of the way of the others.
    private func park(_ error: TidemarkError) async throws -> [SyncEvent] {
        let (now, newID) = (environment.now(), environment.newID)
        return try await database.writeWithoutTransaction { db in
            try DeviceCore.park(
                error,
                in: db,
                boundaries: commits.takeBoundaries(),
                now: now,
                newID: newID
            )
        }
    }

    private func takeSnapshot() async throws -> Applied {
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("tidemark-\(environment.newID().uuidString).sqlite").path
        defer { SnapshotScratch.remove(path) }
        let zone = try await database.read { try DeviceFile($0).zone }
        try await transport.snapshot(zone: zone, to: path) { _, _ in }
        let (newID, now) = (environment.newID, environment.now())
        return try await database.writeWithoutTransaction { db in
            try TakeSnapshot(
                db: db,
                snapshotPath: path,
                boundaries: commits.takeBoundaries(),
                now: Timestamp.text(now),
                newID: newID
            ).take()
        }
    }
}

/// Temporary files of a snapshot that is being taken in.
enum SnapshotScratch {
    /// Removes the file and what SQLite may have laid beside it.
    static func remove(_ path: String) {
        for name in [path, path + "-wal", path + "-shm", path + "-journal"]
        where FileManager.default.fileExists(atPath: name) {
            do {
                try FileManager.default.removeItem(atPath: name)
            } catch {
                // A file in the temporary folder that cannot be removed is the system's to clear.
                continue
            }
        }
    }
}
