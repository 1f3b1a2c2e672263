import GRDB
import TidemarkCore
import TidemarkSQL

/// Bounds the number of requests without progress in a sync.
///
/// Each answer that does not end a sync makes progress: it raises the revision while the device
/// catches up, and otherwise settles the oldest pending change set. In a damaged file both can fail
/// without an error. For instance, an index may lack a change set's entry, so that it cannot be deleted
/// and is sent for ever. All other steps of a sync have bounds of their own.
struct RoundBound: Sendable {
    private enum Mark: Hashable {
        case revision(Int64)
        /// The oldest pending change set, and the latest that the file has ever had.
        case waiting(oldest: Int64?, latest: Int64?)
    }

    /// The most requests without progress; an altered schema or a concurrent process causes fewer.
    static let repeatsMax = 16

    private var last: Mark?
    private var repeats = 0

    /// Records the start of a request; throws `fileDamaged` after too many without progress.
    mutating func begin(isCatchingUp: Bool, _ file: DeviceFile, in db: Database) throws {
        let mark = isCatchingUp ? Mark.revision(file.revision) : try Self.waiting(in: db)
        repeats = mark == last ? repeats + 1 : 0
        last = mark
        guard repeats >= Self.repeatsMax else { return }
        throw TidemarkError(
            .fileDamaged, "The file does not keep what a sync changes: \(repeats) answers left it as it was.",
            fix: "Keep the file as it is; ERRORS.md says under fileDamaged what can be saved.")
    }

    private static func waiting(in db: Database) throws -> Mark {
        let row = try Row.fetchOne(
            db,
            cached: """
                SELECT (SELECT min(seq) FROM tidemark_changeset),
                    (SELECT seq FROM sqlite_sequence WHERE name = 'tidemark_changeset')
                """)
        return .waiting(oldest: try row?.value(0), latest: try row?.value(1))
    }
}
