import TidemarkCore

extension SyncSchema {
    /// Returns the schema with the lowest permanent ids of integer-keyed tables, by the lowest id of a table's rows.
    func with(lowestIDsOf lowestID: (SyncedTable) throws -> Int64?) rethrows -> SyncSchema {
        let tables = try tables.map { table -> SyncedTable in
            guard table.keyKind == .integer, !table.hasRowidKey,
                let lowest = TableTraits.lowestID(ofRows: try lowestID(table))
            else { return table }
            var traits = table.traits ?? TableTraits()
            traits.lowestID = lowest
            return table.with(traits: traits)
        }
        return SyncSchema(tables: tables, policies: policies, history: history, objects: objects)
    }

    /// Refuses tables whose only key is SQLite's rowid, which PostgreSQL lacks, by ``TidemarkCore/UnsyncableSchema``.
    func requireNoRowids() throws {
        let problems = tables.filter(\.hasRowidKey).map { table in
            SchemaProblem(
                table: table.name,
                reason: "has no primary key and no UNIQUE columns that are NOT NULL, and PostgreSQL has no rowid",
                cure: """
                    -- name the columns that identify a row: --key \(table.name)=COLUMN,COLUMN
                    -- or leave the table alone: --exclude \(table.name)
                    """)
        }
        guard problems.isEmpty else { throw UnsyncableSchema(problems: problems) }
    }
}
