import GRDB
import TidemarkCore
import TidemarkSQL

/// The validated envelope of an answer.
struct AnswerEnvelope {
    let maxRevision: Int64
    let hasMore: Bool
    let changeSets: String
    /// Notes about this device's values that other change sets overruled, a JSON array.
    let overruled: String
    /// The hash of the zone's schema.
    let schema: String?
    /// Stages the change sets.
    let staging: ChangeSetStaging
    /// The fingerprint of the zone at `maxRevision`.
    let fingerprint: Fingerprint?
    /// The ids that the server lends this device, a JSON object of tables.
    let lent: String
    /// Whether the answer has only the new ids of the device's own change sets.
    let echoesIds: Bool

    /// Reads and validates the envelope.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if the body is no answer, or has another epoch.
    init(_ body: [UInt8], file: DeviceFile, limits: Limits, in db: Database) throws {
        do {
            staging = try ChangeSetStaging(body: body, limits: limits, unknownNames: .ignoreDropped, in: db)
        } catch let error
            as TidemarkError
        { throw AnswerCheck.inapplicable(error.message, place: error.place) }
        // The query checks types first, so the accessors below meet no text or number beyond 64 bits.
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT ?1 ->> '$.maxRevision' AS revision, ?1 ->> '$.epoch' AS epoch,
                        coalesce(?1 ->> '$.more', 0) AS more, ?1 -> '$.changeSets' AS sets,
                        CASE json_type(?1, '$.schema') WHEN 'text' THEN ?1 ->> '$.schema' END AS schema,
                        coalesce(?1 -> '$.overruled', '[]') AS overruled,
                        coalesce(?1 ->> '$.echo' = 'ids', 0) AS ids, coalesce(?1 -> '$.lent', '{}') AS lent,
                        CASE json_type(?1, '$.fingerprint') WHEN 'text' THEN ?1 ->> '$.fingerprint' END AS fingerprint
                    WHERE json_valid(?1) AND json_type(?1, '$.maxRevision') = 'integer'
                        AND typeof(?1 ->> '$.maxRevision') = 'integer'
                        AND json_type(?1, '$.epoch') = 'text'
                        AND coalesce(json_type(?1, '$.more'), 'false') IN ('true', 'false')
                        AND json_type(?1, '$.changeSets') = 'array'
                        AND coalesce(json_type(?1, '$.overruled'), 'array') = 'array'
                        AND coalesce(json_type(?1, '$.lent'), 'object') = 'object'
                        AND coalesce(?1 ->> '$.echo', 'all') IN ('all', 'ids')
                        AND NOT EXISTS (SELECT 1 FROM json_each(?1) GROUP BY key HAVING count(*) > 1)
                    """
            ),
            arguments: [staging.outline]
        )
        guard let row, let revision = try row.value("revision") as Int64? else {
            throw TidemarkError(
                .invalidResponse,
                "The answer is not Tidemark's.",
                fix: "Nothing was changed. Check the URL; a network's sign-in page may be in the way."
            )
        }
        guard try row.value("epoch") as String? == file.epoch, revision >= file.revision else {
            throw TidemarkError(
                .epochMismatch,
                "The server's history differs from this file's.",
                fix: "The device takes its rows from a new snapshot; the outbox is kept."
            )
        }
        maxRevision = revision
        hasMore = try row.value("more")
        changeSets = try row.value("sets")
        overruled = try row.value("overruled")
        schema = try row.value("schema")
        echoesIds = try row.value("ids")
        lent = try row.value("lent")
        guard !hasMore || revision > file.revision else {
            throw TidemarkError(
                .invalidResponse,
                "The answer has no change sets, but says that more follow.",
                fix: "Nothing was changed. Compare the versions of both sides."
            )
        }
        fingerprint = try (row.value("fingerprint") as String?).flatMap(Fingerprint.init(hex:))
    }
}

/// The staged change sets of an answer, sorted by author and verdict.
struct AnsweredSets {
    /// The device's own change sets that became revisions.
    let accepted: [(ord: Int, id: String, revision: Int64)]
    /// The device's own change sets that were refused.
    let refused: [(ord: Int, id: String)]
    /// The change sets to apply, in revision order: all after the device's revision.
    let stream: [Int]
    /// The change sets of `stream` by other authors.
    let foreign: [Int]

    /// Whether the answer has neither change sets nor verdicts.
    var isEmpty: Bool { stream.isEmpty && accepted.isEmpty && refused.isEmpty }

    /// Sorts the staged change sets after ``AnswerCheck`` validated them.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `invalidResponse` if a revision is missing.
    init(after requested: Int64, through last: Int64, in db: Database) throws {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT answered.ord, answered.revision, answered.id, answered.conflict,
                        changeset.seq IS NOT NULL AS own
                    FROM temp.tidemark_answered AS answered
                    LEFT JOIN tidemark_changeset AS changeset ON changeset.id = answered.id
                    ORDER BY answered.ord
                    """
            )
        )
        var accepted: [(ord: Int, id: String, revision: Int64)] = []
        var refused: [(ord: Int, id: String)] = []
        var stream: [Int] = []
        var foreign: [Int] = []
        var next = requested + 1
        for row in rows {
            let isOwn: Bool = try row.value("own")
            if try row.value("conflict") as Bool {
                if isOwn { try refused.append((row.value("ord"), row.value("id"))) }
                continue
            }
            let revision = try row.value("revision") as Int64? ?? 0
            if isOwn { try accepted.append((row.value("ord"), row.value("id"), revision)) }
            guard revision > requested else { continue }
            if planted(PlantedBug.takesGaps) { next = revision }
            guard revision == next else {
                throw AnswerCheck.inapplicable("it has revision \(revision) where \(next) is due.")
            }
            next += 1
            try stream.append(row.value("ord"))
            if !isOwn { try foreign.append(row.value("ord")) }
        }
        guard next - 1 == last else { throw AnswerCheck.inapplicable("it ends before revision \(last).") }
        self.accepted = accepted
        self.refused = refused
        self.stream = stream
        self.foreign = foreign
    }
}
