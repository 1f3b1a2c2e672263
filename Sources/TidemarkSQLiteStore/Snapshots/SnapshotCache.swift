import Foundation
import TidemarkCore
import TidemarkServer

/// Keeps the latest snapshot file, and builds a new one when the zone has moved on.
///
/// State: `current` is the newest file, `readers` counts who is sending which file, `building` is
/// the build in progress, which later callers join. A file goes away when it is neither current nor
/// being sent.
actor SnapshotCache {
    private let zonePath: String
    private let place: SnapshotPlace
    private var current: SnapshotFile?
    /// The hash of the schema that the current file has.
    private var currentSchema: String?
    private var readers: [SnapshotFile: Int] = [:]
    private var building: (state: ZoneState, task: Task<SnapshotFile?, any Error>)?

    init(zonePath: String) {
        self.zonePath = zonePath
        place = SnapshotPlace(besides: zonePath)
        place.removeLeftovers()
    }

    /// Removes the files when the store closes.
    func clear() {
        if let current { removeIfThere(current.path) }
        current = nil
    }

    /// The snapshot at a state of the zone, or nil when the file has changes that no revision has.
    func snapshot(at state: ZoneState, of schema: SyncSchema) async throws -> SnapshotFile? {
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
            let builder = SnapshotBuilder(zonePath: zonePath, schema: schema)
            let path = place.path(revision: state.revision, schema: state.schema)
            task = Task { try await Self.build(builder, path) }
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

    func release(_ file: SnapshotFile) {
        readers[file, default: 1] -= 1
        guard readers[file] == 0 else { return }
        readers[file] = nil
        if file != current { removeIfThere(file.path) }
    }

    /// Builds on a thread of its own: the work is all disk and SQLite.
    private static func build(_ builder: SnapshotBuilder, _ path: String) async throws
        -> SnapshotFile?
    {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(with: Result { try builder.build(at: path) })
            }
        }
    }
}
