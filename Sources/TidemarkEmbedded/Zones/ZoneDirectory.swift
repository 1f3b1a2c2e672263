public import Foundation
import Synchronization
public import TidemarkCore
public import TidemarkEngine

/// The main zone, and zones that are made while the server runs, each in a SQLite file of its own.
///
/// All zones have the tables of the main zone. A zone's file is opened at its first use; at most
/// ``openMax`` are open beside the main zone's. Safe to use from any task.
public final class ZoneDirectory: SyncService, ZoneHost {
    /// The most files of zones that are open at a time beside the main zone's.
    public static let openMax = 200

    /// The zone that the operator serves.
    public let main: EmbeddedStore
    /// The fan-out of all zones.
    public var fanOut: FanOut { main.fanOut }
    /// The contacts of all zones' devices that are not yet written.
    public var contacts: ContactBook { main.contacts }

    private let files: ZoneFiles
    private let closedZones: ClosedZones
    private let zones: OpenZones
    private let unserved: UnservedZones
    /// The zones of the snapshots in use, by path.
    private let snapshots = Mutex<[String: [String]]>([:])

    /// Makes a directory; it opens no file yet.
    ///
    /// - Parameters:
    ///   - main: The open main zone.
    ///   - folder: The folder of the other zones' files; made with the first zone.
    ///   - openMax: The most files that are open at a time beside the main zone's.
    ///   - limits: The bounds on requests and answers.
    ///   - now: The wall clock, in milliseconds since 1970; nil for the system's.
    ///   - metrics: Records every commit.
    ///   - warn: Receives warnings about a zone's file, as text for the operator.
    public init(
        main: EmbeddedStore, folder: URL, openMax: Int = ZoneDirectory.openMax, limits: Limits = .standard,
        now: (@Sendable () -> Int64)? = nil, metrics: ServerMetrics = ServerMetrics(),
        warn: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        let files = ZoneFiles(main: main, folder: folder, limits: limits, now: now, metrics: metrics, warn: warn)
        let closedZones = ClosedZones(files)
        self.main = main
        self.files = files
        self.closedZones = closedZones
        let unserved = UnservedZones(warn: warn)
        self.unserved = unserved
        zones = OpenZones(atMost: openMax) { zone in
            let store = try await unserved.opening(zone) { try await files.open(zone) }
            closedZones.forget(zone)
            return store
        } closing: { store in
            do {
                let revision = try await store.file.lastRevision(of: store.zone)
                try await store.keepContacts()
                try await store.close()
                closedZones.remember(revision)
            } catch { warn("zone \(store.zone) was not closed in order: \(error)") }
        }
    }

    /// Closes the files of all zones but the main one's; no request may be in flight.
    public func closeZones() async { await zones.closeAll() }

    /// Begins new histories of the other zones after a restore, and returns those whose file fails, with the reason.
    public func beginNewHistories() async throws -> [String] { try await files.beginNewHistories() }

    package func makeZone(_ name: String) async throws {
        guard name != main.zone else { return }
        guard ZoneFiles.isName(name) else { throw ZoneName.unusable(name) }
        try await files.make(name)
    }

    /// Removes a zone's file after its requests.
    package func removeZone(_ name: String) async throws {
        guard ZoneFiles.isName(name) else { return }
        await zones.close(name)
        closedZones.forget(name)
        unserved.forget(name)
        files.remove(name)
    }

    /// The number of zones' files that are open, beside the main zone's.
    package var openCount: Int { get async { await zones.count } }

    /// Answers a request for a zone.
    public func answer(_ request: ZoneRequest) async throws -> ZoneAnswer {
        try await using(request.access.zone) { try await $0.answer(request) }
    }

    /// Returns the zone's schema as JSON.
    public func schema(_ access: ZoneAccess) async throws -> SchemaDocument {
        try await using(access.zone) { try await $0.schema(access) }
    }

    /// Computes the content hash of every table.
    public func digest(_ access: ZoneAccess) async throws -> ZoneDigest {
        try await using(access.zone) { try await $0.digest(access) }
    }

    /// Answers a question about a zone in one read transaction.
    public func read<Answer: Sendable>(_ access: ZoneAccess, _ question: ZoneQuestion<Answer>) async throws -> Answer {
        try await using(access.zone) { try await $0.read(access, question) }
    }

