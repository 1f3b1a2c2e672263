import GRDB
import TidemarkCore
import TidemarkSQLite

/// The bound of a sync: how many requests may leave the file where it was.
///
/// Each answer that does not end a sync moves the file on: it raises the revision while the device
/// catches up, and otherwise settles the oldest waiting change set. In a damaged file both can fail
/// without an error: an index has lost the entry by which a change set is deleted, so that it is
/// sent again for ever. All other steps of a sync have bounds of their own.
struct RoundBound: Sendable {
    /// Where a file is, as far as requests move it on.
    private enum Mark: Hashable {
        case revision(Int64)
        /// The waiting change sets: the oldest, and the latest that the file has ever had.
        case waiting(oldest: Int64?, latest: Int64?)
    }

    /// More than what a sync repeats for good reasons, such as a schema that is altered meanwhile
    /// or an answer that another process has overtaken.
    static let repeatsMax = 16

    private var last: Mark?
    private var repeats = 0

    /// Notes that a request is about to be made.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `fileDamaged` when too many have changed
    ///   nothing.
    mutating func begin(isCatchingUp: Bool, _ file: DeviceFile, in db: Database) throws {
        let mark = isCatchingUp ? Mark.revision(file.revision) : try Self.waiting(in: db)
        repeats = mark == last ? repeats + 1 : 0
        last = mark
        guard repeats >= Self.repeatsMax else { return }
        throw TidemarkError(
            .fileDamaged,
            "The file does not keep what a sync changes: \(repeats) answers left it as it was.",
            fix: "Keep the file as it is; ERRORS.md says under fileDamaged what can be saved."
        )
    }

    private static func waiting(in db: Database) throws -> Mark {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT (SELECT min(seq) FROM tidemark_changeset),
                        (SELECT seq FROM sqlite_sequence WHERE name = 'tidemark_changeset')
                    """
            )
        )
        return .waiting(oldest: try row?.value(0), latest: try row?.value(1))
    }
}
