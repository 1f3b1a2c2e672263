import Foundation
import GRDB
import Synchronization
import TidemarkCore
import TidemarkSQL

/// The async shell of a sync: it sends the requests of ``SyncRound`` and feeds it the responses.
///
/// It holds no rule of the protocol; ``SyncRound`` decides each next step. It works off the actor.
extension SyncEngine {
    /// Runs steps until the round is finished; returns the result of the row comparison, nil if there was none.
    @concurrent nonisolated func run(_ purpose: SyncPurpose, _ pushedChange: PushedChange?) async throws
        -> Verification?
    {
        var round = SyncRound(
            for: purpose, sendsConditionalGet: conditionalGetPolicy.update { $0.beginSync() }, limits: limits,
            environment: environment, merges: merges, pushedChange: pushedChange,
            onRecords: { [meter] in meter.applied($0, of: $1) }
        ) { [commits] in commits.takeBoundaries() }
        defer { conditionalGetPolicy.update { [round] in $0.record(round.machine.shortRequest.outcome) } }
        do {
            try await run(&round)
            return round.machine.verification
        } catch {
            // An unstructured task ends the round even if this task is cancelled. Otherwise the database
            // write would be skipped, and other processes would wait until the sync lock expires.
            let last = round
            try await Task { [database] in
                try await database.writeWithoutTransaction { db in
                    var round = last
                    try round.end(in: db)
                }
            }.value
            throw error
        }
    }

    private nonisolated func run(_ round: inout SyncRound) async throws {
        let tell = eventHub.send
        while true {
            try Task.checkCancellation()
            var current: SyncRound.Step?
            do {
                let step = try await advance(&round, { try $0.next($1) })
                current = step
                switch step {
                case .finish: return
                case .send(let outgoing):
                    let carried = outgoing.carried
                    current = .send(carried)
                    let answer = try await carry(outgoing)
                    try await advance(&round) { try $0.applyAnswer(answer, to: carried, in: $1) }.forEach(tell)
                case .compare(let question):
                    let answer = try await transport.fingerprints(zone: question.zone, body: question.body)
                    try await advance(&round) { try $0.applyComparison(answer, to: question, in: $1) }.forEach(tell)
                case .fetchSnapshot(let zone, let base):
                    try await takeSnapshot(of: zone, since: base, &round).forEach(tell)
                case .askHistory(let question):
                    let answer = try await transport.history(
                        zone: question.zone, table: question.table, key: question.path)
                    try await advance(&round) { try $0.applyHistory(answer, to: question, in: $1) }.forEach(tell)
                case .fetchSchema(let zone):
                    let schema = try await transport.schema(zone: zone)
                    try await advance(&round) { try $0.applySchema(schema, in: $1) }
                }
            } catch let error as TidemarkError {
                let step = current
                try await advance(&round) { try $0.handle(error, during: step, in: $1) }.forEach(tell)
                // Rows of a zone that the user may not read any more do not stay beside the file.
                guard case .left = round.machine.state else { continue }
                SnapshotScratch.removeAll(beside: database.path)
            }
        }
    }

    private nonisolated func carry(_ outgoing: DeviceCore.Outgoing) async throws -> [UInt8] {
        if let pushedAnswer = outgoing.pushedAnswer { return pushedAnswer }
        let zone = outgoing.zone
        guard let question = outgoing.conditionalGet else {
            return try await transport.sync(zone: zone, body: outgoing.body)
        }
        return try await transport.news(zone: zone, device: question.device, since: question.tag) ?? question.nothingNew
    }

    /// Runs one step of the state machine on the database's thread.
    private nonisolated func advance<Result: Sendable>(
        _ round: inout SyncRound, _ body: @escaping @Sendable (inout SyncRound, Database) throws -> Result
    ) async throws -> Result {
        let start = round
        let (next, result) = try await database.writeWithoutTransaction { db in
            var round = start
            let result = try body(&round, db)
            return (round, result)
        }
        round = next
        return result
    }

