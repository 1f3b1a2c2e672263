import GRDB
import TidemarkCore
import TidemarkSQL

/// Reads rows as values by column, for merge functions and decisions.
struct CurrentRows {
    let db: Database

    /// Removes the defaults from a new record's values, because the capture of a creation has all columns.
    func withoutDefaults(_ values: [String: DatabaseValue], of table: SyncedTable) throws -> [String: DatabaseValue] {
        if planted(PlantedBug.retriesUnsetColumns) { return values }
        var values = values
        for column in table.valueColumns {
            guard let value = values[column.name] else { continue }
            let isDefault = try Bool.fetchOne(
                db, sql: "SELECT CAST(? AS BLOB) IS CAST(\(Self.defaultSQL(column)) AS BLOB)", arguments: [value])
            if isDefault == true { values[column.name] = nil }
        }
        return values
    }

    private static func defaultSQL(_ column: SyncedTable.Column) -> String {
        guard let text = column.defaultSQL else { return "NULL" }
        // The column stores the default in its own type.
        return ["BLOB", "NUMERIC"].contains(column.affinity) ? "(\(text))" : "CAST((\(text)) AS \(column.affinity))"
    }

    /// Returns a record's current values without the key, in canonical JSON; nil if the record does not exist.
    func image(_ table: SyncedTable, key: String) throws -> RecordImage? {
        try RecordImage(stored: String.fetchOne(db, cached: RowJSON.current(table, key: "?1"), arguments: [key]))
    }

    /// Returns a record's current values without the key; nil if the record does not exist.
    func current(_ table: SyncedTable, key: String) throws -> [String: DatabaseValue]? {
        let columns = (table.valueColumns.isEmpty ? table.columns : table.valueColumns).map(\.name)
        let row = try Row.fetchOne(
            db,
            cached: """
                SELECT \(SQLText.names(columns)) FROM main.\(SQLText.name(table.name))
                WHERE \(KeySQL.match(table, key: "?1"))
                """, arguments: [key])
        guard let row else { return nil }
        return table.valueColumns.reduce(into: [:]) { $0[$1.name] = row[$1.name] as DatabaseValue }
    }
}

/// The columns that a parked change sets, and those to which it adds.
struct RecordChanges {
    var values: [String: DatabaseValue] = [:]
    var deltas: [String: Int64] = [:]
    var columns: Set<String> { Set(values.keys).union(deltas.keys) }

    /// Reads the changes of a parked record, none for nil; throws `fileDamaged` if the text is no row.
    init(json: String?) throws(TidemarkError) {
        let change = try RecordChange(stored: json, operation: Operation.update.rawValue)
        deltas = change.sums
        do throws(InvalidValue) { values = try change.values.databaseValues() } catch {
            throw TidemarkError.unreadable("A record of a conflict")
        }
    }

    /// Adds the deltas to a row; throws if it has no integer to add to, or a sum is too large.
    func values(over row: [String: DatabaseValue]) throws -> [String: DatabaseValue] {
        try deltas.reduce(into: values) { values, delta in
            guard case .int64(let current)? = row[delta.key]?.storage,
                case let (sum, overflow) = current.addingReportingOverflow(delta.value), !overflow
            else { throw RecordDecision.misfit("\(delta.key): \(Delta.failure)") }
            values[delta.key] = sum.databaseValue
        }
    }
}

/// The change that a decision makes to one record.
struct RecordDecision {
    let table: SyncedTable
    let key: String
    let operation: TidemarkCore.Operation
    var values: [String: DatabaseValue]
    /// The columns whose value is a sum with the present one.
    var sums: Set<String> = []
    /// Whether it creates a record again that the parked change set updated or deleted.
    var isRevival = false
}

extension RecordDecision {
    /// Writes decisions as one edit, which the triggers capture; throws and writes nothing if they do not fit the rows.
    ///
    /// The program's own triggers do not run, as with an answer: the change set has their effects.
    static func write(_ decisions: [RecordDecision], schema: SyncSchema, in db: Database) throws {
        try EngineConnection.prepare(db, schema: schema)
        var builder = ChangeSetBuilder(schema)
        for decision in decisions {
            guard let place = schema.places[decision.table.name] else { continue }
            let values = decision.table.columns.enumerated().compactMap { place, column in
                decision.table.key.contains(column.name)
                    ? nil : decision.values[column.name].map { (place, TidemarkCore.Value($0)) }
            }
            builder.add(decision.operation, RecordID(table: place, key: decision.key), values: values)
        }
        let changeSet = builder.build()
        do {
            try db.inSavepoint {
                // A reference may hold 0 for "none", which SQLite alone would refuse.
                try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
                try db.execute(sql: "UPDATE tidemark_state SET applying = \(TriggerGuard.suspended)")
                // SQLite enforces references here, but not while the device applies answers.
                try ConnectionFlag.withNewStatements(db) {
                    try ChangeWriter(db, schema: schema, isDevice: true).write(changeSet)
                }
                try db.execute(sql: "UPDATE tidemark_state SET applying = 0")
                try checkReferences(schema, in: db)
                return .commit
            }
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_NOTNULL {
            throw lacksValue(error.message ?? "", decisions)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw misfit(error.message ?? "a constraint failed")
        }
    }

    private static func checkReferences(_ schema: SyncSchema, in db: Database) throws {
        let check = ForeignKeyCheck(db, schema: schema)
        guard check.hasUnresolvedReferences else { return }
        let broken = try check.all(limit: 1).first
        if schema.hasZeroReferences, broken == nil { try check.forgetUnresolvedReferences() }
        guard check.hasUnresolvedReferences else { return }
        guard let broken else { throw misfit("a reference points at nothing") }
        let parent = "\(broken.parent) \(broken.parentKey)"
        throw misfit("\(broken.table) \(broken.key) refers by \(broken.column) to \(parent), which is not there")
    }

    static func misfit(_ reason: String) -> TidemarkError {
        TidemarkError(
            .constraintViolated, "The change does not fit the current rows: \(reason).",
            fix: "Edit the rows so that it fits and retry, or accept the server's version.")
    }

    /// The error for new records without a value that their table requires; SQLite's message ends with the column.
    private static func lacksValue(_ message: String, _ decisions: [RecordDecision]) -> TidemarkError {
        let name = message.split(separator: " ").last.map(String.init) ?? ""
        let lacking = decisions.filter { name.hasPrefix("\($0.table.name).") && $0.operation == .create }
        guard let first = lacking.first else { return misfit(message) }
        let column = String(name.dropFirst(first.table.name.count + 1))
        let member = JSONText.quote(column)
        let records = lacking.prefix(20).map { "\(JSONText.quote(keyName($0.key))):{\(member):0}" }
        let values = "{\(JSONText.quote(first.table.name)):{\(records.joined(separator: ","))}}"
        let whose = lacking.count == 1 ? "this record" : "each of these records"
        let resolve = "tidemark device resolve FILE NUMBER --merge"
        return TidemarkError(
            .constraintViolated, misfit(message).message,
            fix: decisions.count == 1
                ? "Give the column a value, yours in place of 0: `\(resolve) --set '\(column)=0'`."
                : "Give the column a value in \(whose), yours in place of 0: `echo '\(values)' | \(resolve) --values -`.",
            place: .init(table: first.table.name, key: first.key, column: column))
    }

    /// A key as a file of values names it.
    private static func keyName(_ key: String) -> String {
        key.hasPrefix("\"") ? String(key.dropFirst().dropLast()) : key
    }
}
