import Foundation
import Synchronization
import TidemarkCore

/// The last revisions of the zones that were closed, so that a list of zones opens none of them.
final class ClosedZones: Sendable {
    private let zones = Mutex<[String: (revision: ZoneRevision, mark: FileMark)]>([:])

    /// Remembers a zone's revision after its file was closed.
    func remember(_ revision: ZoneRevision, file: URL) {
        let mark = FileMark(file)
        zones.withLock { $0[revision.zone] = (revision, mark) }
    }

    /// Returns a closed zone's revision; nil if it is not known, or another program has written into the file.
    func revision(of zone: String, file: URL) -> ZoneRevision? {
        guard let known = zones.withLock({ $0[zone] }), known.mark == FileMark(file) else { return nil }
        return known.revision
    }

    /// Forgets a zone.
    func forget(_ zone: String) { zones.withLock { $0[zone] = nil } }
}

/// What changes when a program writes into a SQLite file: sizes and times of the file and its `-wal`.
private struct FileMark: Hashable {
    private let sizes: [Int?]
    private let times: [Date?]

    init(_ file: URL) {
        let paths = [file.path, file.path + "-wal"]
        // A file that is missing has no attributes, which is a mark as well.
        let attributes = paths.map { try? FileManager.default.attributesOfItem(atPath: $0) }
        sizes = attributes.map { $0?[.size] as? Int }
        times = attributes.map { $0?[.modificationDate] as? Date }
    }
}
