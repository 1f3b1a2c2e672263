import GRDB
import TidemarkSQLite

/// The texts of change sets in the log: ``TextPieces``, the beginning in the revision's own row.
enum RevisionText {
    /// How many characters of revision `r` its row does not hold; NULL where it holds all.
    static let restLength = """
        (SELECT sum(length(p.text)) FROM tidemark_revision_rest AS p WHERE p.revision = r.revision)
        """

    /// Keeps a piece of a change set behind its beginning.
    static func keep(_ number: Int, _ piece: String, of revision: Int64, in db: Database) throws {
        try db.cachedStatement(sql: "INSERT INTO tidemark_revision_rest (revision, number, text) VALUES (?, ?, ?)")
            .executeLettingGo(arguments: [revision, number, piece])
    }

    /// A change set, whole, given its beginning and ``restLength``.
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
