import Foundation
import TidemarkCore
import TidemarkEngine

/// The open files of zones: opened at the first use, and closed when too many are open.
///
/// A zone in use stays open; of the others, the one that was used least recently is closed first. When
/// all are in use, the next zone waits. A zone is opened and closed once at a time.
actor OpenZones {
    /// Opens a zone's file on a thread that may block.
    typealias Open = @Sendable (_ zone: String) async throws -> EmbeddedStore

    private enum Place {
        case opening(Task<EmbeddedStore, any Error>)
        case open(Use)
        case closing(Task<Void, Never>)
    }

    private struct Use {
        let store: EmbeddedStore
        /// The shape of the main zone's tables at the opening.
        let shape: String
        var count = 0
        var last: UInt64 = 0
    }

    private let countMax: Int
    private let open: Open
    private let closed: @Sendable (EmbeddedStore) async -> Void
    private var places: [String: Place] = [:]
    private var uses: UInt64 = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []

    /// `open` opens a zone; `closed` is called with a store before it is closed.
    init(atMost countMax: Int, open: @escaping Open, closing closed: @escaping @Sendable (EmbeddedStore) async -> Void)
    {
        self.countMax = countMax
        self.open = open
        self.closed = closed
    }

    /// The number of zones that are open, or are being opened or closed.
    var count: Int { places.count }

    /// Opens a zone if it is not open, and keeps it open until ``leave(_:)``.
    ///
    /// A zone that was opened with another shape of the main zone's tables is opened again when it is not in use.
    func enter(_ zone: String, shape: String) async throws -> EmbeddedStore {
        while true {
            switch places[zone] {
            case .open(let use) where use.shape != shape && use.count == 0:
                await beginClosing(zone, use.store).value
            case .open(var use):
                use.count += 1
                uses += 1
                use.last = uses
                places[zone] = .open(use)
                return use.store
            case .opening(let task): _ = try await task.value
            case .closing(let task): await task.value
            case nil:
                guard await makeRoom() else { continue }
                guard places[zone] == nil else { continue }
                begin(zone, shape: shape)
            }
        }
    }

    /// Whether a zone is open, or is being opened or closed.
    func isOpen(_ zone: String) -> Bool { places[zone] != nil }

    func enterIfOpen(_ zone: String) -> EmbeddedStore? {
        guard case .open(var use) = places[zone] else { return nil }
        use.count += 1
        places[zone] = .open(use)
        return use.store
    }

    func leave(_ zone: String) {
        guard case .open(var use) = places[zone] else { return }
        use.count -= 1
        places[zone] = .open(use)
        if use.count == 0 { wakeAll() }
    }

    /// Closes a zone after its last use, for instance to remove its file.
    func close(_ zone: String) async {
        while let place = places[zone] {
            switch place {
            case .open(let use) where use.count == 0: await beginClosing(zone, use.store).value
            case .open: await wait()
            case .opening(let task): _ = await task.result
            case .closing(let task): await task.value
            }
        }
    }

    /// Closes all zones; none may be in use.
    func closeAll() async { for zone in places.keys.sorted() { await close(zone) } }

    /// Returns whether there is room for one more zone now; if not, waits until that may be so.
    private func makeRoom() async -> Bool {
        guard places.count >= countMax else { return true }
        let idle = places.compactMap { zone, place -> (zone: String, use: Use)? in
            guard case .open(let use) = place, use.count == 0 else { return nil }
            return (zone, use)
        }
        if let oldest = idle.min(by: { $0.use.last < $1.use.last }) {
            await beginClosing(oldest.zone, oldest.use.store).value
        } else {
            await wait()
        }
        return false
    }

    private func begin(_ zone: String, shape: String) {
        let open = open
        places[zone] = .opening(
            Task {
                do {
                    let store = try await open(zone)
                    places[zone] = .open(Use(store: store, shape: shape))
                    return store
                } catch {
                    places[zone] = nil
                    wakeAll()
                    throw error
                }
            }
        )
    }

    private func beginClosing(_ zone: String, _ store: EmbeddedStore) -> Task<Void, Never> {
        let closed = closed
        let task = Task {
            await closed(store)
            places[zone] = nil
            wakeAll()
        }
        places[zone] = .closing(task)
        return task
    }

    private func wait() async { await withCheckedContinuation { waiting.append($0) } }

    private func wakeAll() {
        let all = waiting
        waiting = []
        for continuation in all { continuation.resume() }
    }
}
