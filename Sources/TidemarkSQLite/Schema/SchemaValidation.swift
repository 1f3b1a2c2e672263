public import TidemarkCore

extension SchemaIntrospection {
    /// The schema, when every table of it can be synced.
    ///
    /// - Throws: ``TidemarkCore/UnsyncableSchema`` with all problems at once, each with its cure.
    public func validated(
        policies: [String: ConflictPolicy] = [:], limits: Limits = .standard
    ) throws -> SyncSchema {
        let names = Set(tables.map(\.name))
        let problems = tables.flatMap { table in
            keyProblems(table) + nameProblems(table, limits) + sizeProblems(table, limits)
                + referenceProblems(table, among: names)
        }
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
        return SyncSchema(tables: tables, policies: policies)
    }

    private func keyProblems(_ table: SyncedTable) -> [SchemaProblem] {
        guard table.key.isEmpty else { return [] }
        let columns = SQLText.names(table.columns.map(\.name))
        return [
            SchemaProblem(
                table: table.name, reason: "has no primary key, so its rows cannot be told apart",
                cure: """
                    BEGIN;
                    ALTER TABLE \(SQLText.name(table.name)) RENAME TO \(SQLText.name(table.name + "_old"));
                    \(keyedSQL(table))
                    INSERT INTO \(SQLText.name(table.name)) (\(columns)) SELECT \(columns) FROM \
                    \(SQLText.name(table.name + "_old"));
                    DROP TABLE \(SQLText.name(table.name + "_old"));
                    COMMIT;
                    """)
        ]
    }

    /// The table's statement with a new integer key as its first column.
    private func keyedSQL(_ table: SyncedTable) -> String {
        let taken = Set(table.columns.map { $0.name.lowercased() })
        let key = ["id", "row_id", "tidemark_id"].first { !taken.contains($0) } ?? "record_id"
        guard let open = table.sql.firstIndex(of: "(") else { return table.sql + ";" }
        let rest = table.sql[table.sql.index(after: open)...]
        return "CREATE TABLE \(SQLText.name(table.name)) "
            + "(\(key) INTEGER PRIMARY KEY AUTOINCREMENT, \(rest);"
    }

    private func nameProblems(_ table: SyncedTable, _ limits: Limits) -> [SchemaProblem] {
        var problems: [SchemaProblem] = []
        if WireName.changeSetMembers.contains(table.name) || !isPlain(table.name, limits) {
            problems.append(
                SchemaProblem(
                    table: table.name, reason: "has a name that the protocol cannot carry",
                    cure: """
                        ALTER TABLE \(SQLText.name(table.name)) RENAME TO \
                        \(SQLText.name(table.name.filter { $0.isLetter || $0.isNumber } + "_records"));
                        """))
        }
        for column in table.columns
        where WireName.recordMembers.contains(column.name) || !isPlain(column.name, limits) {
            problems.append(
                SchemaProblem(
                    table: table.name, column: column.name,
                    reason: "has a name that the protocol keeps for itself or cannot carry",
                    cure: """
                        ALTER TABLE \(SQLText.name(table.name)) RENAME COLUMN \
                        \(SQLText.name(column.name)) TO \
                        \(SQLText.name(column.name.filter { $0.isLetter || $0.isNumber } + "_value"));
                        """))
        }
        return problems
    }

    private func isPlain(_ name: String, _ limits: Limits) -> Bool {
        name.utf8.count <= limits.nameBytesMax
            && name.utf8.allSatisfy { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != 0x5C }
    }

    private func sizeProblems(_ table: SyncedTable, _ limits: Limits) -> [SchemaProblem] {
        guard table.columns.count > limits.columnsPerTableMax else { return [] }
        return [
            SchemaProblem(
                table: table.name,
                reason: "has \(table.columns.count) columns; at most \(limits.columnsPerTableMax) sync",
                cure: "-- move some columns to a second table with the same primary key")
        ]
    }

    private func referenceProblems(
        _ table: SyncedTable, among names: Set<String>
    ) -> [SchemaProblem] {
        table.references.compactMap { reference in
            let parent = tables.first { $0.name == reference.parent }
            let targets = parent.map { [Set($0.key)] + $0.uniques.map(Set.init) } ?? []
            let isMatched = targets.contains(Set(reference.parentColumns))
            guard !isMatched else { return nil }
            guard names.contains(reference.parent) else {
                return SchemaProblem(
                    table: table.name, column: reference.columns.first,
                    reason: "refers to \(reference.parent), which is not a synced table",
                    cure: "-- create \(reference.parent), sync it too, or exclude \(table.name) with --exclude"
                )
            }
            return SchemaProblem(
                table: table.name, column: reference.columns.first,
                reason: "refers to columns of \(reference.parent) that are not its key and not unique",
                cure: """
                    CREATE UNIQUE INDEX \(SQLText.name("\(reference.parent)_reference")) ON \
                    \(SQLText.name(reference.parent)) (\(SQLText.names(reference.parentColumns)));
                    """)
        }
    }
}
