import Foundation
package import TidemarkServer

/// Keeps the latest snapshot file, and builds a new one when the zone has moved on.
///
/// State: `current` is the newest file, `readers` counts who is sending which file, `building` is
/// the build in progress, which later callers join. A file goes away when it is neither current nor
/// being sent.
package actor SnapshotCache {
    /// Builds a snapshot at a path; nil when rows are there that no revision has yet.
    package typealias Build = @Sendable (_ path: String) async throws -> SnapshotFile?

    private let place: SnapshotPlace
    private var current: SnapshotFile?
    /// The hash of the schema that the current file has.
    private var currentSchema: String?
    private var readers: [SnapshotFile: Int] = [:]
    private var building: (state: ZoneState, task: Task<SnapshotFile?, any Error>)?

    /// Keeps files beside a path, and removes those that killed servers left there.
    package init(besides path: String) {
        place = SnapshotPlace(besides: path)
        place.removeLeftovers()
    }

    /// Removes the files when the store closes.
    package func clear() {
        if let current { removeIfThere(current.path) }
        current = nil
    }

    /// The snapshot at a state of the zone, built when there is none yet, or nil when the zone has
    /// changes that no revision has.
    package func snapshot(at state: ZoneState, build: @escaping Build) async throws -> SnapshotFile?
    {
        if let current, current.epoch == state.epoch, current.revision >= state.revision,
            currentSchema == state.schema
        {
            readers[current, default: 0] += 1
            return current
        }
        let task: Task<SnapshotFile?, any Error>
        if let building, building.state == state {
            task = building.task
        } else {
            let path = place.path(of: state)
            task = Task { try await build(path) }
            building = (state, task)
        }
        let file = try await task.value
        // Others may have finished meanwhile; only a newer file replaces the current one.
        if building?.state == state { building = nil }
        guard let file else { return nil }
        if file != current {
            let old = current
            (current, currentSchema) = (file, state.schema)
            if let old, readers[old] == nil, old.path != file.path { removeIfThere(old.path) }
        }
        readers[file, default: 0] += 1
        return file
    }

    /// Tells that somebody has read a file; files of others do not matter here.
    package func release(_ file: SnapshotFile) {
        guard let count = readers[file] else { return }
        readers[file] = count > 1 ? count - 1 : nil
        guard count == 1 else { return }
        if file != current { removeIfThere(file.path) }
    }
}
