import GRDB
import TidemarkCore
import TidemarkSQL

/// Copies rows of an SQLite database into new tables of the zone `main`, in batches.
struct ImportRows {
    let pg: PostgresConnection
    let db: Database
    let tables: [PostgresTable]

    private static let batchSize = 5_000

    func run() throws {
        guard !tables.isEmpty else { return }
        try pg.execute("SET CONSTRAINTS ALL DEFERRED")
        for table in tables {
            try copy(table)
            if table.table.keyKind == .integer { try moveSequence(of: table) }
        }
        try pg.execute("SET CONSTRAINTS ALL IMMEDIATE")
    }

    private func copy(_ table: PostgresTable) throws {
        let synced = table.table
        let layout = SyncSchema(tables: [synced]).layouts[0]
        var batch = SentRows(table)
        try RowValues.read(
            """
            SELECT \(SQLText.names(synced.columns.map(\.name)))
            FROM main.\(SQLText.name(synced.name))
            ORDER BY \(SQLText.names(synced.key))
            """,
            in: db
        ) { row in
            let key = layout.key(of: row)
            try batch.begin(key: key)
            for place in layout.valuePlaces {
                switch PostgresText.convert(row[place], table.kinds[place]) {
                case .success(let text): batch.setValue(place, text)
                case .failure(let misfit):
                    let column = synced.columns[place].name
                    throw PostgresText.refusal(misfit.reason, .init(table: synced.name, key: key, column: column))
                }
            }
            if batch.count == Self.batchSize { try send(&batch) }
        }
        try send(&batch)
    }

    private func send(_ batch: inout SentRows) throws {
        guard batch.count > 0 else { return }
        let table = batch.table
        let columns = batch.columns.map { (place: $0, name: table.table.columns[$0].name) }
        let keys = table.table.key.enumerated().map { "sent.k\($0)::\(table.type($1))" }
        let values = columns.map { "sent.c\($0.place)::\(table.type($0.name))" }
        try pg.query(
            """
            INSERT INTO \(table.name) (\(SQLText.names(table.table.key + columns.map(\.name)))) OVERRIDING SYSTEM VALUE
            SELECT \((keys + values).joined(separator: ", "))
            FROM \(batch.derivedTable(first: 1))
            """,
            batch.parameters())
        batch = SentRows(table)
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
            [table.name, key])
    }
}
