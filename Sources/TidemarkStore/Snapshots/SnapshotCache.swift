import Foundation
package import TidemarkServer

/// Keeps the latest snapshot file, and builds a new one when the zone has moved on.
///
/// The shell around ``SnapshotShelf``, which says which files stay. State: `building` is the build
/// in progress, which later callers join; `builds` counts, so that no build writes over a file that
/// somebody reads.
package actor SnapshotCache {
    /// Builds a snapshot at a path; nil when rows are there that no revision has yet.
    package typealias Build = @Sendable (_ path: String) async throws -> SnapshotFile?

    private let place: SnapshotPlace
    private let now: @Sendable () -> Int64
    private var shelf: SnapshotShelf
    private var builds = 0
    private var building: (state: ZoneState, task: Task<SnapshotFile?, any Error>)?

    /// Keeps files beside a path, and removes those that killed servers left there.
    ///
    /// - Parameters:
    ///   - path: The zone's file, or where one could be.
    ///   - keptMilliseconds: How long an older file stays after its last use.
    ///   - now: The wall clock, in milliseconds since 1970.
    package init(
        besides path: String,
        keptMilliseconds: Int64 = SnapshotShelf.keptMillisecondsDefault,
        now: @escaping @Sendable () -> Int64 = SystemClock.milliseconds
    ) {
        place = SnapshotPlace(besides: path)
        shelf = SnapshotShelf(keptMilliseconds: keptMilliseconds)
        self.now = now
        place.removeLeftovers()
    }

    /// Removes the files when the store closes.
    package func clear() { remove(shelf.clear()) }

    /// The snapshot at a state of the zone, built when there is none yet, or nil when the zone has
    /// changes that no revision has.
    package func snapshot(at state: ZoneState, build: @escaping Build) async throws -> SnapshotFile?
    {
        remove(shelf.expire(at: now()))
        if let current = shelf.current, current.epoch == state.epoch,
            current.revision >= state.revision, shelf.schema == state.schema
        {
            shelf.lend(current)
            return current
        }
        let task: Task<SnapshotFile?, any Error>
        if let building, building.state == state {
            task = building.task
        } else {
            builds += 1
            let path = place.path(of: state, build: builds)
            task = Task {
                let file = try await build(path)
                if let file { remove(shelf.put(file, schema: state.schema, at: now())) }
                return file
            }
            building = (state, task)
        }
        let result = await task.result
        if building?.task == task { building = nil }
        guard let file = try result.get() else { return nil }
        shelf.lend(file)
        return file
    }

    /// The file of a tag, if it is still there.
    package func snapshot(tag: String) -> SnapshotFile? {
        remove(shelf.expire(at: now()))
        guard let file = shelf.file(tag: tag) else { return nil }
        shelf.lend(file)
        return file
    }

    /// A delta for one device, built at a path of its own and removed when it is released; nil when
    /// a whole snapshot is better.
    package func delta(
        since revision: Int64,
        at state: ZoneState,
        build: @escaping Build
    ) async throws -> SnapshotFile? {
        builds += 1
        let path = place.path(of: state, build: builds, since: revision)
        guard let file = try await build(path) else { return nil }
        shelf.lend(file)
        return file
    }

    /// Tells that somebody has read a file; files of others do not matter here.
    package func release(_ file: SnapshotFile) {
        remove(shelf.takeBack(file, at: now()))
        remove(shelf.expire(at: now()))
    }

    private func remove(_ paths: [String]) { for path in paths { removeIfThere(path) } }
}
