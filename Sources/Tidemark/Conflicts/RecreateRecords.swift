import GRDB
import TidemarkCore
import TidemarkSQL

/// Gives new ids to records that a retry or merge creates under an id that is not theirs.
///
/// The server uses an id only once, so the old id stays with a deleted record. A new record keeps its id while no row
/// has it, as an `INSERT` of it would, because columns without a declared reference may hold it. A temporary id that
/// the sequence has left is not used again, because SQLite would draw the ids after it next, and those may have been
/// other records'. Parked changes that refer to the record get the new id, in the same conflict and in dependent ones.
struct RecreateRecords {
    let db: Database
    let schema: SyncSchema

    /// The records of a conflict that get new ids, and those that meet another record.
    struct Plan {
        /// Records that must exist again, or whose id the device cannot use.
        fileprivate var missing: [(table: String, id: Int64)] = []
        /// New records whose id another record has.
        fileprivate var taken: [(table: String, id: Int64)] = []
        /// New records that get an id other than the one in the conflict.
        private(set) var names: Set<RecordName> = []
        /// New records whose chosen id another record has, and which keep it.
        fileprivate(set) var occupied: Set<RecordName> = []

        fileprivate mutating func renumber(new table: String, _ id: Int64, isTaken: Bool) {
            names.insert(RecordName(table, RecordKey([id])))
            if isTaken { taken.append((table, id)) } else { missing.append((table, id)) }
        }
    }

    /// Finds the missing records of a conflict that must exist again, new records whose drawn id another record has,
    /// and those whose temporary id the sequence has left.
    func plan(_ id: String, merged: [MergedRecord], takenIDs: TakenIDs) throws -> Plan {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT parked.tbl, parked.key, parked.operation = 'create' AS isNew
                FROM tidemark_conflict_record AS parked
                WHERE parked.id = ? AND parked.operation IN ('create', 'update', 'delete')
                ORDER BY parked.tbl, parked.key
                """, arguments: [id])
        var plan = Plan()
        for row in rows {
            let name: String = try row.value("tbl")
            let key: String = try row.value("key")
            guard let table = schema.byName[name], table.keyKind == .integer, let old = Int64(key) else { continue }
            let exists = try CurrentRows(db: db).current(table, key: key) != nil
            guard try isWanted(id, table: name, key: key, merged: merged) else { continue }
            if try !row.value("isNew") {
                if !exists { plan.missing.append((name, old)) }
            } else if exists {
                // Values that the app or the user merged are meant for the record that has the id.
                guard !merged.contains(where: { $0.table == name && $0.key == key }) else { continue }
                if try takenIDs == .asNew || isDrawn(old, table) {
                    plan.renumber(new: name, old, isTaken: true)
                } else {
                    plan.occupied.insert(RecordName(name, RecordKey(json: key)))
                }
            } else if try planted(PlantedBug.renumbersLentIDs) || DrawnIDs.hasLeft(old, in: table, db) {
                plan.renumber(new: name, old, isTaken: false)
            }
        }
        return plan
    }

    /// Gives the records of a plan their new ids; returns the merged records under their new keys.
    func assign(_ plan: Plan, in id: String, _ merged: [MergedRecord]) throws -> [MergedRecord] {
        let renumbering = RenumberRecords(db: db, schema: schema)
        if try renumbering.assign(plan.taken) { try renumbering.renameParked(from: id) }
        guard try renumbering.assign(plan.missing) else { return merged }
        try renumbering.renameParked()
        let new = try Row.fetchAll(db, sql: "SELECT tbl, temporary, permanent FROM temp.tidemark_assigned").map {
            (try "\($0.value("tbl") as String) \($0.value("temporary") as Int64)", try $0.value("permanent") as Int64)
        }
        let keys = Dictionary(uniqueKeysWithValues: new).mapValues(String.init)
        return merged.map {
            let key = keys["\($0.table) \($0.key)"] ?? $0.key
            return MergedRecord(table: $0.table, key: key, columns: $0.columns)
        }
    }

    private func isDrawn(_ id: Int64, _ table: SyncedTable) throws -> Bool {
        guard table.isAutoincrement, !planted(PlantedBug.renumbersOntoRows) else { return false }
        return try DrawnIDs.wasDrawn(id, from: table, in: db)
    }

    /// Whether the resolution creates the missing record again.
    private func isWanted(_ id: String, table: String, key: String, merged: [MergedRecord]) throws -> Bool {
        if let decision = merged.first(where: { $0.table == table && $0.key == key }) { return decision.columns != nil }
        let row = try Row.fetchOne(
            db, sql: "SELECT operation, base, mine FROM tidemark_conflict_record WHERE id = ? AND tbl = ? AND key = ?",
            arguments: [id, table, key])
        guard let row, let synced = schema.byName[table] else { return false }
        switch try TidemarkCore.Operation(rawValue: row.value("operation")) {
        case .create: return true
        case .update: return try row.value("base") as String? != nil || synced.hasAllColumns(of: row.value("mine"))
        case .delete, nil: return false
        }
    }
}

extension SyncedTable {
    /// Whether a change sets all columns, so that it can create its record without a base.
    func hasAllColumns(of change: String?) throws -> Bool { try hasAllColumns(of: RecordChanges(json: change).values) }

    func hasAllColumns(of values: [String: DatabaseValue]) -> Bool {
        valueColumns.allSatisfy { values[$0.name] != nil }
    }
}
