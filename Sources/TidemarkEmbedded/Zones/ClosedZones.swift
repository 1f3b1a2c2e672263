import Foundation
import Synchronization
import TidemarkCore

/// The last revisions of zones whose files are closed, so that a list of zones opens none of them.
///
/// A revision is known from the closing of the file, or from one read of it. It counts until a program writes
/// into the file. Safe to use from any task.
final class ClosedZones: Sendable {
    private let files: ZoneFiles
    private let zones = Mutex<[String: Known]>([:])

    private struct Known {
        let revision: ZoneRevision
        let mark: FileMark
        /// Whether no changes of other programs wait in the file to be logged.
        let isSettled: Bool
    }

    init(_ files: ZoneFiles) { self.files = files }

    func remember(_ revision: ZoneRevision) {
        let mark = FileMark(files.file(of: revision.zone))
        zones.withLock { $0[revision.zone] = Known(revision: revision, mark: mark, isSettled: true) }
    }

    /// Reads closed zones' revisions on an own thread, without zones never opened; throws for a file that is missing.
    func read(_ names: [String]) async throws -> [String: ZoneRevision] {
        guard !names.isEmpty else { return [:] }
        return try await runOnOwnThread { [self] in
            var revisions: [String: ZoneRevision] = [:]
            for name in names {
                // The mark is older than the read: a write between the two makes the revision unknown.
                let mark = FileMark(files.file(of: name))
                guard let (revision, isSettled) = try files.revision(of: name) else { continue }
                zones.withLock { $0[name] = Known(revision: revision, mark: mark, isSettled: isSettled) }
                revisions[name] = revision
            }
            return revisions
        }
    }

    /// Returns a closed zone's revision; nil if it is not known, or another program has written into the file.
    func revision(of zone: String) -> ZoneRevision? { known(zone)?.revision }

    /// Whether a zone is closed, and no program has written into its file since the last look.
    func isSettled(_ zone: String) -> Bool { known(zone)?.isSettled == true }

    func forget(_ zone: String) { zones.withLock { $0[zone] = nil } }

    private func known(_ zone: String) -> Known? {
        guard let known = zones.withLock({ $0[zone] }), known.mark == FileMark(files.file(of: zone)) else { return nil }
        return known
    }
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
