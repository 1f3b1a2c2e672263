package import GRDB
package import TidemarkCore
package import TidemarkSQLite

/// A request between its JSON and the tables of a store, whichever it is.
///
/// JSON is parsed, checked and made by SQLite in sets, also where the rows themselves lie in
/// another database: the request's records and cells are in temporary tables of a connection, known
/// by the change set's number, and what a store finds out about its own rows comes into tables
/// beside them. So both stores refuse the same requests with the same words, and write the same
/// answers.
///
/// | table of the connection | a row is |
/// | --- | --- |
/// | `tidemark_staged`, `tidemark_staged_cell` | a record of the request, and a value of it |
/// | `tidemark_given` | a temporary id of a request and the permanent one |
/// | `tidemark_contended` | a record that somebody else changed, with its row as it is now |
/// | `tidemark_overruling` | a value that does not stand |
/// | `tidemark_reduced` | what a commit did to a record |
/// | `tidemark_truth` | a record as it is now, for the author of a refused change set |
package struct StagedRequest {
    /// The connection whose temporary tables hold the request.
    package let db: Database
    /// The zone's tables.
    package let schema: SyncSchema

    /// Takes a connection that was prepared for the schema, and gives it the tables.
    package init(_ db: Database, schema: SyncSchema) throws {
        self.db = db
        self.schema = schema
        try CommitTables.prepare(db)
    }

    /// The tables that a change set touches, parents first.
    package func touchedTables(_ ord: Int) throws -> [SyncedTable] { try touchedTables(.one(ord)) }

    /// The tables that change sets touch, parents first.
    package func touchedTables(_ sets: StagedSets) throws -> [SyncedTable] {
        let names = try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT tbl FROM temp.tidemark_staged WHERE \(sets.contains("ord"))
                    """
            ),
            arguments: [sets.number]
        )
        return schema.tables.filter { names.contains($0.name) }
    }

    /// Whether a change set names a record.
    package func isStaged(_ table: String, _ key: String, _ ord: Int) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_staged WHERE ord = ? AND tbl = ? AND key = ?)"
            ),
            arguments: [ord, table, key]
        ) ?? false
    }

    /// The key under which the author knows a record: for a new one the temporary id.
    package func sentKey(_ table: String, _ key: String, _ ord: Int) throws -> String {
        try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT coalesce(old_key, key) FROM temp.tidemark_staged
                    WHERE ord = ? AND tbl = ? AND key = ?
                    """
            ),
            arguments: [ord, table, key]
        ) ?? key
    }

    /// The key under which the truth tells of a record: a refused creation's id was never given,
    /// and will be somebody else's.
    func toldKey(_ table: String, _ key: String, _ ord: Int) throws -> String {
        try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT iif(operation = 'create', coalesce(old_key, key), key)
                    FROM temp.tidemark_staged WHERE ord = ? AND tbl = ? AND key = ?
                    """
            ),
            arguments: [ord, table, key]
        ) ?? key
    }
}
