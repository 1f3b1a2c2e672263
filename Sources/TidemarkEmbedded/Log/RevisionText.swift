import GRDB
import TidemarkSQL

/// The texts of change sets in the log, as ``TextPieces``; the revision's own row holds the first.
enum RevisionText {
    /// The length of the text of revision `log_entry` after the first piece; NULL without more pieces.
    static let restLength = """
        (SELECT sum(length(piece.text))
        FROM tidemark_revision_rest AS piece
        WHERE piece.revision = log_entry.revision)
        """

    /// Stores a piece of a change set after the first one.
    static func keep(_ number: Int, _ piece: String, of revision: Int64, in db: Database) throws {
        try db.cachedStatement(sql: "INSERT INTO tidemark_revision_rest (revision, number, text) VALUES (?, ?, ?)")
            .executeAndClearBindings(arguments: [revision, number, piece])
    }

    /// Returns the whole text of a change set from its first piece and ``restLength``.
    static func whole(_ beginning: String, _ restLength: Int?, of revision: Int64, in db: Database) throws -> String {
        guard restLength != nil else { return beginning }
        var text = beginning
        let pieces = try String.fetchCursor(
            db.cachedStatement(sql: "SELECT text FROM tidemark_revision_rest WHERE revision = ? ORDER BY number"),
            arguments: [revision]
        )
        while let piece = try pieces.next() { text += piece }
        return text
    }
}
