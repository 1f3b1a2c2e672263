import GRDB
import TidemarkCore
import TidemarkSQL

/// The pending changes in the tables: takes them out, so that the tables hold confirmed rows, and puts them back.
struct PendingChanges {
    let db: Database
    let schema: SyncSchema

    private var isEmpty: Bool {
        get throws {
            try Bool.fetchOne(
                db,
                cached: """
                    SELECT NOT EXISTS (SELECT 1 FROM tidemark_base)
                        AND NOT EXISTS (SELECT 1 FROM tidemark_outbox)
                    """) ?? true
        }
    }

    /// Resets every record with pending changes to its confirmed version.
    func rewind() throws {
        guard try !isEmpty, !planted(PlantedBug.appliesOnTopOfEdits) else { return }
        try WriteRecords(db: db, schema: schema).write(
            """
            SELECT tbl, key, iif(image IS NULL, 'delete', 'create') AS operation, image AS attributes
            FROM tidemark_base
            """)
    }

    /// Stores the current rows as the bases of the records that still have pending changes.
    func refreshBase() throws {
        guard try !isEmpty else { return }
        try Outbox.deleteUnusedBases(in: db)
        try db.execute(
            cached: "INSERT OR IGNORE INTO tidemark_base SELECT DISTINCT tbl, key, NULL FROM tidemark_outbox")
        for table in schema.tables {
            let object = RowJSON.object(table.valueColumns.map(\.name), prefix: "app_row.")
            try db.execute(
                cached: """
                    UPDATE tidemark_base SET image = (
                        SELECT \(object) FROM main.\(SQLText.name(table.name)) AS app_row
                        WHERE \(KeySQL.match(table, key: "tidemark_base.key", alias: "app_row.")))
                    WHERE tbl = ?
                    """, arguments: [table.name])
        }
    }

    /// Makes the pending changes again; the server's verdict makes one that does not fit a conflict.
    func replay() throws {
        guard try !isEmpty, !planted(PlantedBug.forgetsToReplay) else { return }
        let sets = try Int64.fetchAll(db, cached: "SELECT seq FROM tidemark_changeset ORDER BY seq")
        let writer = WriteRecords(db: db, schema: schema)
        let replayOne = { seq in try writer.write(Self.records, arguments: [seq]) }
        if try fits(sets, { for seq in sets { try replayOne(seq) } }) || planted(PlantedBug.hidesWhatFits) { return }
        // Together they may fit nevertheless: a later change set may give up a value that another row has by now.
        let all = "SELECT tbl, key, operation, attributes FROM tidemark_outbox ORDER BY seq"
        if try fits(sets, { try writer.writeJoined(all) }) { return }
        for seq in sets { _ = try fits([seq]) { try replayOne(seq) } }
        // The rows lack those that do not fit, which their sums would confirm.
        try db.execute(cached: "UPDATE tidemark_changeset SET difference = NULL")
    }

    private static let records = "SELECT tbl, key, operation, attributes FROM tidemark_outbox WHERE seq = ?"

    /// Runs a replay of change sets, and takes it back if they do not fit.
    private func fits(_ sets: [Int64], _ replay: () throws -> Void) throws -> Bool {
        var fits = false
        do {
            try db.inSavepoint {
                try replay()
                fits = try areReferencesWhole(in: sets)
                return fits ? .commit : .rollback
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            return false
        } catch is InvalidValue { return false }
        return fits
    }

    /// Whether the records of change sets refer to records, and no record to one that they delete.
    ///
    /// SQLite does not enforce references here.
    private func areReferencesWhole(in sets: [Int64]) throws -> Bool {
        guard let first = sets.first, let last = sets.last, schema.tables.contains(where: { !$0.references.isEmpty })
        else { return true }
        var keys: [TidemarkCore.Operation: [Int: [String]]] = [:]
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: "SELECT DISTINCT tbl, key, operation = 'delete' FROM tidemark_outbox WHERE seq BETWEEN ? AND ?"),
            arguments: [first, last])
        while let row = try rows.next() {
            guard let place = try schema.places[row.value(0)] else { continue }
            keys[try row.value(2) ? .delete : .update, default: [:]][place, default: []].append(try row.value(1))
        }
        let check = ForeignKeyCheck(db, schema: schema)
        return try check.firstBroken(written: keys[.update] ?? [:], deleted: keys[.delete] ?? [:]) == nil
    }
}

