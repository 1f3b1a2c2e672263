import TidemarkCore

/// A revision of the log with its change set, and the hash of the history that its commit stored.
///
/// **One log serves every reader.** A commit writes it once (``CommitTransaction/keep(_:)``): a revision with the text
/// of its change set, as devices receive it, and an entry a record with the values that it replaced. Push and pull read
/// the texts after a revision (``LogReader/catchUp(_:)``), memory and other nodes the latest ones
/// (``BookDatabase/recent(_:layout:bytesMax:)``), from which events are sent. The feed, histories, conflicts and the
/// list of revisions read entries, never texts. Whatever a transaction reads for a caller, a ``LogReader`` reads.
package struct LoggedChangeSet {
    package let revision: Int64
    /// The device that made the change set; nil for a client without rows and for another program.
    package let device: String?
    /// The hash of the history up to this revision; empty in those of versions without hashes.
    package let chain: String
    /// The hash of the history before; nil if unknown.
    private let previous: String?
    /// The change set as JSON, as other devices receive it; empty after compaction.
    package private(set) var body: String
    /// The number of characters of the body that are not read yet.
    fileprivate let restLength: Int
    /// The fingerprint of the rows at the revision, if it is stored for the layout of the question.
    fileprivate let fingerprint: Fingerprint?
    /// Columns of a statement about the author's copy: the whole one, and the ids.
    fileprivate let copy: (whole: String?, ids: String?)

    fileprivate init(_ row: BookRow) throws {
        revision = try row.number(0)
        device = row[1]
        chain = row[2] ?? ""
        body = row[3] ?? ""
        restLength = row.integer(4).map(Int.init) ?? 0
        previous = row[5]
        fingerprint = row[6].flatMap(Fingerprint.init(hex:))
        copy = (row[7], row[8])
    }

    /// Whether the hash matches the change set; without a hash, any change set that is not empty passes.
    package var isAuthentic: Bool {
        guard !chain.isEmpty, let previous else { return !body.isEmpty }
        return chain == RecentChangeSet.chain(after: previous, revision: revision, device: device, body: body)
    }

    fileprivate var length: Int { body.utf8.count + restLength }

    fileprivate mutating func append(_ rest: [String]) { for piece in rest { body += piece } }
}

/// A caller who reads the log of a zone, in a transaction.
///
/// It holds the caller's access, as the gate has decided it, so that no request reads the log without one. Every reader
/// of a zone may read all of its log: the answers do not depend on the caller. ``Pulls`` answers from memory, to
/// requests with the same access; a change for all listeners goes to those whom the gate still admits.
package struct LogReader {
    let zone: any RowReader
    /// The caller's rights.
    let access: ZoneAccess

    /// Begins to read for a caller, whom the gate has admitted to the zone.
    package init(_ zone: any RowReader, for access: ZoneAccess) {
        self.zone = zone
        self.access = access
    }

    /// Returns the change sets that a device misses, oldest first, as it receives them.
    ///
    /// - Throws: ``DamagedLog`` if an entry is missing or altered.
    package func catchUp(_ missed: MissedRevisions) throws -> CatchUp {
        try zone.books.catchUp(missed) ?? zone.missedChangeSets(missed)
    }

    /// Returns the change set of a revision as JSON; nil if the log does not have it.
    package func changeSet(of revision: Int64) throws -> String? {
        try zone.changeSets(of: [revision])[revision]
    }
}

extension BookState {
    /// The question for the change sets after a revision that a transaction reads in advance.
    static func recent(after revision: Int64, layout: String) -> BookQuestion {
        let missed = MissedRevisions(
            after: revision, through: revision + Int64(revisionsMax), limit: revisionsMax, bytesMax: bytesMax,
            bringsFirst: false)
        return missed.question(layout: layout)
    }

    private static let revisionsMax = 64
    private static let bytesMax = 1 << 20

    /// Takes the rows of ``recent(after:)``, without long, damaged and compacted ones: who needs one asks for it.
    func take(recent rows: [BookRow]) throws {
        for row in rows {
            let entry = try LoggedChangeSet(row)
            fingerprints[entry.revision] = entry.fingerprint
            guard entry.restLength == 0, !entry.body.isEmpty, entry.isAuthentic else { continue }
            recent[entry.revision] = (entry.device, entry.body)
        }
    }

