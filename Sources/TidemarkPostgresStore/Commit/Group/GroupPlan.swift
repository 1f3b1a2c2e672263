import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkStore

/// What the change sets of a group are about to do to a zone.
///
/// Change sets that have nothing to do with each other, nor with what others did, can be written
/// together: a few statements for all of them, and three round trips for the group. So each is
/// judged as if nobody were in its way, and noted here; then all are written at once, and
/// PostgreSQL is asked whether it was so. If it was not, everything is undone and the group is
/// answered one change set after another.
///
/// Revisions and ids are known when a change set is noted; what became of its rows is not. Until
/// then an answer has a ``Draft`` in that place.
final class GroupPlan {
    /// A change set that is accepted unless the database objects.
    struct Planned {
        let envelope: SyncRequest.Envelope
        /// The number of its request in the group.
        let request: Int
        let device: String?
        let revision: Int64
        let stamp: Stamp
        /// The revisions before the group that its author knows by `after`.
        let older: [Int64]
        /// Its records that had temporary ids, as JSON for `temp.tidemark_staged`.
        let renamed: String?
        /// All of its records, in the same form, where their author wants ids alone.
        var sent: String?
    }

    /// A change set that is written.
    struct Body {
        /// As everybody receives it.
        let all: String
        /// With its new ids alone.
        let ids: String
        /// Whether these say enough to its author.
        let isAsSent: Bool

        /// As its author receives it.
        func own(in db: Database) throws -> String {
            try AuthorsCopy(whole: nil, ids: ids, logged: all).render(in: db)
        }
    }

    /// What happens to a record, and by which change set.
    struct Owner {
        let index: Int
        let operation: TidemarkCore.Operation
    }

    /// What is written into a table, in a statement for each operation.
    struct Work {
        /// The records: elements of a JSON array.
        var records: [TidemarkCore.Operation: [String]] = [:]
        var counts: [TidemarkCore.Operation: Int] = [:]
        /// The columns that some of them set.
        var columns: [TidemarkCore.Operation: Set<String>] = [:]
        /// How many records take a unique value, and how many leave one.
        var (taking, leaving) = (0, 0)
    }

    /// A catch-up with change sets in it whose length was not known.
    struct CatchUpBound {
        let knownBytes: Int
        let drafted: [Int]
        let bytesMax: Int
    }

    /// The revision before the group.
    let first: Int64
    var planned: [Planned] = []
    /// How many of them are written.
    var written = 0
    /// What became of those.
    var bodies: [Body] = []
    /// The fingerprint at each revision from ``first`` on, as far as it is known.
    var fingerprints: [Int64: Fingerprint] = [:]
    var work: [String: Work] = [:]
    var owners: [StagedRequest.RecordName: Owner] = [:]
    /// The records that planned ones refer to by an integer key, and the tables otherwise.
    var referred: Set<StagedRequest.RecordName> = []
    var referredTables: Set<String> = []
    /// By the id of a change set, its place.
    var places: [String: Int] = [:]
    var laps: [String: Exchange] = [:]
    /// The next id of a table.
    var identities: [String: Int64] = [:]
    /// Temporary ids with the permanent ones: elements of a JSON array.
    var identityMap: [String] = []
    var devices: Set<String> = []
    var requests = 0
    var bounds: [CatchUpBound] = []
    /// The hash of the history up to a revision, as far as it is known.
    var chain: (revision: Int64, hash: String)?
    /// The revisions that the change set in hand builds on.
    var ancestors: [Int64] = []
    /// Of requests by number, the revision of which the answer names the fingerprint.
    var draftedFingerprints: [Int: Int64] = [:]

    init(first: Int64) { self.first = first }

    /// Whether there is anything that is not written.
    var isPending: Bool { written < planned.count }
}

/// What is thrown when the requests of a group have to be answered one after another.
struct NotPlain: Error {}

/// What stands in an answer for a change set that is not written yet: bytes that no JSON has.
enum Draft {
    /// Stands for the change set with a number as everybody receives it.
    static func all(_ index: Int) -> String { "\0a\(index)\0" }

    /// Stands for the author's copy.
    static func own(_ index: Int) -> String { "\0o\(index)\0" }

    /// Stands for the author's copy with ids alone.
    static func ids(_ index: Int) -> String { "\0i\(index)\0" }

    private static let echoMember = Array(#""echo":"ids","#.utf8)

    /// Puts in what the drafts stand for.
    ///
    /// Where ids alone do not say enough of one change set, all of them come whole.
    static func filled(
        _ answer: [UInt8],
        _ bodies: [GroupPlan.Body],
        in db: Database
    ) throws -> [UInt8] {
        guard answer.contains(0) else { return answer }
        var parts = answer.split(separator: 0, omittingEmptySubsequences: false)
        let drafts = stride(from: 1, to: parts.count, by: 2).compactMap { index in
            Int(String(decoding: parts[index].dropFirst(), as: UTF8.self)).map {
                (index: index, kind: parts[index].first, body: bodies[$0])
            }
        }
        let isWhole = drafts.contains { $0.kind == UInt8(ascii: "i") && !$0.body.isAsSent }
        if isWhole, let end = GroupQuestion.end(of: echoMember, in: Array(parts[0])) {
            parts[0] = parts[0].prefix(end - echoMember.count) + parts[0].dropFirst(end)
        }
        for draft in drafts {
            let text =
                switch draft.kind {
                case UInt8(ascii: "i") where !isWhole: draft.body.ids
                case UInt8(ascii: "a"): draft.body.all
                default: try draft.body.own(in: db)
                }
            parts[draft.index] = ArraySlice(text.utf8)
        }
        return Array(parts.joined())
    }

    private static let fingerprintMember = Array(#""fingerprint":""#.utf8)

    /// Puts in the fingerprint, which stands before all change sets.
    static func filled(_ answer: [UInt8], fingerprint: Fingerprint) throws -> [UInt8] {
        guard let start = GroupQuestion.end(of: fingerprintMember, in: answer),
            answer.count >= start + 32
        else { throw NotPlain() }
        return Array(answer[..<start]) + fingerprint.hex.utf8 + answer[(start + 32)...]
    }
}
