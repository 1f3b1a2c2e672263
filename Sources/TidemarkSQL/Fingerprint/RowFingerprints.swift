package import GRDB
package import TidemarkCore

/// Computes fingerprints of rows (``TidemarkCore/Fingerprint``), with one statement per table.
package struct RowFingerprints {
    private let db: Database
    private let schema: SyncSchema

    package init(_ db: Database, schema: SyncSchema) {
        self.db = db
        self.schema = schema
    }

    package func all() throws -> Fingerprint { try schema.tables.map(rows).reduce(.none, +) }

    package func rows(of table: SyncedTable) throws -> Fingerprint {
        try sum(
            table, key: RowJSON.key(table, alias: "table_row."), after: RowJSON.image(table, prefix: "table_row."),
            from: "main.\(SQLText.name(table.name)) AS table_row")
    }

    /// Computes the fingerprint of the current rows with the keys of a staged change set.
    package func records(stagedAs ord: Int) throws -> Fingerprint {
        let names = try String.fetchSet(
            db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_staged WHERE ord = ?"), arguments: [ord])
        return try schema.tables.filter { names.contains($0.name) }.map { table in
            try sum(
                table,
                key: RowJSON.key(table, alias: "table_row."),
                after: RowJSON.image(table, prefix: "table_row."),
                from: """
                    temp.tidemark_staged AS staged
                    CROSS JOIN main.\(SQLText.name(table.name)) AS table_row
                        ON \(KeySQL.match(table, key: "staged.key", alias: "table_row."))
                    WHERE staged.ord = ? AND staged.tbl = ?
                    """,
                arguments: [ord, table.name])
        }.reduce(.none, +)
    }

    /// Computes the difference between the current rows of unsent records and the confirmed rows.
    package func outboxDifference() throws -> Fingerprint {
        let names = try String.fetchSet(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM tidemark_base"))
        return try schema.tables.filter { names.contains($0.name) }.map { table in
            try difference(table, list: "tidemark_base", oldImage: "image")
        }.reduce(.none, +)
    }

    /// Computes by how much the records in `temp.tidemark_confirmed`, which has the new rows of unsent ones, changed.
    package func confirmedDifference() throws -> Fingerprint {
        let names = try String.fetchSet(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_confirmed"))
        return try schema.tables.filter { names.contains($0.name) }.map { table in
            try difference(
                table, list: "temp.tidemark_confirmed", oldImage: "was",
                newImageCase: "WHEN listed.waits THEN tidemark_sorted(listed.became)")
        }.reduce(.none, +)
    }

    /// Computes the fingerprint of the current rows of a list minus the list's old rows.
    private func difference(_ table: SyncedTable, list: String, oldImage column: String, newImageCase: String = "")
        throws -> Fingerprint
    {
        try sum(
            table,
            key: "listed.key",
            before: "tidemark_sorted(listed.\(column))",
            after: "CASE \(newImageCase) \(currentImageCase(table)) END",
            from: """
                \(list) AS listed
                LEFT JOIN main.\(SQLText.name(table.name)) AS table_row
                    ON \(KeySQL.match(table, key: "listed.key", alias: "table_row."))
                WHERE listed.tbl = ?
                """,
            arguments: [table.name])
    }

    /// Returns the CASE branch with the hashed form of an existing row `table_row`.
    private func currentImageCase(_ table: SyncedTable) -> String {
        """
        WHEN table_row.\(SQLText.name(table.key[0])) IS NOT NULL
            THEN \(RowJSON.image(table, prefix: "table_row."))
        """
    }

    private func sum(
        _ table: SyncedTable, key: String, before: String = "NULL", after: String, from source: String,
        arguments: StatementArguments = []
    ) throws -> Fingerprint {
        let hex = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT tidemark_fingerprint(\(SQLText.literal(table.name)), \(key), \(before), \(after))
                    FROM \(source)
                    """),
            arguments: arguments)
        return hex.flatMap(Fingerprint.init(hex:)) ?? .none
    }
}