    /// Returns the change sets that a device misses, if all of them are known and none is its own.
    fileprivate func catchUp(_ missed: MissedRevisions) -> CatchUp? {
        guard missed.after < missed.through else { return CatchUp(bodies: [], revision: missed.after, hasMore: false) }
        var bodies: [String] = []
        var bytes = 0
        for revision in (missed.after + 1)...missed.through {
            guard let entry = recent[revision], missed.device == nil || entry.device != missed.device else {
                return nil
            }
            bytes += entry.body.utf8.count
            guard bodies.isEmpty && missed.bringsFirst || bodies.count < missed.limit && bytes <= missed.bytesMax else {
                return CatchUp(bodies: bodies, revision: missed.counted(revision - 1), hasMore: true)
            }
            bodies.append(entry.body)
        }
        return CatchUp(bodies: bodies, revision: missed.through, hasMore: false)
    }
}

extension MissedRevisions {
    /// The question for these change sets and one more, with the fingerprints of their revisions.
    fileprivate func question(layout: String) -> BookQuestion {
        BookQuestion(
            ChangeSetSQL.missed,
            [
                .text(layout), device.map(Value.text) ?? .null, .integer(after), .integer(through),
                .integer(Int64(min(limit, 1 << 40)) + 1), .integer(Int64(bytesMax)),
                .integer(bringsFirst ? 1 : 0),
            ])
    }

    /// Returns the last revision of an answer that ends before the last revision.
    fileprivate func counted(_ reached: Int64) -> Int64 {
        planted(PlantedBug.countsRevisionThatDidNotFit) ? reached + 1 : reached
    }
}

/// The change sets of the log.
///
/// In SQLite, a long text stands in pieces of some 64 KiB, so that no reader of the log's other columns passes over it:
/// the first in the revision's row, the others in `tidemark_revision_rest`. PostgreSQL does this itself.
extension BookDatabase {
    /// Reads the change sets that a device misses, oldest first, as it receives them.
    ///
    /// - Throws: ``DamagedLog`` if an entry is missing or altered.
    fileprivate func missedChangeSets(_ missed: MissedRevisions) throws -> CatchUp {
        var hasMore = false
        var bytes = 0
        let entries = try read(missed.question(layout: "")) { entry, count in
            bytes += entry.length
            let isFirst = count == 0 && missed.bringsFirst
            hasMore = !isFirst && (count >= missed.limit || bytes > missed.bytesMax)
            return !hasMore
        }
        var bodies: [String] = []
        for entry in entries {
            let next = missed.after + Int64(bodies.count) + 1
            guard entry.revision == next, entry.isAuthentic else { throw DamagedLog(revision: next) }
            bodies.append(try AuthorsCopy(whole: entry.copy.whole, ids: entry.copy.ids, logged: entry.body).render())
        }
        let reached = missed.after + Int64(bodies.count)
        guard hasMore || reached >= missed.through || bytes > missed.bytesMax else {
            throw DamagedLog(revision: reached + 1)
        }
        return CatchUp(
            bodies: bodies, revision: hasMore ? missed.counted(reached) : reached, hasMore: reached < missed.through)
    }

    /// Returns consecutive change sets that end with the last of a range, oldest first: as many as fit.
    ///
    /// The first revision of the range may have no body: devices are at this revision already, or compaction deleted
    /// it. `layout` identifies the columns of fingerprints.
    package func recent(_ range: ClosedRange<Int64>, layout: String, bytesMax: Int) throws -> [RecentChangeSet] {
        let question = BookQuestion(
            ChangeSetSQL.recent,
            [.text(layout), .integer(range.lowerBound), .integer(range.upperBound), .integer(Int64(bytesMax))])
        var bytes = 0
        let entries = try read(question) { entry, _ in
            bytes += entry.length
            return bytes <= bytesMax && !entry.body.isEmpty
        }
        var run: [RecentChangeSet] = []
        for entry in entries {
            // Without a cached answer, the store answers in a transaction, which reports the damage.
            guard entry.revision == range.upperBound - Int64(run.count), entry.isAuthentic else { break }
            run.append(
                RecentChangeSet(
                    revision: entry.revision, device: entry.device, fingerprint: entry.fingerprint, chain: entry.chain,
                    body: entry.body))
        }
        guard run.count == range.count - 1 else { return run.reversed() }
        let start = try rows(ChangeSetSQL.start, [.text(layout), .integer(range.lowerBound)]).first
        run.append(
            RecentChangeSet(
                startingAt: range.lowerBound, fingerprint: start?[1].flatMap(Fingerprint.init(hex:)), chain: start?[0]))
        return run.reversed()
    }

    /// Returns change sets as JSON by their revisions, without those that the log does not have any more.
    package func changeSets(of revisions: [Int64]) throws -> [Int64: String] {
        let question = BookQuestion(ChangeSetSQL.some, [.null], about: revisions.map { [.integer($0)] })
        let entries = try read(question) { _, _ in true }
        return entries.reduce(into: [:]) { if !$1.body.isEmpty { $0[$1.revision] = $1.body } }
    }

