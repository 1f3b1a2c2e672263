import GRDB
import TidemarkCore
package import TidemarkEngine
package import TidemarkSQL

/// The short answer to a change set that was committed as sent: only the new ids.
///
/// Most change sets are of this kind. If a default, a cascade, a trigger or a policy changed a row,
/// the author receives the whole change set.
extension StagedRequest {
    /// Renders the last logged change set with only the new ids of its temporary ones.
    package func renderIds(_ envelope: AnswerEnvelope, ord: Int) throws -> String {
        let names = try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT tbl
                    FROM temp.tidemark_staged
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

    /// Whether the records in `temp.tidemark_reduced` equal the staged ones.
    ///
    /// It compares texts, which devices and the server format alike. A client that formats JSON
    /// differently receives the whole change set.
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

    /// Returns the change sets with a record that is not in `temp.tidemark_reduced` as sent.
    package func changedSets(_ sets: StagedSets) throws -> Set<Int> {
        try touchedTables(sets).reduce(into: []) { changed, table in
            changed.formUnion(
                try Int.fetchSet(
                    db.cachedStatement(
                        sql: """
                            SELECT staged.ord
                            FROM temp.tidemark_staged AS staged
                            LEFT JOIN temp.tidemark_reduced AS reduced
                                ON reduced.tbl = staged.tbl AND reduced.key = staged.key
                            WHERE \(sets.contains("staged.ord")) AND staged.tbl = ?2
                                AND (reduced.operation IS NOT staged.operation
                                    OR coalesce(reduced.attributes, '{}')
                                        <> coalesce(\(stagedAttributesSQL(table)), '{}')
                                    \(orIsRespelledSQL(table)))
                            """
                    ),
                    arguments: [sets.number, table.name]
                )
            )
        }
    }

    /// A further condition for text keys: the database spells the author's key in another way.
    private func orIsRespelledSQL(_ table: SyncedTable) -> String {
        guard table.keyKind != .integer else { return "" }
        return """
            OR staged.old_key IS NOT NULL AND EXISTS (
                SELECT 1
                FROM json_tree(staged.key) AS new_part
                JOIN json_tree(staged.old_key) AS old_part USING (fullkey)
                WHERE new_part.type = 'text' AND new_part.atom IS NOT old_part.atom)
            """
    }

    /// The attributes of a record of `staged` as sent, but with permanent ids in its references.
    private func stagedAttributesSQL(_ table: SyncedTable) -> String {
        let attributes = "json_remove(staged.attributes, '$.revision', '$.__oldId__')"
        let columns = Set(schema.integerReferences(of: table).map(\.column)).subtracting(table.key)
            .sorted()
        guard !columns.isEmpty else { return attributes }
        let pairs = columns.map { column in
            let cell = """
                (SELECT value
                FROM temp.tidemark_staged_cell AS cell
                WHERE cell.rec = staged.rec
                    AND cell.col = \(SQLText.literal(column)) AND typeof(cell.value) = 'integer')
                """
            let path = SQLText.literal(MemberSQL.path(column))
            // `json_replace` ignores a path that the object does not have.
            return "iif(\(cell) IS NULL, '$.\"\"', \(path)), \(cell)"
        }
        return "json_replace(\(attributes), \(pairs.joined(separator: ", ")))"
    }
}

extension ChangeSetJSON.Source {
    /// The temporary and permanent ids of a staged change set's records.
    fileprivate init(idsOf table: SyncedTable, ord: Int) {
        self.init(
            table: table,
            sql: """
                SELECT key, operation, '"__oldId__":' || old_key AS members
                FROM temp.tidemark_staged
                WHERE ord = ?2 AND tbl = ?1 AND operation <> 'delete' AND old_key IS NOT NULL
                """,
            arguments: [table.name, ord]
        )
    }
}