/// Writes records of the bookkeeping into the tables, a part of them in memory at a time.
struct WriteRecords {
    let db: Database
    let schema: SyncSchema
    /// How many records are in memory.
    private static let recordsMax = 1_000

    /// Writes a query's rows: `tbl`, `key`, `operation` and `attributes`, an image or a change in JSON.
    func write(_ query: String, arguments: StatementArguments = []) throws {
        try writeInParts { take in
            var builder = ChangeSetBuilder(schema)
            // Deletions first: a new key may differ from a deleted one in spelling only.
            for condition in ["operation = 'delete'", "operation <> 'delete'"] {
                let rows = try Row.fetchCursor(
                    db.cachedStatement(sql: "SELECT * FROM (\(query)) WHERE \(condition)"), arguments: arguments)
                while let row = try rows.next() {
                    try add(row, to: &builder)
                    try take(&builder)
                }
            }
            return builder
        }
    }

    /// Writes a query's rows as ``write(_:arguments:)`` does, the changes of a record as one.
    ///
    /// - Throws: `InvalidValue` if a number cannot be added.
    func writeJoined(_ query: String) throws {
        var builder = ChangeSetBuilder(schema)
        let rows = try Row.fetchCursor(db.cachedStatement(sql: query))
        while let row = try rows.next() { try add(row, to: &builder) }
        try ChangeWriter(db, schema: schema, isDevice: true).write(builder.buildJoined())
    }

    private func add(_ row: Row, to builder: inout ChangeSetBuilder) throws {
        guard let place = try schema.places[row.value("tbl")] else { return }
        let operation = try TidemarkCore.Operation(rawValue: row.value("operation")) ?? .update
        try builder.add(operation, RecordID(table: place, key: row.value("key")), json: row.value("attributes"))
    }

    /// Writes single values: a query's rows are the name of a column, a value and a key, each key's one after another.
    ///
    /// `columns` has the places of the columns; a creation may have rows without a column.
    func writeValues(
        _ operation: TidemarkCore.Operation, of table: SyncedTable, columns: [String: Int], _ query: String
    ) throws {
        guard let place = schema.places[table.name] else { return }
        try writeInParts { take in
            var builder = ChangeSetBuilder(schema)
            var record: (key: String, values: [(Int, Value)])?
            try RowValues.read(query, in: db) { values in
                guard let key = values[2].text else { throw TidemarkError.unreadable("The bookkeeping of this device") }
                if let last = record, !last.key.utf8.elementsEqual(key.utf8) {
                    builder.add(operation, RecordID(table: place, key: last.key), values: last.values)
                    try take(&builder)
                    record = nil
                }
                let column = values[0].text.flatMap { columns[$0] }
                record = (key, (record?.values ?? []) + (column.map { [($0, values[1])] } ?? []))
            }
            if let record { builder.add(operation, RecordID(table: place, key: record.key), values: record.values) }
            return builder
        }
    }

    /// Writes what `read` reads, part by part; all at once if a unique value stands in the way.
    private func writeInParts(_ read: (_ take: (inout ChangeSetBuilder) throws -> Void) throws -> ChangeSetBuilder)
        throws
    {
        let writer = ChangeWriter(db, schema: schema, isDevice: true)
        func write(_ recordsMax: Int) throws {
            try db.inSavepoint {
                let rest = try read { builder in
                    guard builder.count >= recordsMax else { return }
                    // No rollback here: it can end the query that is being read.
                    try writer.write([builder.build()], parking: false)
                    builder = ChangeSetBuilder(schema)
                }
                if rest.count > 0 { try writer.write(rest.build()) }
                return .commit
            }
        }
        do { try write(Self.recordsMax) } catch let error as DatabaseError where error.isCollision {
            try write(.max)
        }
    }
}