    private nonisolated func takeSnapshot(of zone: String, since base: DeltaBase?, _ round: inout SyncRound)
        async throws
        -> [DeviceEvent]
    {
        let scratch = SnapshotScratch(beside: database.path, newID: environment.newID)
        let path = scratch.path
        defer { scratch.close() }
        let lock = round.lock
        let start = environment.now()
        let (pieces, arrived) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        async let renewal: Void = renew(lock, takenAt: start, while: pieces)
        try await transport.snapshot(zone: zone, since: base, to: path) { [meter] bytes, total in
            meter.received(bytes, of: total)
            arrived.yield()
        }
        arrived.finish()
        try await renewal
        do {
            let events = try await advance(&round) { try $0.applySnapshot(at: path, in: $1) }
            scratch.removeReceived()
            return events
        } catch {
            if !Self.isInterruption(error) { scratch.removeReceived() }
            throw error
        }
    }

    /// Whether the same snapshot may fit the next time.
    private static func isInterruption(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError else { return error is CancellationError }
        return [.SQLITE_ABORT, .SQLITE_INTERRUPT, .SQLITE_BUSY].contains(error.resultCode)
    }

    /// Renews the sync lock while pieces of the snapshot arrive, at most once per half lease.
    private nonisolated func renew(_ lock: SyncLock, takenAt start: Date, while pieces: AsyncStream<Void>) async throws
    {
        var lastRenewal = start
        for await _ in pieces where environment.now().timeIntervalSince(lastRenewal) >= SyncLock.lease / 2 {
            lastRenewal = environment.now()
            try await database.writeWithoutTransaction { try lock.renew($0) }
        }
    }
}

/// A value that an engine keeps from one sync to the next; safe to use from any task.
final class Remembered<Value: Sendable>: Sendable {
    private let value: Mutex<Value>

    init(_ value: Value) { self.value = Mutex(value) }

    /// Reads and changes the value under the mutex.
    func update<Result: Sendable>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        try value.withLock { try body(&$0) }
    }
}

/// The files of a snapshot download: beside the database, so that the next process finds what has arrived.
///
/// One download at a time has them, by a lock of the system. Another one, of a process that was thought dead or of a
/// database in memory, has files in the system's temporary folder, which nobody resumes.
struct SnapshotScratch {
    let path: String
    /// The locked file of received bytes; nil in the temporary folder.
    private let lock: FileHandle?
    private static let suffix = "-tidemark-snapshot"

    init(beside database: String, newID: () -> UUID) {
        let shared = database + Self.suffix
        lock =
            FileManager.default.fileExists(atPath: database) ? Self.lock(shared + SnapshotDownload.receivedSuffix) : nil
        let name = "tidemark-\(newID().uuidString)"
        path = lock == nil ? FileManager.default.temporaryDirectory.appendingPathComponent(name).path : shared
    }

    /// Locks a file; nil if another download has it, has just removed it, or the folder cannot be written.
    private static func lock(_ path: String) -> FileHandle? {
        // Where no file can be, the temporary folder serves.
        guard let file = try? PartFile.open(path, O_RDWR | O_CREAT) else { return nil }
        var named = stat()
        var locked = stat()
        guard flock(file.fileDescriptor, LOCK_EX | LOCK_NB) == 0, fstat(file.fileDescriptor, &locked) == 0,
            stat(path, &named) == 0, named.st_ino == locked.st_ino
        else { return nil }
        return file
    }

    /// Removes all files beside a database that the user may not keep.
    static func removeAll(beside database: String) {
        SQLiteFiles.remove(database + suffix)
        for end in [".part", SnapshotDownload.receivedSuffix] { SQLiteFiles.removeItem(database + suffix + end) }
    }

    /// Removes the decompressed file, and received bytes that nobody resumes; gives the lock back.
    func close() {
        SQLiteFiles.remove(path)
        SQLiteFiles.removeItem(path + ".part")
        var received = stat()
        guard let lock, fstat(lock.fileDescriptor, &received) == 0 else { return removeReceived() }
        if received.st_size == 0 { removeReceived() }
        flock(lock.fileDescriptor, LOCK_UN)
    }

    func removeReceived() { SQLiteFiles.removeItem(path + SnapshotDownload.receivedSuffix) }
}

enum SQLiteFiles {
    /// Removes a database with its WAL, shared-memory and journal files.
    static func remove(_ path: String) { for suffix in ["", "-wal", "-shm", "-journal"] { removeItem(path + suffix) } }

    static func removeItem(_ path: String) {
        // It may be missing. Otherwise the next download replaces it, and the next start of the account removes it.
        try? FileManager.default.removeItem(atPath: path)
    }
}
