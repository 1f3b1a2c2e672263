import GRDB
import TidemarkCore
import TidemarkSQL

/// Makes an insert under a temporary id that a record had before an update of that record.
///
/// An object in memory keeps its temporary id after a sync. An object-relational mapper saves it by an
/// `UPDATE`, which finds no row, and an `INSERT` under the old id. The file's map of ids names the record.
/// So the record takes the values of the new row, references to the new row lead to the record, and the new
/// row goes. The triggers capture these statements like an app's.
///
/// Only ids of the reserved region, which a program does not make up: ``ReplaceReusedIDs`` has the others.
///
/// After such an insert SQLite draws the next id for a row without one, and another record may have had that.
/// So the id counts only if the statement named it, as `tidemark_named` notes. A drawn one is a new record's. From then
/// on the id stands for two records, and the engine folds no insert under it.
struct FoldReinserts {
    let db: Database
    let schema: SyncSchema

    /// Folds the captured inserts of some tables; returns whether there were any.
    func run(_ tables: [SyncedTable]) throws -> Bool {
        var hasAny = false
        for table in tables where table.keyKind == .integer && !table.hasRowidKey {
            try noteDrawnIDs(table)
            let isFound = try find(table)
            try db.execute(cached: "DELETE FROM tidemark_named WHERE tbl = ? AND drawn = 0", arguments: [table.name])
            guard isFound else { continue }
            hasAny = true
            try ConnectionFlag.withNewStatements(db) {
                try ConnectionFlag.deferForeignKeys.set(true, in: db)
                for child in schema.tables + schema.difference.unservedTables {
                    try moveReferences(of: child, to: table)
                }
                try moveValues(table)
            }
        }
        return hasAny
    }

    /// Notes the former temporary ids that SQLite has drawn for new rows.
    private func noteDrawnIDs(_ table: SyncedTable) throws {
        let newID = "captured.\(SQLText.name("new_" + table.key[0]))"
        try db.execute(
            cached: """
                INSERT OR IGNORE INTO tidemark_named (tbl, id, drawn)
                SELECT mapping.tbl, mapping.temporary, 1
                FROM \(SQLText.name(CaptureTables.shadow(table))) AS captured
                CROSS JOIN tidemark_idmap AS mapping ON mapping.tbl = ? AND mapping.temporary = \(newID)
                WHERE captured.kind = 'insert' AND \(newID) >= \(TemporaryID.reservedMin)
                """, arguments: [table.name])
    }

    /// Lists the new rows in `temp.tidemark_assigned`, each with the record.
    private func find(_ table: SyncedTable) throws -> Bool {
        let key = SQLText.name(table.key[0])
        let name = SQLText.name(table.name)
        let newID = "captured.\(SQLText.name("new_" + table.key[0]))"
        try db.execute(cached: "DELETE FROM temp.tidemark_assigned")
        try db.execute(
            cached: """
                INSERT INTO temp.tidemark_assigned
                SELECT DISTINCT mapping.tbl, mapping.temporary, mapping.permanent
                FROM \(SQLText.name(CaptureTables.shadow(table))) AS captured
                CROSS JOIN tidemark_idmap AS mapping ON mapping.tbl = ? AND mapping.temporary = \(newID)
                CROSS JOIN main.\(name) AS new_row ON new_row.\(key) = mapping.temporary
                CROSS JOIN main.\(name) AS record ON record.\(key) = mapping.permanent
                CROSS JOIN tidemark_named AS named
                    ON named.tbl = mapping.tbl AND named.id = mapping.temporary AND named.drawn = 0
                WHERE captured.kind = 'insert' AND \(newID) >= \(TemporaryID.reservedMin)
                """, arguments: [table.name])
        return db.changesCount > 0
    }

    private func moveReferences(of child: SyncedTable, to parent: SyncedTable) throws {
        let columns =
            schema.byName[child.name] == nil
            ? child.references.filter { $0.parent == parent.name && $0.columns.count == 1 }.map(\.columns[0])
            : schema.integerReferences(of: child).filter { $0.parent == parent.name }.map(\.column)
        for column in Set(columns).sorted().map(SQLText.name) {
            try db.execute(
                sql: """
                    UPDATE main.\(SQLText.name(child.name)) SET \(column) = assigned.permanent
                    FROM temp.tidemark_assigned AS assigned
                    WHERE assigned.temporary = main.\(SQLText.name(child.name)).\(column)
                    """)
        }
    }

    /// Writes the new rows' values to the records; the new rows go first, as a unique value cannot be in both.
    private func moveValues(_ table: SyncedTable) throws {
        let key = SQLText.name(table.key[0])
        let name = SQLText.name(table.name)
        let own = schema.difference.unservedColumns[table.name] ?? []
        let columns = (table.valueColumns + own).map { SQLText.name($0.name) }
        guard !columns.isEmpty else {
            try db.execute(
                sql: "DELETE FROM main.\(name) WHERE \(key) IN (SELECT temporary FROM temp.tidemark_assigned)")
            return
        }
        let values = columns.indices.map { "value\($0)" }
        let pairs = zip(columns, values).map { "\($0) = saved.\($1)" }
        // Columns without a type keep each value as it is.
        try db.execute(
            sql: """
                CREATE TEMP TABLE tidemark_saved (permanent INTEGER PRIMARY KEY, \(values.joined(separator: ", ")));
                INSERT OR REPLACE INTO temp.tidemark_saved
                SELECT assigned.permanent, \(columns.map { "new_row.\($0)" }.joined(separator: ", "))
                FROM temp.tidemark_assigned AS assigned
                JOIN main.\(name) AS new_row ON new_row.\(key) = assigned.temporary
                ORDER BY assigned.temporary;
                DELETE FROM main.\(name) WHERE \(key) IN (SELECT temporary FROM temp.tidemark_assigned);
                UPDATE main.\(name) SET \(pairs.joined(separator: ", "))
                FROM temp.tidemark_saved AS saved
                WHERE main.\(name).\(key) = saved.permanent;
                DROP TABLE temp.tidemark_saved;
                """)
    }
}
