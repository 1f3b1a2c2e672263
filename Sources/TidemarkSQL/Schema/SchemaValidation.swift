import Foundation
package import TidemarkCore

extension SchemaIntrospection {
    /// Checks that every table of a schema can be synced.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema``.
    package static func validate(_ schema: SyncSchema) throws {
        _ = try SchemaIntrospection(tables: schema.tables).makeSchema()
    }

    /// Returns the schema of the tables if all of them can be synced.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` with all problems and their cures.
    package func makeSchema(
        policies: [String: ConflictPolicy] = [:],
        history: SchemaHistory = SchemaHistory(),
        limits: Limits = .standard
    ) throws -> SyncSchema {
        let names = Set(tables.map(\.name))
        // The cures work in this order: rebuilding a table drops its new indexes, and after a rename
        // the other cures would not find the table.
        let problems =
            tables.flatMap(keyProblems) + tables.flatMap { referenceProblems($0, among: names) }
            + tables.flatMap { columnProblems($0, limits) + sizeProblems($0, limits) }
            + tables.flatMap { nameProblems($0, limits) }
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
        return SyncSchema(tables: tables, policies: policies, history: history)
    }

    private func keyProblems(_ table: SyncedTable) -> [SchemaProblem] {
        guard table.key.isEmpty else { return [] }
        let columns = SQLText.names(table.columns.map(\.name))
        let newTable = SQLText.name(table.name + "_with_key")
        return [
            SchemaProblem(
                table: table.name,
                reason: "has no primary key, so its rows cannot be told apart",
                cure: """
                    PRAGMA foreign_keys = OFF;
                    BEGIN;
                    \(keyedSQL(table, named: newTable))
                    INSERT INTO \(newTable) (\(columns)) SELECT \(columns) FROM \(SQLText.name(table.name));
                    DROP TABLE \(SQLText.name(table.name));
                    ALTER TABLE \(newTable) RENAME TO \(SQLText.name(table.name));
                    \(table.indexSQL.map { $0 + ";\n" }.joined())COMMIT;
                    PRAGMA foreign_keys = ON;
                    """
            )
        ]
    }

    /// Returns the table's statement with a new integer key as its first column.
    private func keyedSQL(_ table: SyncedTable, named name: String) -> String {
        let columnNames = Set(table.columns.map { $0.name.lowercased() })
        let key = ["id", "row_id", "tidemark_id"].first { !columnNames.contains($0) } ?? "record_id"
        let head = table.sql.range(of: table.name)?.upperBound ?? table.sql.startIndex
        guard let open = table.sql[head...].firstIndex(of: "(") else { return table.sql + ";" }
        let rest = table.sql[table.sql.index(after: open)...]
        return "CREATE TABLE \(name) (\(key) INTEGER PRIMARY KEY AUTOINCREMENT, \(rest);"
    }

    /// Converts a name to one that the protocol can carry.
    private func plainName(_ name: String, suffix: String) -> String {
        SQLText.name(name.filter { $0.isLetter || $0.isNumber }.prefix(24) + suffix)
    }

    private func nameProblems(_ table: SyncedTable, _ limits: Limits) -> [SchemaProblem] {
        guard WireName.changeSetMembers.contains(table.name) || !isPlain(table.name, limits) else { return [] }
        return [
            SchemaProblem(
                table: table.name,
                reason: "has a name that the protocol cannot carry",
                cure: """
                    ALTER TABLE \(SQLText.name(table.name)) RENAME TO \
                    \(plainName(table.name, suffix: "_records"));
                    """
            )
        ]
    }

    private func columnProblems(_ table: SyncedTable, _ limits: Limits) -> [SchemaProblem] {
        table.columns.filter { WireName.recordMembers.contains($0.name) || !isPlain($0.name, limits) }.map { column in
            SchemaProblem(
                table: table.name,
                column: column.name,
                reason: "has a name that the protocol reserves or cannot carry",
                cure: """
                    ALTER TABLE \(SQLText.name(table.name)) RENAME COLUMN \
                    \(SQLText.name(column.name)) TO \
                    \(plainName(column.name, suffix: "_value"));
                    """
            )
        }
    }

    private func isPlain(_ name: String, _ limits: Limits) -> Bool {
        name.utf8.count <= limits.nameBytesMax
            && name.utf8.allSatisfy { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    }

    private func sizeProblems(_ table: SyncedTable, _ limits: Limits) -> [SchemaProblem] {
        guard table.columns.count > limits.columnsPerTableMax else { return [] }
        return [
            SchemaProblem(
                table: table.name,
                reason: "has \(table.columns.count) columns; at most \(limits.columnsPerTableMax) sync",
                cure: "-- move some columns to a second table with the same primary key"
            )
        ]
    }

    private func referenceProblems(_ table: SyncedTable, among names: Set<String>) -> [SchemaProblem] {
        table.references.compactMap { reference in
            let parent = tables.first { $0.name == reference.parent }
            let targets = parent.map { [Set($0.key)] + $0.uniques.map(Set.init) } ?? []
            let isMatched = targets.contains(Set(reference.parentColumns))
            guard !isMatched else { return nil }
            guard names.contains(reference.parent) else {
                return SchemaProblem(
                    table: table.name,
                    column: reference.columns.first,
                    reason: "refers to \(reference.parent), which is not a synced table",
                    cure: "-- create \(reference.parent), sync it too, or exclude \(table.name) with --exclude"
                )
            }
            return SchemaProblem(
                table: table.name,
                column: reference.columns.first,
                reason: "refers to columns of \(reference.parent) that are not its key and not unique",
                cure: """
                    CREATE UNIQUE INDEX IF NOT EXISTS \
                    \(SQLText.name(([reference.parent] + reference.parentColumns).joined(separator: "_"))) ON \
                    \(SQLText.name(reference.parent)) (\(SQLText.names(reference.parentColumns)));
                    """
            )
        }
    }
}
