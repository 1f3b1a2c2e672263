import GRDB
import TidemarkSQLite

/// The texts of frozen change sets: ``TextPieces``, the beginning in the change set's own row.
enum WireText {
    /// Keeps a piece of a change set's text.
    static func keep(_ number: Int, _ piece: String, of seq: Int64, in db: Database) throws {
        guard number > 0 else {
            return try db.cachedStatement(sql: "UPDATE tidemark_changeset SET wire = ? WHERE seq = ?").executeLettingGo(
                arguments: [piece, seq])
        }
        try db.cachedStatement(sql: "INSERT INTO tidemark_wire_rest (seq, number, text) VALUES (?, ?, ?)")
            .executeLettingGo(arguments: [seq, number, piece])
    }

    /// Adds what follows the beginning of a change set's text, of about so many bytes.
    static func appendRest(of seq: Int64, _ bytes: Int, to text: inout [UInt8], in db: Database) throws {
        // Grown step by step it would lie in memory twice meanwhile; a request's head comes, too.
        text.reserveCapacity(text.count + bytes + TextPieces.bytesTarget)
        let statement = try db.cachedStatement(sql: "SELECT text FROM tidemark_wire_rest WHERE seq = ? ORDER BY number")
        let pieces = try Row.fetchCursor(statement, arguments: [seq])
        while try pieces.next() != nil { text += RowTexts(statement)[0] }
    }

    /// Forgets what follows the beginning of change sets' texts; `condition` says of which.
    static func forgetRest(where condition: String = "true", arguments: StatementArguments = [], in db: Database) throws
    { try db.cachedStatement(sql: "DELETE FROM tidemark_wire_rest WHERE \(condition)").execute(arguments: arguments) }
}
