import GRDB
import TidemarkCore
import TidemarkServer
package import TidemarkSQLite

/// The short answer to a change set: what its author wrote is what the rows have become, so only
/// the ids are news.
///
/// Most change sets are of this kind. Whatever a default, a cascade, a trigger or a policy has
/// changed is not, and comes back whole.
extension StagedRequest {
    /// A change set of the request that was just logged, with the ids of the records that it named
    /// by temporary ones, and nothing else.
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
            schema.tables.filter { names.contains($0.name) }.map { ChangeSetJSON.Source(idsOf: $0, ord: ord) },
            in: db
        )
    }

    /// Whether the rows in `temp.tidemark_reduced` are exactly those that were sent.
    ///
    /// Both are text that a device and the server write alike; whoever writes otherwise, by hand
    /// for instance, gets everything back.
    func isAsSent(_ ord: Int) throws -> Bool {
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
        return try changedSets(.one(ord)).isEmpty
    }

    /// Those of some change sets of which `temp.tidemark_reduced` has not exactly the records that
    /// they name; it may have more.
    package func changedSets(_ sets: StagedSets) throws -> Set<Int> {
        try touchedTables(sets).reduce(into: []) { changed, table in
            changed.formUnion(
                try Int.fetchSet(
                    db.cachedStatement(
                        sql: """
                            SELECT s.ord FROM temp.tidemark_staged AS s LEFT JOIN temp.tidemark_reduced AS r
                                ON r.tbl = s.tbl AND r.key = s.key
                            WHERE \(sets.contains("s.ord")) AND s.tbl = ?2 AND (r.operation IS NOT s.operation
                                OR coalesce(r.attributes, '{}') <> coalesce(\(sent(table)), '{}')\(respelled(table)))
                            """
                    ),
                    arguments: [sets.number, table.name]
                )
            )
        }
    }

    /// A condition more for a table whose keys are texts: the database spells the author's key in
    /// another way.
    private func respelled(_ table: SyncedTable) -> String {
        guard table.keyKind != .integer else { return "" }
        return """
             OR s.old_key IS NOT NULL AND EXISTS (
                SELECT 1 FROM json_tree(s.key) AS n JOIN json_tree(s.old_key) AS o USING (fullkey)
                WHERE n.type = 'text' AND n.atom IS NOT o.atom)
            """
    }

    /// The columns that a staged record `s` sets, as they were sent, but with permanent ids in its
    /// references.
    private func sent(_ table: SyncedTable) -> String {
        let sent = "json_remove(s.attributes, '$.revision', '$.__oldId__')"
        let columns = Set(Catalog.integerReferences(of: table, in: schema).map(\.column)).subtracting(table.key)
            .sorted()
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
