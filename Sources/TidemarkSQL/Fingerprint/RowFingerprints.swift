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

    package func records(of changeSet: PendingChangeSet) throws -> Fingerprint {
        let keys = Dictionary(grouping: changeSet.records.lazy.filter { $0.table < schema.tables.count }, by: \.table)
        return try schema.tables.enumerated().map { place, table in
            guard let records = keys[place] else { return .none }
            return try sum(
                table, key: "listed.value", after: RowJSON.image(table, prefix: "table_row."),
                from: """
                    json_each(?) AS listed
                    CROSS JOIN main.\(SQLText.name(table.name)) AS table_row
                        ON \(KeySQL.match(table, key: "listed.value", alias: "table_row."))
                    """,
                arguments: [JSONText.array(records.map { JSONText.quote($0.key) })])
        }.reduce(.none, +)
    }

    /// Computes the difference between the current rows of unsent records and the confirmed rows.
    package func outboxDifference() throws -> Fingerprint {
        try differences(oldImage: "image", from: "tidemark_base")
    }

    /// Computes by how much acknowledged change sets changed the confirmed rows; `seqs` are their numbers, as JSON.
    ///
    /// A record with a later pending change is as it was before that; another one is as its row is.
    package func difference(of seqs: String) throws -> Fingerprint {
        try differences(
            oldImage: "was", newImageCase: "WHEN listed.waits THEN tidemark_sorted(listed.became)",
            from: """
                (
                    SELECT sent.tbl, sent.key, base.image AS was, later.seq IS NOT NULL AS waits, later.before AS became
                    FROM (
                        SELECT DISTINCT tbl, key, (
                            SELECT min(pending.seq) FROM tidemark_outbox AS pending
                            WHERE pending.tbl = entry.tbl AND pending.key = entry.key
                                AND pending.seq NOT IN (SELECT value FROM json_each(?1))) AS next
                        FROM tidemark_outbox AS entry WHERE seq IN (SELECT value FROM json_each(?1))
                    ) AS sent
                    LEFT JOIN tidemark_base AS base ON base.tbl = sent.tbl AND base.key = sent.key
                    LEFT JOIN tidemark_outbox AS later
                        ON later.seq = sent.next AND later.tbl = sent.tbl AND later.key = sent.key
                )
                """,
            arguments: [seqs])
    }

    private func differences(
        oldImage: String, newImageCase: String = "", from list: String, arguments: StatementArguments = []
    ) throws -> Fingerprint {
        let names = try String.fetchSet(
            db.cachedStatement(sql: "SELECT DISTINCT tbl FROM \(list)"), arguments: arguments)
        return try schema.tables.filter { names.contains($0.name) }.map { table in
            try difference(table, list: list, oldImage: oldImage, newImageCase: newImageCase, arguments: arguments)
        }.reduce(.none, +)
    }

    /// Computes the fingerprint of the current rows of a list minus the list's old rows.
    private func difference(
        _ table: SyncedTable, list: String, oldImage column: String, newImageCase: String, arguments: StatementArguments
    ) throws -> Fingerprint {
        try sum(
            table,
            key: "listed.key",
            before: "tidemark_sorted(listed.\(column))",
            after: "CASE \(newImageCase) \(currentImageCase(table)) END",
            from: """
                \(list) AS listed
                LEFT JOIN main.\(SQLText.name(table.name)) AS table_row
                    ON \(KeySQL.match(table, key: "listed.key", alias: "table_row."))
                WHERE listed.tbl = \(SQLText.literal(table.name))
                """,
            arguments: arguments)
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
