import GRDB
import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// The change sets of an answer, made of what the store noted.
extension StagedRequest {
    /// What the commit did, in `temp.tidemark_reduced`, as a change set.
    ///
    /// With `ord`, the author's staged change set, the temporary ids are named: the author's copy.
    package func renderReduced(_ envelope: AnswerEnvelope, revision: Int64, authorOf ord: Int? = nil) throws -> String {
        var text = ""
        try renderReduced(envelope, revision: revision, authorOf: ord) { _, piece in text += piece }
        return text
    }

    /// The same in ``TextPieces``.
    package func renderReduced(
        _ envelope: AnswerEnvelope,
        revision: Int64,
        authorOf ord: Int? = nil,
        take: @escaping (_ number: Int, _ piece: String) throws -> Void
    ) throws {
        let names = try String.fetchSet(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_reduced"))
        try ChangeSetJSON.render(
            envelope: envelope.members,
            schema.tables.filter { names.contains($0.name) }.map {
                ChangeSetJSON.Source(reduced: $0, revision: revision, authorOf: ord)
            },
            in: db,
            take: take
        )
    }

    /// What is to be kept of a change set that was just logged: its ids, and the author's copy
    /// where the log and the ids do not say all of it.
    package func logged(_ envelope: AnswerEnvelope, revision: Int64, ord: Int) throws -> LoggedChangeSet {
        let isOverruled = !envelope.overruled.isEmpty
        return LoggedChangeSet(
            ids: try renderIds(envelope, ord: ord),
            whole: isOverruled ? try renderReduced(envelope, revision: revision, authorOf: ord) : nil,
            isAsSent: try !isOverruled && isAsSent(ord)
        )
    }

    /// The records in `temp.tidemark_truth` as a change set.
    package func renderTruth(_ envelope: AnswerEnvelope?) throws -> String {
        let names = try String.fetchSet(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_truth"))
        return try ChangeSetJSON.render(
            envelope: envelope?.members ?? [],
            schema.tables.filter { names.contains($0.name) }.map { ChangeSetJSON.Source(truth: $0) },
            in: db
        )
    }
}