    /// Returns the change sets of a range that the log has, oldest first.
    package func logged(_ range: ClosedRange<Int64>) throws -> [LoggedChangeSet] {
        let bounds = [Value.integer(range.lowerBound), .integer(range.upperBound)]
        let question = BookQuestion(ChangeSetSQL.range, [.null] + bounds)
        return try read(question) { _, _ in true }
    }

    /// Reads entries with their whole texts until `isWanted` returns false; its second argument is their number so far.
    private func read(_ question: BookQuestion, while isWanted: @escaping (LoggedChangeSet, Int) -> Bool) throws
        -> [LoggedChangeSet]
    {
        var question = question
        var entries: [LoggedChangeSet] = []
        question.isWanted = { row in
            let entry = try LoggedChangeSet(row)
            guard isWanted(entry, entries.count) else { return false }
            entries.append(entry)
            return true
        }
        _ = try rows(question)
        for index in entries.indices where entries[index].restLength > 0 {
            entries[index].append(try rest(of: entries[index].revision))
        }
        return entries
    }

    private func rest(of revision: Int64) throws -> [String] {
        try rows(ChangeSetSQL.rest, [.integer(revision)]).map { try $0.text(0) }
    }
}

private enum ChangeSetSQL {
    /// `$2` is the layout of fingerprints.
    private static func entries(
        own: String = "NULL, NULL", from source: String = "{revision} AS entry", where condition: String
    ) -> String {
        """
        SELECT entry.revision, entry.device, entry.chain, entry.body,
            {(SELECT sum(length(piece.text)) FROM main.tidemark_revision_rest AS piece
                WHERE piece.revision = entry.revision)|NULL} AS rest,
            coalesce(
                nullif((SELECT previous.chain FROM {revision} AS previous
                    WHERE {here previous} AND previous.revision = entry.revision - 1), ''),
                CASE WHEN entry.revision - 1 <= (SELECT adopted FROM {zone} WHERE {here}) THEN '' END) AS previous,
            (SELECT stored.fingerprint FROM {fingerprint} AS stored
                WHERE {here stored} AND stored.revision = entry.revision AND stored.shape = $2) AS fingerprint,
            \(own)
        FROM \(source)
        \(condition)
        """
    }

    /// With the copies of their author `$3`.
    private static let missedEntries = entries(
        own: "\(own("body")) AS whole, \(own("ids")) AS ids",
        where: """
            WHERE {here entry} AND entry.revision > $4 AND entry.revision <= $5
            ORDER BY entry.revision
            LIMIT $6
            """)
    private static func own(_ column: String) -> String {
        "(SELECT own.\(column) FROM {verdict} AS own WHERE {here own} AND own.id = entry.id AND own.device = $3)"
    }
    /// PostgreSQL sends of the row that exceeds the bytes only the length, unless it is the first and wanted anyway.
    static let missed = BookStatement(
        sqlite: missedEntries,
        postgres: """
            SELECT revision, device, chain, CASE WHEN fits THEN body END, CASE WHEN NOT fits THEN octet_length(body) END,
                previous, fingerprint, whole, ids
            FROM (
                SELECT measured.*, bytes <= $7 OR $8::boolean AND bytes = octet_length(body) AS fits
                FROM (
                    SELECT page.*, sum(octet_length(body)) OVER (ORDER BY revision) AS bytes
                    FROM (\(missedEntries)) AS page
                ) AS measured
            ) AS judged
            WHERE bytes - octet_length(body) <= $7
            ORDER BY revision
            """)
    /// PostgreSQL sends only the rows that fit.
    static let recent = BookStatement(
        sqlite: "\(recentEntries) ORDER BY entry.revision DESC",
        postgres: """
            SELECT *
            FROM (
                SELECT page.*, sum(octet_length(body)) OVER (ORDER BY revision DESC) AS bytes
                FROM (\(recentEntries)) AS page
            ) AS measured
            WHERE bytes <= $5
            ORDER BY revision DESC
            """)
    private static let recentEntries = entries(where: "WHERE {here entry} AND entry.revision BETWEEN $3 AND $4")
    static let range = BookStatement(
        entries(where: "WHERE {here entry} AND entry.revision BETWEEN $3 AND $4 ORDER BY entry.revision"))
    static let some = BookStatement(
        entries(from: "{each revision AS entry: entry.revision = asked.revision}", where: "ORDER BY asked.n"),
        about: ["revision": "bigint"])
    static let start = BookStatement(
        """
        SELECT (SELECT chain FROM {revision} WHERE {here} AND revision = $3),
            (SELECT fingerprint FROM {fingerprint} WHERE {here} AND revision = $3 AND shape = $2)
        """)
    static let rest = BookStatement(
        """
        SELECT text FROM {main.tidemark_revision_rest|tidemark.piece} WHERE {here} AND revision = $2 ORDER BY number
        """)
}
