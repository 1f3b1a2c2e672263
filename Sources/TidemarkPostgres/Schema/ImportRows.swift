import GRDB
import TidemarkCore
import TidemarkSQL

/// Copies rows of an SQLite database into new tables of the zone `main`, in batches as JSON.
struct ImportRows {
    let pg: PostgresConnection
    let db: Database
    let tables: [PostgresTable]

    /// The number of rows in a batch.
    private static let batchSize = 5_000

    func run() throws {
        guard !tables.isEmpty else { return }
        let schema = SyncSchema(tables: tables.map(\.table))
        try EngineConnection.prepare(db, schema: schema)
        try PostgresText.prepare(db, PostgresSchema(schema, tables))
        try pg.execute("SET CONSTRAINTS ALL DEFERRED")
        for table in tables {
            try copy(table)
            if table.table.keyKind == .integer { try moveSequence(of: table) }
        }
        try pg.execute("SET CONSTRAINTS ALL IMMEDIATE")
    }

    private func copy(_ table: PostgresTable) throws {
        let columns = table.table.columns.map(\.name)
        let members = columns.map {
            "\(SQLText.literal($0)), \(PostgresText.strictText(SQLText.name($0), kind($0, table)))"
        }
        let order = SQLText.names(table.table.key)
        let values = columns.map { "(sent.v ->> \(SQLText.literal($0)))::\(table.type($0))" }
        var count = 0
        while true {
            let batch = try fetch(
                """
                SELECT count(*) AS rows, json_group_array(json_object(\(members.joined(separator: ", ")))) AS list
                FROM (
                    SELECT *
                    FROM main.\(SQLText.name(table.table.name))
                    ORDER BY \(order)
                    LIMIT \(Self.batchSize) OFFSET \(count)
                )
                """,
                table
            )
            guard let batch, batch["rows"] as Int > 0 else { return }
            count += batch["rows"] as Int
            try pg.query(
                """
                INSERT INTO \(table.name) (\(SQLText.names(columns))) OVERRIDING SYSTEM VALUE
                SELECT \(values.joined(separator: ", "))
                FROM jsonb_array_elements($1::jsonb) AS sent (v)
                """,
                [batch["list"]]
            )
        }
    }

    /// Moves the sequence past the ids of the copied rows.
    private func moveSequence(of table: PostgresTable) throws {
        let key = table.table.key[0]
        try pg.query(
            """
            SELECT setval(pg_get_serial_sequence($1, $2), max(\(SQLText.name(key))))
            FROM \(table.name)
            HAVING max(\(SQLText.name(key))) > 0
            """,
            [table.name, key]
        )
    }

    private func kind(_ column: String, _ table: PostgresTable) -> String {
        SQLText.literal(table.kind(column).rawValue)
    }

    /// Fetches a batch of rows.
    ///
    /// The statement fails on a value that its column cannot hold, but does not name it. A second query
    /// then finds the value.
    private func fetch(_ sql: String, _ table: PostgresTable) throws -> Row? {
        do { return try Row.fetchOne(db, sql: sql) } catch let error as DatabaseError
            where error.resultCode == .SQLITE_ERROR
        {
            for column in table.table.columns.map(\.name) { try refuseMisfit(column, table) }
            throw error
        }
    }

    private func refuseMisfit(_ column: String, _ table: PostgresTable) throws {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT key, reason FROM (
                    SELECT \(RowJSON.key(table.table)) AS key,
                        \(PostgresText.reason(against: SQLText.name(column), kind(column, table))) AS reason
                    FROM main.\(SQLText.name(table.table.name)))
                WHERE reason IS NOT NULL LIMIT 1
                """
        )
        guard let row else { return }
        throw PostgresText.refusal(row["reason"], .init(table: table.table.name, key: row["key"], column: column))
    }
}
