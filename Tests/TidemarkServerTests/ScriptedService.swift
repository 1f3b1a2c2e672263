import Foundation
import NIOConcurrencyHelpers
import TidemarkCore
import TidemarkEngine

/// A service with scripted answers: these tests are about HTTP, not about the engine.
final class ScriptedService: SyncService {
    typealias Sync = @Sendable (_ zone: String, _ body: [UInt8]) async throws -> [UInt8]

    private let answer: Sync
    private let files: NIOLockedValueBox<[SnapshotFile]>
    private let callLog = NIOLockedValueBox<[Call]>([])
    private let failure = NIOLockedValueBox<(any Error)?>(nil)
    private let releaseEvents = AsyncStream.makeStream(of: SnapshotFile.self)

    private struct Stall {
        var isStalled = false
        var probes = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let stalled = NIOLockedValueBox(Stall())

    /// One request that reached the service.
    struct Call: Hashable {
        let zone: String
        let body: [UInt8]
    }

    /// Creates a service; several snapshots are served one for each request, the last
    /// one from then on.
    init(snapshots: [SnapshotFile], sync: @escaping Sync = { _, body in body }) {
        files = NIOLockedValueBox(snapshots)
        answer = sync
    }

    convenience init(snapshot: SnapshotFile? = nil, sync: @escaping Sync = { _, body in body }) {
        self.init(snapshots: snapshot.map { [$0] } ?? [], sync: sync)
    }

    /// The requests so far.
    var calls: [Call] { callLog.withLockedValue { $0 } }
    /// The released snapshots.
    var releases: AsyncStream<SnapshotFile> { releaseEvents.stream }

    func read<Answer: Sendable>(_ access: ZoneAccess, _ question: ZoneQuestion<Answer>) async throws -> Answer {
        throw TidemarkError(.unavailable, "The script has no rows.", fix: "Test rows on a store.")
    }

    func forget(device: String, of user: String?, in zones: [String]) async throws {}

    let contacts = ContactBook(now: { 0 })

    func keepContacts() async throws {}

    func answer(_ request: ZoneRequest) async throws -> ZoneAnswer {
        if case .news = request.kind { return ZoneAnswer(.news(nil)) }
        callLog.withLockedValue { $0.append(Call(zone: request.access.zone, body: request.text)) }
        return ZoneAnswer(.text(try await answer(request.access.zone, request.text)))
    }

    let fanOut = FanOut()

    func latest(of accesses: [ZoneAccess]) async throws -> [ZoneRevision] {
        accesses.map { ZoneRevision(zone: $0.zone, epoch: "e", revision: 0) }
    }

    func look(zone: String) async throws {}

    func snapshot(_ access: ZoneAccess, _ wanted: WantedSnapshot) async throws -> SnapshotFile? {
        if case .tagged = wanted { return nil }
        let file = files.withLockedValue { $0.count > 1 ? $0.removeFirst() : $0.first }
        guard let file else { throw TidemarkError(.unknownZone, "No zone \(access.zone).", fix: "Name another.") }
        return file
    }

    func releaseSnapshot(_ snapshot: SnapshotFile) async { releaseEvents.continuation.yield(snapshot) }

    func schema(_ access: ZoneAccess) async throws -> SchemaDocument {
        SchemaDocument(
            zone: access.zone, ZoneState(epoch: "e", revision: 0, horizon: 0, schema: ""), SyncSchema(tables: []),
            tables: "[]")
    }

    func probe() async throws {
        let isStalled = stalled.withLockedValue { state in
            state.probes += 1
            return state.isStalled
        }
        if isStalled {
            await withCheckedContinuation { continuation in
                let goesOn = stalled.withLockedValue { state in
                    if state.isStalled { state.waiting.append(continuation) }
                    return !state.isStalled
                }
                if goesOn { continuation.resume() }
            }
        }
        if let failure = failure.withLockedValue({ $0 }) { throw failure }
    }

    /// The number of readiness probes.
    var probes: Int { stalled.withLockedValue(\.probes) }

    /// Makes the store unresponsive from now on.
    func stall() { stalled.withLockedValue { $0.isStalled = true } }

    /// Makes the store responsive again, also for waiting requests.
    func goOn() {
        let waiting = stalled.withLockedValue { state in
            defer { state.waiting = [] }
            state.isStalled = false
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Makes the store fail from now on, or work again.
    func fail(_ error: (any Error)?) { failure.withLockedValue { $0 = error } }

    func digest(_ access: ZoneAccess) async throws -> ZoneDigest { Self.digest(of: access.zone) }

    /// The digest of every zone here.
    static func digest(of zone: String) -> ZoneDigest {
        let tables = (0..<50).map { ZoneDigest.Table(table: "table\($0)", rows: $0, hash: "abcdef") }
        return ZoneDigest(zone: zone, revision: 7, tables: tables, hash: "fedcba")
    }
}

/// Bytes that hardly compress, the same ones in every run.
func noise(count: Int, seed: UInt64 = 0x5EED) -> [UInt8] {
    var state = seed
    return (0..<count).map { _ in
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return UInt8(truncatingIfNeeded: state >> 33)
    }
}
