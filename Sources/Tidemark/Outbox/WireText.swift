import GRDB
import TidemarkCore
import TidemarkSQL

/// Stores the JSON of frozen change sets in pieces, because SQLite copies a value twice on its way into a row.
///
/// The first piece is in the change set's own row, the overflow in `tidemark_wire_rest`.
enum WireText {
    static func store(_ number: Int, _ piece: String, of seq: Int64, in db: Database) throws {
        guard number > 0 else {
            return try db.cachedStatement(sql: "UPDATE tidemark_changeset SET wire = ? WHERE seq = ?")
                .executeAndClearBindings(arguments: [piece, seq])
        }
        try db.cachedStatement(sql: "INSERT INTO tidemark_wire_rest (seq, number, text) VALUES (?, ?, ?)")
            .executeAndClearBindings(arguments: [seq, number, piece])
    }

    /// Appends the overflow of a change set's text, about `bytes` long.
    static func appendOverflow(of seq: Int64, _ bytes: Int, to text: inout [UInt8], in db: Database) throws {
        // Reserve once: a growing array is copied, so it needs twice the memory. Includes the request's head.
        text.reserveCapacity(text.count + bytes + ChangeSetText.pieceBytes)
        let statement = try db.cachedStatement(sql: "SELECT text FROM tidemark_wire_rest WHERE seq = ? ORDER BY number")
        let pieces = try Row.fetchCursor(statement, arguments: [seq])
        while try pieces.next() != nil { text += RowTexts(statement)[0] }
    }

    static func deleteOverflow(where condition: String = "true", arguments: StatementArguments = [], in db: Database)
        throws
    { try db.execute(cached: "DELETE FROM tidemark_wire_rest WHERE \(condition)", arguments: arguments) }
}
