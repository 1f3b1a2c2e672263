package import TidemarkServer

/// Which snapshot files of a zone stay on disk: a value.
///
/// The newest stays, and whatever is being sent. Of the others only the one that was in use last
/// stays, for a while: a client whose connection was cut comes back for the rest of it, although
/// the zone has moved on. Every function that drops files returns their paths.
package struct SnapshotShelf {
    /// How long an older file stays after its last use, when nobody says otherwise: 10 minutes.
    package static let keptMillisecondsDefault: Int64 = 600_000

    /// The newest file.
    package private(set) var current: SnapshotFile?
    /// The hash of the schema that the newest file has.
    private var schema: String?
    private let keptMilliseconds: Int64
    private var readers: [SnapshotFile: Int] = [:]
    private var older: (file: SnapshotFile, until: Int64)?

    /// Makes an empty shelf, on which an older file stays for so long after its last use.
    package init(keptMilliseconds: Int64 = SnapshotShelf.keptMillisecondsDefault) {
        self.keptMilliseconds = keptMilliseconds
    }

    /// The newest file, if a zone in a state may be begun from it: it is of no older revision, or
    /// of one that is at most `behind` older, and all that came since is in the log.
    package func current(at state: ZoneState, behind: Int64) -> SnapshotFile? {
        guard let current, current.epoch == state.epoch, schema == state.schema,
            current.revision >= max(state.revision - behind, state.horizon)
        else { return nil }
        return current
    }

    /// The file of a tag, if it is there.
    package func file(tag: String) -> SnapshotFile? { files.first { $0.tag == tag } }

    /// Takes a file that was built, as the newest unless a newer one came first.
    package mutating func put(_ file: SnapshotFile, schema: String, at now: Int64) -> [String] {
        if let current, current.epoch == file.epoch, current.revision > file.revision { return [] }
        let replaced = current
        current = file
        self.schema = schema
        guard let replaced, readers[replaced] == nil else { return [] }
        return keep(replaced, at: now)
    }

    /// Notes that somebody reads a file.
    package mutating func lend(_ file: SnapshotFile) {
        readers[file, default: 0] += 1
        if older?.file == file { older = nil }
    }

    /// Notes that somebody has read a file; files that were not lent do not matter.
    package mutating func takeBack(_ file: SnapshotFile, at now: Int64) -> [String] {
        guard let count = readers[file] else { return [] }
        readers[file] = count > 1 ? count - 1 : nil
        guard count == 1, file != current else { return [] }
        // A delta is for one device, and built again in no time.
        guard file.since == nil else { return [file.path] }
        return keep(file, at: now)
    }

    /// Drops the older file when its time is over.
    package mutating func expire(at now: Int64) -> [String] {
        guard let older, older.until <= now else { return [] }
        self.older = nil
        return [older.file.path]
    }

    /// Forgets a file that is not there any more.
    package mutating func forget(_ file: SnapshotFile) {
        if current == file { (current, schema) = (nil, nil) }
        if older?.file == file { older = nil }
        readers[file] = nil
    }

    /// Drops everything.
    package mutating func clear() -> [String] {
        let paths = Set(files.map(\.path)).sorted()
        self = SnapshotShelf(keptMilliseconds: keptMilliseconds)
        return paths
    }

    private var files: [SnapshotFile] { [current, older?.file].compactMap(\.self) + readers.keys }

    private mutating func keep(_ file: SnapshotFile, at now: Int64) -> [String] {
        let dropped = older.map { [$0.file.path] } ?? []
        older = (file, until: now + keptMilliseconds)
        return dropped
    }
}
