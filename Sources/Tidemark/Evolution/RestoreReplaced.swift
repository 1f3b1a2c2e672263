import GRDB
import TidemarkCore
import TidemarkSQL

/// The edits in ``ReplacedRows`` during the comparison.
extension CompareRebuilt {
    /// Marks replaced rows with an edit of a value that others wrote since, or that are deleted; no additions.
    func markContended(_ table: SyncedTable) throws {
        let edits = shared(table).map { own, wire in "\(isEdit(own, wire)) AND NOT \(isSum(own, in: table))" }
        try db.execute(
            sql: """
                UPDATE tidemark_replaced AS replaced SET contended = 1
                WHERE replaced.tbl = ?1 AND (
                    replaced.mine IS NULL OR EXISTS (
                        SELECT 1
                        FROM \(Self.zoneRows)
                        CROSS JOIN main.\(SQLText.name(table.name)) AS t
                            ON \(KeySQL.match(table, key: "replaced.key", alias: "t."))
                        WHERE zone_row.own = replaced.key AND (\((["false"] + edits).joined(separator: " OR ")))))
                """, arguments: [table.name])
    }

    /// Puts known edits back into rows that an answer replaced, and adds again what the migration added to a number.
    func restoreReplaced(_ table: SyncedTable, contended: Bool) throws {
        let targets = shared(table).map { own, wire in
            let path = SQLText.literal(MemberSQL.path(own))
            let row = "t.\(SQLText.name(own))"
            let value = """
                CASE WHEN \(isSum(own, in: table)) THEN \(sum(own)) ELSE tidemark_decode(replaced.mine -> \(path)) END
                """
            return "\(SQLText.name(own)) = CASE WHEN \(isEdit(own, wire)) THEN \(value) ELSE \(row) END"
        }
        guard !targets.isEmpty else { return }
        try db.execute(
            sql: """
                UPDATE \(table.abortClause) main.\(SQLText.name(table.name)) AS t
                SET \(targets.joined(separator: ", "))
                FROM tidemark_replaced AS replaced
                JOIN \(Self.zoneRows) ON zone_row.own = replaced.key
                WHERE replaced.tbl = ?1 AND replaced.contended = ?2
                    AND replaced.mine IS NOT NULL AND replaced.base IS NOT NULL
                    AND \(KeySQL.match(table, key: "replaced.key", alias: "t."))
                """, arguments: [table.name, contended])
    }

    /// Returns the condition that a replaced value was an edit; a value that the row has got since stands.
    private func isEdit(_ own: String, _ wire: String) -> String {
        let path = SQLText.literal(MemberSQL.path(own))
        let differs = "(replaced.mine -> \(path)) IS NOT (replaced.base -> \(path))"
        return """
            (replaced.base -> \(path)) IS NOT NULL AND \(planted(PlantedBug.takesRebuiltRowsForEdits) ? "true" : differs)
            AND tidemark_key(t.\(SQLText.name(own))) IS tidemark_key(\(zoneValue(wire)))
            """
    }

    /// Returns the condition that a replaced value is an addition to a number.
    private func isSum(_ own: String, in table: SyncedTable) -> String {
        guard schema.addingColumns(of: table.name).contains(own) else { return "false" }
        let path = SQLText.literal(MemberSQL.path(own))
        return """
            (json_type(replaced.mine, \(path)) = 'integer' AND json_type(replaced.base, \(path)) = 'integer'
            AND typeof(t.\(SQLText.name(own))) = 'integer' AND typeof(\(sum(own))) = 'integer')
            """
    }

    private func sum(_ own: String) -> String {
        let path = SQLText.literal(MemberSQL.path(own))
        return "t.\(SQLText.name(own)) + ((replaced.mine ->> \(path)) - (replaced.base ->> \(path)))"
    }

    func hasContended(_ table: SyncedTable) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_replaced WHERE tbl = ? AND contended)",
            arguments: [table.name]) ?? false
    }

    func isContended(_ table: SyncedTable, key: String, _ isWanted: Bool) -> String {
        """
        \(isWanted ? "" : "NOT ")EXISTS (
            SELECT 1 FROM tidemark_replaced AS replaced
            WHERE replaced.tbl = \(SQLText.literal(table.name)) AND replaced.key = \(key) AND replaced.contended)
        """
    }

    /// Bases the captured edits on the revision that their rows had.
    func dateContended(_ table: SyncedTable) throws {
        try db.execute(
            sql: """
                UPDATE tidemark_capture AS capture SET base = replaced.since
                FROM \(SQLText.name(CaptureTables.shadow(table))) AS captured
                JOIN tidemark_replaced AS replaced
                    ON replaced.tbl = ?1 AND replaced.key = \(RowJSON.key(table, prefix: "old_", alias: "captured."))
                WHERE capture.seq = captured.seq AND capture.tbl = ?1
                """, arguments: [table.name])
    }
}
