import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// The short answer to a change set: what its author wrote is what the rows have become, so only
/// the ids are news.
///
/// Most change sets are of this kind. Whatever a default, a cascade, a trigger or a policy has
/// changed is not, and comes back whole.
extension StagedRequest {
    /// A change set of the request that was just logged, with the ids of the records that it named
    /// by temporary ones, and nothing else.
    ///
    /// The staged records are those of the request or of ``sentRecords(_:)``.
    package func renderIds(_ envelope: AnswerEnvelope, ord: Int) throws -> String {
        let names = try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT tbl FROM temp.tidemark_staged
                    WHERE ord = ? AND operation <> 'delete' AND old_key IS NOT NULL
                    """
            ),
            arguments: [ord]
        )
        return try ChangeSetJSON.render(
            envelope: envelope.members,
            schema.tables.filter { names.contains($0.name) }.map {
                ChangeSetJSON.Source(idsOf: $0, ord: ord)
            },
            in: db
        )
    }

    /// The records of a staged change set, to be staged again when it is known what became of them.
    ///
    /// - Returns: A JSON array of arrays: table, operation, key, temporary key, and the columns
    ///   under their permanent ids.
    package func sentRecords(_ ord: Int) throws -> String {
        let parts = try tables(ord).compactMap { table in
            try String.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT group_concat(json_array(tbl, operation, key, old_key, \(sent(table))))
                        FROM temp.tidemark_staged AS s WHERE ord = ? AND tbl = ?
                        """
                ),
                arguments: [ord, table.name]
            )
        }
        return "[\(parts.joined(separator: ","))]"
    }

    /// Whether the rows in `temp.tidemark_reduced` are exactly those that were sent, be it that
    /// `isNamed` says that the staged ones are those of ``sentRecords(_:)``.
    ///
    /// Both are text that a device and the server write alike; whoever writes otherwise, by hand
    /// for instance, gets everything back.
    package func isAsSent(_ ord: Int, isNamed: Bool = false) throws -> Bool {
        let counts = try Bool.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT (SELECT count(*) FROM temp.tidemark_reduced)
                        = (SELECT count(*) FROM temp.tidemark_staged WHERE ord = ?)
                    """
            ),
            arguments: [ord]
        )
        guard counts == true else { return false }
        return try tables(ord).allSatisfy { table in
            try Bool.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT NOT EXISTS (
                            SELECT 1 FROM temp.tidemark_staged AS s LEFT JOIN temp.tidemark_reduced AS r
                                ON r.tbl = s.tbl AND r.key = s.key
                            WHERE s.ord = ?1 AND s.tbl = ?2 AND (r.operation IS NOT s.operation
                                OR coalesce(r.attributes, '{}')
                                    <> coalesce(\(isNamed ? "s.attributes" : sent(table)), '{}')))
                        """
                ),
                arguments: [ord, table.name]
            ) ?? false
        }
    }

    private func tables(_ ord: Int) throws -> [SyncedTable] {
        let names = try String.fetchSet(
            db.cachedStatement(sql: "SELECT DISTINCT tbl FROM temp.tidemark_staged WHERE ord = ?"),
            arguments: [ord]
        )
        return schema.tables.filter { names.contains($0.name) }
    }

    /// The columns that a staged record `s` sets, as they were sent, but with permanent ids in its
    /// references.
    private func sent(_ table: SyncedTable) -> String {
        let sent = "json_remove(s.attributes, '$.revision', '$.__oldId__')"
        let columns = Set(Catalog.integerReferences(of: table, in: schema).map(\.column))
            .subtracting(table.key).sorted()
        guard !columns.isEmpty else { return sent }
        let pairs = columns.map { column in
            let cell = """
                (SELECT value FROM temp.tidemark_staged_cell AS c
                WHERE c.rec = s.rec AND c.col = \(SQLText.literal(column)) AND typeof(c.value) = 'integer')
                """
            let path = SQLText.literal("$.\"\(column)\"")
            // A path that no object has changes nothing.
            return "iif(\(cell) IS NULL, '$.\"\"', \(path)), \(cell)"
        }
        return "json_replace(\(sent), \(pairs.joined(separator: ", ")))"
    }
}

extension ChangeSetJSON.Source {
    /// The records that a staged change set named by temporary ids, with these.
    fileprivate init(idsOf table: SyncedTable, ord: Int) {
        self.init(
            table: table,
            sql: """
                SELECT key, operation, '"__oldId__":' || old_key AS members FROM temp.tidemark_staged
                WHERE ord = ?2 AND tbl = ?1 AND operation <> 'delete' AND old_key IS NOT NULL
                """,
            arguments: [table.name, ord]
        )
    }
}
