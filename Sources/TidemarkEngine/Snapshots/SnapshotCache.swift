package import TidemarkCore
import Foundation

/// Keeps the latest snapshot file, and builds a new one when the zone has new revisions.
///
/// This is the asynchronous shell around ``SnapshotShelf``, which selects the files to keep and to
/// serve. Later callers wait for the build in progress, `building`. The counter `builds` gives each
/// build its own path, so no build overwrites a file that a client reads.
package actor SnapshotCache {
    /// Builds a snapshot at a path; nil when the zone has rows without a revision.
    package typealias Build = @Sendable (_ path: String) async throws -> SnapshotFile?

    private struct Building {
        let state: ZoneState
        let task: Task<SnapshotFile?, any Error>
    }

    private let place: SnapshotPlace
    private let now: @Sendable () -> Int64
    private var shelf: SnapshotShelf
    private var builds = 0
    private var building: Building?

    /// Keeps files beside `path`, where no file need be, and removes leftovers; zones of one folder share `claim`.
    package init(
        besides path: String, claim: SnapshotClaim? = nil,
        retentionMilliseconds: Int64 = SnapshotShelf.retentionMillisecondsDefault,
        now: @escaping @Sendable () -> Int64 = SystemClock.milliseconds
    ) {
        place = SnapshotPlace(besides: path, claim: claim)
        shelf = SnapshotShelf(retentionMilliseconds: retentionMilliseconds)
        self.now = now
        place.removeLeftovers()
    }

    /// Removes the files when the store closes, after the build in progress.
    package func clear() async {
        _ = await building?.task.result
        remove(shelf.clear())
        place.leave()
    }

    /// Returns a snapshot at a state of the zone, or one at most `behind` older; nil for rows without a revision.
    ///
    /// When a file is more than half of that behind, the next build starts in the background. If that build fails, the
    /// next caller tries again. One build runs at a time: callers that arrive meanwhile wait for it, and share the next
    /// one if its file is too old for them.
    package func snapshot(at state: ZoneState, behind: Int64 = 0, build: @escaping Build) async throws -> SnapshotFile?
    {
        while true {
            remove(shelf.expire(at: now()))
            if let current = onDisk(shelf.current(at: state, behind: behind)) {
                if state.revision - current.revision > behind / 2, building == nil { _ = begin(state, build) }
                shelf.lend(current)
                return current
            }
            let next = building ?? begin(state, build)
            guard next.state == state else {
                // The callers that requested this build receive its error.
                _ = await next.task.result
                continue
            }
            guard let file = try await next.task.value else { return nil }
            shelf.lend(file)
            return file
        }
    }

    private func begin(_ state: ZoneState, _ build: @escaping Build) -> Building {
        builds += 1
        let path = place.path(of: state, build: builds)
        let task = Task {
            defer { building = nil }
            let file = try await build(path)
            if let file { remove(shelf.put(file, schema: state.schema, at: now())) }
            return file
        }
        let next = Building(state: state, task: task)
        building = next
        return next
    }

    /// Returns a file of the shelf if it still exists on disk; otherwise the shelf forgets it.
    private func onDisk(_ file: SnapshotFile?) -> SnapshotFile? {
        guard let file else { return nil }
        guard FileManager.default.fileExists(atPath: file.path) else {
            shelf.forget(file)
            return nil
        }
        return file
    }

    package func snapshot(tag: String) -> SnapshotFile? {
        remove(shelf.expire(at: now()))
        guard let file = onDisk(shelf.file(tag: tag)) else { return nil }
        shelf.lend(file)
        return file
    }

    /// Returns a delta since `base` if one is worthwhile, for one device until its release; or else a snapshot.
    ///
    /// A device without rows may get a snapshot that is at most `behind` older than the state.
    package func file(
        since base: DeltaBase?, at state: ZoneState, behind: Int64,
        build: @escaping @Sendable (_ path: String, _ base: DeltaBase?) async throws -> SnapshotFile?
    ) async throws -> SnapshotFile? {
        if let base, base.epoch == state.epoch, base.schema == state.schema, base.revision < state.revision {
            builds += 1
            let path = place.path(of: state, build: builds, since: base.revision)
            if let file = try await build(path, base) {
                shelf.lend(file)
                return file
            }
        }
        return try await snapshot(at: state, behind: base == .nothing ? behind : 0) { try await build($0, nil) }
    }

    /// Releases a file after a reader is done; unknown files are ignored.
    package func release(_ file: SnapshotFile) {
        remove(shelf.takeBack(file, at: now()))
        remove(shelf.expire(at: now()))
    }

    private func remove(_ paths: [String]) { for path in paths { removeIfThere(path) } }
}