    /// Writes the contacts into the zones' files, one after another; a zone that was removed has none.
    public func keepContacts() async throws {
        for zone in contacts.zones {
            guard zone == main.zone || files.isThere(zone) else {
                _ = contacts.take(zone: zone)
                continue
            }
            try await using(zone) { try await $0.keepContacts() }
        }
    }

    /// Forgets a device in the files of zones, one after another.
    public func forget(device: String, of user: String?, in zones: [String]) async throws {
        for zone in zones where zone == main.zone || files.isThere(zone) {
            try await using(zone) { try await $0.forget(device: device, of: user, in: [zone]) }
        }
    }

    /// Checks that the main zone can answer requests.
    public func probe() async throws { try await main.probe() }

    /// The zones whose files could not be opened at their last use, each with the reason.
    public var unservedZones: [String] { unserved.lines }

    /// Returns a snapshot of the zone, which stays open until the snapshot is released.
    public func snapshot(_ access: ZoneAccess, _ wanted: WantedSnapshot) async throws -> SnapshotFile? {
        let store = try await enter(access.zone)
        do {
            if let file = try await store.snapshot(access, wanted) { return lend(file, of: access.zone) }
            await leave(access.zone)
            return nil
        } catch {
            await leave(access.zone)
            throw error
        }
    }

    /// Releases a snapshot after its last use.
    public func releaseSnapshot(_ snapshot: SnapshotFile) async {
        guard let zone = snapshots.withLock({ $0[snapshot.path]?.popLast() }) else { return }
        snapshots.withLock { if $0[snapshot.path]?.isEmpty == true { $0[snapshot.path] = nil } }
        if zone == main.zone {
            await main.releaseSnapshot(snapshot)
        } else if let store = await zones.enterIfOpen(zone) {
            await store.releaseSnapshot(snapshot)
            await zones.leave(zone)
        }
        await leave(zone)
    }

    private func lend(_ file: SnapshotFile, of zone: String) -> SnapshotFile {
        snapshots.withLock { $0[file.path, default: []].append(zone) }
        return file
    }

    /// Returns the zones' latest revisions; opens only zones that were never open, and reads unknown ones from files.
    public func latest(of accesses: [ZoneAccess]) async throws -> [ZoneRevision] {
        var revisions: [ZoneRevision] = []
        var unknown: [ZoneAccess] = []
        for access in accesses {
            if let revision = isClosable(access.zone) ? closedZones.revision(of: access.zone) : nil {
                revisions.append(revision)
            } else if isClosable(access.zone), await !zones.isOpen(access.zone) {
                unknown.append(access)
            } else {
                revisions += try await using(access.zone) { try await $0.latest(of: [access]) }
            }
        }
        let read = try await closedZones.read(unknown.map(\.zone))
        for access in unknown {
            if let revision = read[access.zone] {
                revisions.append(revision)
            } else {
                revisions += try await using(access.zone) { try await $0.latest(of: [access]) }
            }
        }
        return revisions
    }

    /// Logs the changes of other programs in a zone's file; a closed file that none has changed stays closed.
    public func look(zone: String) async throws {
        if isClosable(zone) {
            if closedZones.isSettled(zone) { return }
            if await !zones.isOpen(zone) {
                _ = try await closedZones.read([zone])
                if closedZones.isSettled(zone) { return }
            }
        }
        try await using(zone) { try await $0.look(zone: zone) }
    }

    /// Whether a zone has a file that the directory opens and closes.
    private func isClosable(_ zone: String) -> Bool { zone != main.zone && ZoneFiles.isName(zone) }

    private func using<Success>(_ zone: String, _ body: (EmbeddedStore) async throws -> Success) async throws -> Success
    {
        let store = try await enter(zone)
        do {
            let result = try await body(store)
            await leave(zone)
            return result
        } catch {
            await leave(zone)
            throw error
        }
    }

    private func enter(_ zone: String) async throws -> EmbeddedStore {
        guard zone != main.zone else { return main }
        guard ZoneFiles.isName(zone) else { throw TidemarkError.unknownZone }
        return try await zones.enter(zone, shape: main.file.schemaHash)
    }

    private func leave(_ zone: String) async { if zone != main.zone { await zones.leave(zone) } }
}
