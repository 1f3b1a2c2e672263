package import GRDB
package import TidemarkCore
package import TidemarkSQL

/// A request in temporary SQLite tables, between its JSON and the tables of a store.
///
/// SQLite renders JSON in sets, even if the rows are in another database. The
/// request's records and cells are in temporary tables, identified by the change set's number. A
/// store adds the data about its own rows in further tables. So both stores refuse the same
/// requests with the same messages, and render the same answers.
///
/// | temporary table | a row contains |
/// | --- | --- |
/// | `tidemark_staged`, `tidemark_staged_cell` | a record of the request, and one of its values |
/// | `tidemark_given` | a temporary id of a request and the permanent one |
/// | `tidemark_contended` | a record that another author changed, with its current row |
/// | `tidemark_overruling` | a losing value |
/// | `tidemark_reduced` | the effect of a commit on a record |
/// | `tidemark_truth` | a current record, for the author of a refused change set |
package struct StagedRequest {
    /// The connection whose temporary tables hold the request.
    package let db: Database
    /// The zone's tables.
    package let schema: SyncSchema

    /// Creates the temporary tables on a connection that is prepared for the schema.
    package init(_ db: Database, schema: SyncSchema) throws {
        self.db = db
        self.schema = schema
        try CommitTables.prepare(db)
    }

    /// Returns the tables that a change set touches, parents first.
    package func touchedTables(_ ord: Int) throws -> [SyncedTable] { try touchedTables(.one(ord)) }

    /// Returns the tables that change sets touch, parents first.
    package func touchedTables(_ sets: StagedSets) throws -> [SyncedTable] {
        let names = try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT tbl
                    FROM temp.tidemark_staged
                    WHERE \(sets.contains("ord"))
                    """
            ),
            arguments: [sets.number]
        )
        return schema.tables.filter { names.contains($0.name) }
    }

    /// Whether a change set names a record.
    package func isStaged(_ table: String, key: String, ord: Int) throws -> Bool {
        try Bool.fetchOne(
            db.cachedStatement(
                sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_staged WHERE ord = ? AND tbl = ? AND key = ?)"
            ),
            arguments: [ord, table, key]
        ) ?? false
    }

    /// Returns a record's key as the author sent it: the temporary id of a new record.
    package func sentKey(_ table: String, key: String, ord: Int) throws -> String {
        try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT coalesce(old_key, key)
                    FROM temp.tidemark_staged
                    WHERE ord = ? AND tbl = ? AND key = ?
                    """
            ),
            arguments: [ord, table, key]
        ) ?? key
    }

    /// Returns a record's key in the answer to a refused change set.
    ///
    /// A refused new record keeps its temporary id: its permanent id is assigned to another record
    /// later.
    func truthKey(_ table: String, key: String, ord: Int) throws -> String {
        try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT iif(operation = 'create', coalesce(old_key, key), key)
                    FROM temp.tidemark_staged
                    WHERE ord = ? AND tbl = ? AND key = ?
                    """
            ),
            arguments: [ord, table, key]
        ) ?? key
    }
}
