import Foundation
package import TidemarkServer

/// Keeps the latest snapshot file, and builds a new one when the zone has moved on.
///
/// The shell around ``SnapshotShelf``, which says which files stay and which will do. State:
/// `building` is the build in progress, for which later callers wait; `builds` counts, so that no
/// build writes over a file that somebody reads.
package actor SnapshotCache {
    /// Builds a snapshot at a path; nil when rows are there that no revision has yet.
    package typealias Build = @Sendable (_ path: String) async throws -> SnapshotFile?

    /// A build in progress.
    private struct Building {
        let state: ZoneState
        let task: Task<SnapshotFile?, any Error>
    }

    private let place: SnapshotPlace
    private let now: @Sendable () -> Int64
    private var shelf: SnapshotShelf
    private var builds = 0
    private var building: Building?

    /// Keeps files beside a path, and removes those that killed servers left there.
    ///
    /// - Parameters:
    ///   - path: The zone's file, or where one could be.
    ///   - claim: The claim on the folder, where several zones share one.
    ///   - keptMilliseconds: How long an older file stays after its last use.
    ///   - now: The wall clock, in milliseconds since 1970.
    package init(
        besides path: String,
        claim: SnapshotClaim? = nil,
        keptMilliseconds: Int64 = SnapshotShelf.keptMillisecondsDefault,
        now: @escaping @Sendable () -> Int64 = SystemClock.milliseconds
    ) {
        place = SnapshotPlace(besides: path, claim: claim)
        shelf = SnapshotShelf(keptMilliseconds: keptMilliseconds)
        self.now = now
        place.removeLeftovers()
    }

    /// Removes the files when the store closes, after a build that nobody waits for.
    package func clear() async {
        _ = await building?.task.result
        remove(shelf.clear())
        place.leave()
    }

    /// The snapshot at a state of the zone, built when there is none yet, or nil when the zone has
    /// changes that no revision has.
    ///
    /// A file that is at most `behind` revisions older is as good; when half of these are used up,
    /// the next one is built, for whom nobody waits. Should that fail, whoever needs it tries
    /// again.
    ///
    /// One file is built at a time: who comes meanwhile waits for it, and if it is too old has the
    /// next one built, together with all others who wait.
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
                // Whatever became of it is for those to hear who asked for it.
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

    /// A file of the shelf's, unless somebody has removed it from the disk: then the shelf forgets
    /// it as well.
    private func onDisk(_ file: SnapshotFile?) -> SnapshotFile? {
        guard let file else { return nil }
        guard FileManager.default.fileExists(atPath: file.path) else {
            shelf.forget(file)
            return nil
        }
        return file
    }

    /// The file of a tag, if it is still there.
    package func snapshot(tag: String) -> SnapshotFile? {
        remove(shelf.expire(at: now()))
        guard let file = onDisk(shelf.file(tag: tag)) else { return nil }
        shelf.lend(file)
        return file
    }

    /// A delta for one device, built at a path of its own and removed when it is released; nil when
    /// a whole snapshot is better.
    package func delta(since revision: Int64, at state: ZoneState, build: @escaping Build) async throws -> SnapshotFile?
    {
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
