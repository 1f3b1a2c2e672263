/// The snapshot files of a zone to keep on disk: a value.
///
/// The newest file stays, and every file that a client reads. Of the others, only the last one in
/// use stays, for a while. So a client whose connection broke can resume its download. Every
/// function that drops files returns their paths.
package struct SnapshotShelf {
    /// How long an older file stays after its last use, by default: 10 minutes.
    package static let retentionMillisecondsDefault: Int64 = 600_000

    package private(set) var current: SnapshotFile?
    /// The schema hash of the newest file.
    private var schema: String?
    private let retentionMilliseconds: Int64
    private var readers: [SnapshotFile: Int] = [:]
    private var older: (file: SnapshotFile, until: Int64)?

    /// An older file stays for `retentionMilliseconds` after its last use.
    package init(retentionMilliseconds: Int64 = SnapshotShelf.retentionMillisecondsDefault) {
        self.retentionMilliseconds = retentionMilliseconds
    }

    /// Returns the newest file if it is at most `behind` revisions older than the zone, and the log reaches back to it.
    package func current(at state: ZoneState, behind: Int64) -> SnapshotFile? {
        guard let current, current.epoch == state.epoch, schema == state.schema,
            current.revision >= max(state.revision - behind, state.horizon)
        else { return nil }
        return current
    }

    package func file(tag: String) -> SnapshotFile? { files.first { $0.tag == tag } }

    /// Adds a new file as the newest, unless the shelf has a newer one.
    package mutating func put(_ file: SnapshotFile, schema: String, at now: Int64) -> [String] {
        if let current, current.epoch == file.epoch, current.revision > file.revision { return [] }
        let replaced = current
        current = file
        self.schema = schema
        guard let replaced, readers[replaced] == nil else { return [] }
        return keep(replaced, at: now)
    }

    /// Records a reader of a file.
    package mutating func lend(_ file: SnapshotFile) {
        readers[file, default: 0] += 1
        if older?.file == file { older = nil }
    }

    /// Records the end of a reader; a file without readers is ignored.
    package mutating func takeBack(_ file: SnapshotFile, at now: Int64) -> [String] {
        guard let count = readers[file] else { return [] }
        readers[file] = count > 1 ? count - 1 : nil
        guard count == 1, file != current else { return [] }
        // A delta serves one device, and is quick to build again.
        guard file.since == nil else { return [file.path] }
        return keep(file, at: now)
    }

    /// Drops the older file after its retention.
    package mutating func expire(at now: Int64) -> [String] {
        guard let older, older.until <= now else { return [] }
        self.older = nil
        return [older.file.path]
    }

    /// Forgets a file that no longer exists on disk.
    package mutating func forget(_ file: SnapshotFile) {
        if current == file {
            current = nil
            schema = nil
        }
        if older?.file == file { older = nil }
        readers[file] = nil
    }

    package mutating func clear() -> [String] {
        let paths = Set(files.map(\.path)).sorted()
        self = SnapshotShelf(retentionMilliseconds: retentionMilliseconds)
        return paths
    }

    private var files: [SnapshotFile] { [current, older?.file].compactMap(\.self) + readers.keys }

    private mutating func keep(_ file: SnapshotFile, at now: Int64) -> [String] {
        let dropped = older.map { [$0.file.path] } ?? []
        older = (file, until: now + retentionMilliseconds)
        return dropped
    }
}
