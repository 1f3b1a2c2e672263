package import GRDB
package import TidemarkCore

/// Triggers on the tables in which a virtual table keeps its content.
///
/// `FTS5` writes these tables when SQLite begins a savepoint. If a trigger there leads to a statement that can fail
/// half-way, as a capture trigger is, SQLite begins a savepoint for that statement, and so on until the stack of
/// the process is used up (seen with SQLite 3.40.1). Any program that writes to the full-text table then ends, and a
/// server that writes a device's change set. So a file with such a trigger neither is served nor syncs.
package enum ShadowTriggers {
    /// Returns the problems of a file: one for each such trigger, with the statement that drops it.
    package static func problems(in db: Database) throws -> [SchemaProblem] {
        try find(in: db).map { trigger, table in
            SchemaProblem(
                table: table,
                reason: """
                    has the trigger \(trigger), but a virtual table keeps its content there: with a trigger on it, \
                    SQLite can end every process that writes to the virtual table
                    """,
                cure: "DROP TRIGGER \(SQLText.name(trigger));")
        }
    }

    private static func find(in db: Database) throws -> [(trigger: String, table: String)] {
        // Most files have none. `pragma_table_list` reads all tables, so it comes last.
        let candidates = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    WITH owner AS MATERIALIZED (
                        SELECT name || '_' AS beginning FROM main.sqlite_master WHERE sql LIKE 'CREATE VIRTUAL %'
                    )
                    SELECT trigger.name, trigger.tbl_name
                    FROM main.sqlite_master AS trigger
                    WHERE trigger.type = 'trigger' AND trigger.name NOT LIKE 'tidemark~_%' ESCAPE '~'
                        AND EXISTS (
                            SELECT 1 FROM owner
                            WHERE substr(trigger.tbl_name, 1, length(beginning)) = beginning COLLATE NOCASE)
                    ORDER BY trigger.name
                    """)
        ).map { try (trigger: $0.value("name") as String, table: $0.value("tbl_name") as String) }
        guard !candidates.isEmpty else { return [] }
        let shadows = try String.fetchSet(
            db, sql: "SELECT lower(name) FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow'")
        return candidates.filter { shadows.contains($0.table.lowercased()) }
    }
}
