import GRDB
import TidemarkCore
import TidemarkSQL

/// The acknowledged changes that a server with another history has lost, in `temp.tidemark_forgotten`.
///
/// ``OfferAgain`` sends them again. A comparison of all rows with the server's finds them as well, but as differences
/// whose author it does not know. What they explain of a row is no edit that no trigger captured; it would be in the
/// zone twice if a person kept it.
struct ForgottenChanges {
    let db: Database

    /// Notes the changes that the server does not know, before a comparison.
    func note(_ recall: Recall) throws {
        try clear()
        let ids = try KeptChangeSets.ids(in: db).filter { !$0.isKnown(by: recall.knownIDs) }.map(\.present)
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_forgotten
                SELECT record.tbl, record.key, kept.number, record.operation, record.attributes
                FROM tidemark_kept AS kept
                JOIN tidemark_kept_record AS record USING (number)
                WHERE kept.id IN (SELECT value FROM json_each(?))
                """, arguments: [JSONText.array(ids.map(JSONText.quote))])
    }

    func clear() throws { try db.execute(sql: "DELETE FROM temp.tidemark_forgotten") }

    /// Returns the condition that one of the changes has created the record with a key.
    static func creates(_ table: SyncedTable, key: String) -> String {
        """
        EXISTS (
            SELECT 1 FROM temp.tidemark_forgotten AS forgotten
            WHERE forgotten.tbl = \(SQLText.literal(table.name)) AND forgotten.key = \(key)
                AND forgotten.operation = 'create')
        """
    }

    /// Takes what the changes explain out of `temp.tidemark_found`.
    func explainFound() throws {
        let found = try Row.fetchAll(
            db,
            cached: """
                SELECT tbl, key, operation, mine, theirs
                FROM temp.tidemark_found
                WHERE (tbl, key) IN (SELECT tbl, key FROM temp.tidemark_forgotten)
                """)
        for row in found {
            let name: [any DatabaseValueConvertible] = [try row.value("tbl") as String, try row.value("key") as String]
            let changes = try Row.fetchAll(
                db,
                cached: """
                    SELECT operation, attributes FROM temp.tidemark_forgotten WHERE tbl = ? AND key = ? ORDER BY number
                    """, arguments: StatementArguments(name)
            ).map { try RecordChange(stored: $0.value("attributes"), operation: $0.value("operation")) }
            let theirs = try RecordImage(stored: row.value("theirs"))
            let mine = try RecordImage(stored: row.value("mine"))
            let edits = mine.map { mine in
                // A change explains only its own columns of a row that the server does not have.
                let isWhole = theirs != nil || changes.contains { $0.operation == .create }
                return isWhole ? mine.columnsNotExplained(by: theirs, changes) : Set(mine.columns.keys)
            }
            if edits?.isEmpty ?? changes.contains(where: { $0.operation == .delete }) {
                try db.execute(
                    cached: "DELETE FROM temp.tidemark_found WHERE tbl = ? AND key = ?",
                    arguments: StatementArguments(name))
            } else if let mine, let edits, theirs != nil, try row.value("operation") == "update" {
                try db.execute(
                    cached: "UPDATE temp.tidemark_found SET mine = ? WHERE tbl = ? AND key = ?",
                    arguments: StatementArguments([mine.part(edits).json] + name))
            }
        }
    }

    /// Takes the values of a column that the changes have set out of `temp.tidemark_taken`.
    func explainTaken(_ column: String, of table: SyncedTable) throws {
        try db.execute(
            sql: """
                DELETE FROM temp.tidemark_taken AS differing
                WHERE tbl = ?1 AND col = ?2 AND EXISTS (
                    SELECT 1 FROM temp.tidemark_forgotten AS forgotten
                    WHERE forgotten.tbl = ?1 AND forgotten.key = differing.key
                        AND json_type(forgotten.attributes, ?3) IS NOT NULL
                        AND tidemark_key(tidemark_decode(forgotten.attributes -> ?3)) IS tidemark_key(differing.mine))
                """, arguments: [table.name, column, MemberSQL.path(column)])
    }
}
