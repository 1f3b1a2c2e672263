package import GRDB
package import TidemarkCore

/// Fingerprints of rows, one statement a table.
///
/// See ``TidemarkCore/Fingerprint``.
package struct RowFingerprints {
    private let db: Database
    private let schema: SyncSchema

    /// Fingerprints of the tables of `schema`, on a prepared connection.
    package init(_ db: Database, schema: SyncSchema) { (self.db, self.schema) = (db, schema) }

    /// The fingerprint of all rows of all tables.
    package func all() throws -> Fingerprint { try schema.tables.map(rows).reduce(.none, +) }

    /// The fingerprint of all rows of a table.
    package func rows(of table: SyncedTable) throws -> Fingerprint {
        try sum(
            table,
            key: RowJSON.key(table, alias: "t."),
            after: RowJSON.image(table, prefix: "t."),
            from: "main.\(SQLText.name(table.name)) AS t"
        )
    }

    /// The fingerprint of the rows that stand under the keys of a staged change set.
    package func records(stagedAs ord: Int) throws -> Fingerprint {
        let names = try String.fetchSet(
            db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_staged WHERE ord = ?"),
            arguments: [ord]
        )
        return try schema.tables.filter { names.contains($0.name) }.map { table in
            try sum(
                table,
                key: RowJSON.key(table, alias: "t."),
                after: RowJSON.image(table, prefix: "t."),
                from: """
                    temp.tidemark_staged AS s CROSS JOIN main.\(SQLText.name(table.name)) AS t
                    ON \(KeySQL.match(table, key: "s.key", alias: "t."))
                    WHERE s.ord = ? AND s.tbl = ?
                    """,
                arguments: [ord, table.name]
            )
        }.reduce(.none, +)
    }

    /// What the changes in `temp.tidemark_reduced` did to the fingerprint, by the rows as they are
    /// now.
    package func reduced() throws -> Fingerprint {
        let names = try String.fetchSet(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_reduced"))
        return try schema.tables.filter { names.contains($0.name) }.map { table in
            try difference(table, from: "temp.tidemark_reduced", was: "before")
        }.reduce(.none, +)
    }

    /// The same by change set, where each record is one of a change set of a segment.
    package func reduced(in segment: StagedSets) throws -> [Int: Fingerprint] {
        let names = try String.fetchSet(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_reduced"))
        return try schema.tables.filter { names.contains($0.name) }.map { table in
            try sums(
                after: "CASE \(isThere(table)) END",
                join: """
                    LEFT JOIN main.\(SQLText.name(table.name)) AS t
                        ON \(KeySQL.match(table, key: "r.key", alias: "t."))
                    """,
                segment,
                of: table
            )
        }.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: +) }
    }

    /// The same by the rows in its column `after`, where the tables are in another database.
    package func reducedImages(in segment: StagedSets) throws -> [Int: Fingerprint] {
        try sums(after: "tidemark_sorted(r.after)", join: "", segment, of: nil)
    }

    /// `table` is the only one that is looked at.
    private func sums(after: String, join: String, _ segment: StagedSets, of table: SyncedTable?) throws -> [Int:
        Fingerprint]
    {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT s.ord, tidemark_fingerprint(r.tbl, r.key, tidemark_sorted(r.before), \(after))
                    FROM temp.tidemark_staged AS s
                        CROSS JOIN temp.tidemark_reduced AS r ON r.tbl = s.tbl AND r.key = s.key
                        \(join)
                    WHERE \(segment.contains("s.ord")) AND (?2 IS NULL OR s.tbl = ?2) GROUP BY s.ord
                    """
            ),
            arguments: [segment.number, table?.name]
        )
        return rows.reduce(into: [:]) { $0[$1[0]] = Fingerprint(hex: $1[1]) }
    }

    /// What the changes in `temp.tidemark_reduced` did to the fingerprint, by the rows in its
    /// column `after`, where the tables themselves are in another database.
    package func reducedImages() throws -> Fingerprint {
        let hex = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT tidemark_fingerprint(tbl, key, tidemark_sorted(before), tidemark_sorted(after))
                    FROM temp.tidemark_reduced
                    """
            )
        )
        return hex.flatMap(Fingerprint.init(hex:)) ?? .none
    }

    /// What records waiting to be sent differ by from the rows that the server confirmed.
    package func pending() throws -> Fingerprint {
        let names = try String.fetchSet(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM tidemark_base"))
        return try schema.tables.filter { names.contains($0.name) }.map { table in
            try difference(table, from: "tidemark_base", was: "image")
        }.reduce(.none, +)
    }

    /// What the records in `temp.tidemark_confirmed` have become since they were last confirmed: by
    /// the list where something waits, else by the rows.
    package func confirmed() throws -> Fingerprint {
        let names = try String.fetchSet(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_confirmed"))
        return try schema.tables.filter { names.contains($0.name) }.map { table in
            try difference(
                table,
                from: "temp.tidemark_confirmed",
                was: "was",
                became: "WHEN r.waits THEN tidemark_sorted(r.became)"
            )
        }.reduce(.none, +)
    }

    /// The rows under the keys of a list as they are now, less what the list says that they were.
    private func difference(_ table: SyncedTable, from list: String, was column: String, became other: String = "")
        throws -> Fingerprint
    {
        try sum(
            table,
            key: "r.key",
            before: "tidemark_sorted(r.\(column))",
            after: "CASE \(other) \(isThere(table)) END",
            from: """
                \(list) AS r LEFT JOIN main.\(SQLText.name(table.name)) AS t
                ON \(KeySQL.match(table, key: "r.key", alias: "t.")) WHERE r.tbl = ?
                """,
            arguments: [table.name]
        )
    }

    /// A case of the row `t`, as it is now if it is there.
    private func isThere(_ table: SyncedTable) -> String {
        """
        WHEN t.\(SQLText.name(table.key[0])) IS NOT NULL
            THEN \(RowJSON.image(table, prefix: "t."))
        """
    }

    private func sum(
        _ table: SyncedTable,
        key: String,
        before: String = "NULL",
        after: String,
        from source: String,
        arguments: StatementArguments = []
    ) throws -> Fingerprint {
        let hex = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT tidemark_fingerprint(\(SQLText.literal(table.name)), \(key), \(before), \(after))
                    FROM \(source)
                    """
            ),
            arguments: arguments
        )
        return hex.flatMap(Fingerprint.init(hex:)) ?? .none
    }
}
