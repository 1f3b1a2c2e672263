import GRDB
import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// The change sets of an answer, rendered from temporary tables.
extension StagedRequest {
    /// Renders the commit's changes in `temp.tidemark_reduced` as a change set.
    ///
    /// With `ord`, the number of the staged change set, it renders the author's copy with temporary
    /// ids.
    package func renderEffect(_ envelope: AnswerEnvelope, revision: Int64, authorOf ord: Int? = nil) throws -> String {
        var text = ""
        try renderEffect(envelope, revision: revision, authorOf: ord) { _, piece in text += piece }
        return text
    }

    /// Renders the same change set in ``TextPieces``.
    package func renderEffect(
        _ envelope: AnswerEnvelope,
        revision: Int64,
        authorOf ord: Int? = nil,
        take: @escaping (_ number: Int, _ piece: String) throws -> Void
    ) throws {
        let names = try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT tbl
                    FROM temp.tidemark_reduced
                    UNION
                    SELECT respelled.tbl
                    FROM temp.tidemark_staged AS respelled
                    JOIN temp.tidemark_table AS synced USING (tbl)
                    WHERE respelled.ord = ? AND respelled.operation = 'update' AND respelled.old_key IS NOT NULL
                        AND synced.kind <> 'integer'
                    """
            ),
            arguments: [ord]
        )
        try ChangeSetJSON.render(
            envelope: envelope.members,
            schema.tables.filter { names.contains($0.name) }.map {
                ChangeSetJSON.Source(effectOn: $0, revision: revision, authorOf: ord)
            },
            in: db,
            take: take
        )
    }

    /// Renders the stored parts of the author's copy of the last logged change set.
    package func makeLoggedChangeSet(_ envelope: AnswerEnvelope, revision: Int64, ord: Int) throws -> LoggedChangeSet {
        let isOverruled = !envelope.overruled.isEmpty
        return LoggedChangeSet(
            ids: try renderIds(envelope, ord: ord),
            whole: isOverruled ? try renderEffect(envelope, revision: revision, authorOf: ord) : nil,
            isAsSent: try !isOverruled && isAsSent(ord)
        )
    }

    /// Renders the records in `temp.tidemark_truth` as a change set.
    package func renderTruth(_ envelope: AnswerEnvelope?) throws -> String {
        let names = try String.fetchSet(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_truth"))
        return try ChangeSetJSON.render(
            envelope: envelope?.members ?? [],
            schema.tables.filter { names.contains($0.name) }.map { ChangeSetJSON.Source(truth: $0) },
            in: db
        )
    }
}
