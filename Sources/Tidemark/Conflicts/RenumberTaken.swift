import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Gives new ids to new records whose drawn id another record has.
///
/// Two files draw the same id only if one is a copy of the other, or if another program at the server takes
/// an id that it lent. The server refuses the second creation, because no record may overwrite another one.
/// Nobody chose the id, so the device makes the records again under its next ids, and with them the change
/// sets that depend on them. An id that a program chose stays a conflict.
///
/// The server takes the new change set for one whose author has seen the rows of now. So a change set that would
/// overwrite changes that nobody here has seen stays a conflict, too.
struct RenumberTaken {
    let round: RoundContext
    private var db: Database { round.db }
    private var schema: SyncSchema { round.schema }

    /// The resolved conflicts and the events that replace theirs.
    struct Outcome {
        var ids: [String] = []
        var events: [DeviceEvent] = []

        /// Returns a sync's events without those of the resolved conflicts.
        func replacing(_ others: [DeviceEvent]) -> [DeviceEvent] {
            others.filter { event in !ids.contains { event == .conflict($0) } } + events
        }
    }

    /// Whether a change set is parked because of an id that another record has.
    static func mayBeNeeded(in db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            cached:
                "SELECT EXISTS (SELECT 1 FROM tidemark_conflict WHERE reasons LIKE '%\"\(ConflictRule.exists.rawValue)\"%')"
        ) ?? false
    }

    /// Renumbers records of all parked change sets that wait for nothing else; the caller does not enforce references.
    func run() throws -> Outcome {
        var outcome = Outcome()
        let parked = try Conflict.all(db).filter { $0.kind == .refused }
        guard try parked.contains(where: { try !takenRecords($0).isEmpty }) else { return outcome }
        try EngineConnection.prepare(db, schema: schema)
        try round.drain()
        for conflict in parked {
            let taken = try takenRecords(conflict)
            // Each change set that depends on a renumbered one waits for nothing but that.
            let follows =
                conflict.after.contains(where: outcome.ids.contains)
                && conflict.reasons.allSatisfy { $0.rule == ConflictRule.predecessor.rawValue }
            guard !taken.isEmpty || follows else { continue }
            // The verdict may be older than the rows: others have changed records and taken more ids since.
            guard try !overwritesUnseenRows(conflict.id),
                let occupied = try occupiedRecords(conflict)
            else { continue }
            let isListed = { (record: Conflict.Record) in
                taken.contains { $0.table == record.table && $0.key == record.key }
            }
            let records = taken + occupied.filter { !isListed($0) }
            var events: [DeviceEvent] = []
            let resolve = ResolveConflict(db: db, schema: schema, seen: .judged)
            guard try resolve.retry(conflict.id, after: { events = try renumber(records, of: conflict.id) }) else {
                continue
            }
            outcome.events += events
            try round.drain(.all)
            outcome.ids.append(conflict.id)
        }
        return outcome
    }

    /// Returns the new records whose drawn id is taken; none if the change set was refused for another reason.
    private func takenRecords(_ conflict: Conflict) throws -> [Conflict.Record] {
        let reasons = conflict.reasons.filter { $0.rule != ConflictRule.predecessor.rawValue }
        let taken = conflict.records.filter { record in
            record.operation == TidemarkCore.Operation.create.rawValue
                && reasons.contains { $0.table == record.table && $0.key == record.key }
        }
        guard !taken.isEmpty, taken.count == reasons.count,
            reasons.allSatisfy({ $0.rule == ConflictRule.exists.rawValue })
        else { return [] }
        let areDrawn = try taken.allSatisfy { record in
            guard let table = schema.byName[record.table], table.keyKind == .integer, let id = Int64(record.key)
            else { return false }
            return try DrawnIDs.wasDrawn(id, from: table, in: db)
        }
        return areDrawn ? taken : []
    }

    /// Whether a change meets a row other than its base, and no policy lets both stand; new records get free ids.
    ///
    /// Its records can have got new ids with a conflict before this one.
    private func overwritesUnseenRows(_ conflict: String) throws -> Bool {
        if planted(PlantedBug.remakesOverUnseenRows) { return false }
        let rows = try Row.fetchAll(
            db,
            cached: """
                SELECT tbl, key, operation, base, mine FROM tidemark_conflict_record
                WHERE id = ? AND operation IN ('update', 'delete')
                """, arguments: [conflict])
        guard !rows.isEmpty else { return false }
        let present = try PresentRecords(db: db, schema: schema)
        return try rows.contains { row in
            guard let table = try schema.byName[row.value("tbl")] else { return true }
            let change = try RecordChange(stored: row.value("mine"), operation: row.value("operation"))
            let base = try RecordImage(stored: row.value("base"))
            let versions = try present.versions(of: row.value("key"), in: table)
            // The base can be what a pending change set of this device makes of the record.
            guard !ThreeWay(base: base, theirs: versions.here).isUntouched else { return false }
            return ThreeWay(base: base, theirs: versions.server).isOverwritten(by: change, of: table.name, in: schema)
        }
    }

    /// Returns new records whose drawn id a row has by now; nil if a program chose the key, so that a person decides.
    private func occupiedRecords(_ conflict: Conflict) throws -> [Conflict.Record]? {
        var occupied: [Conflict.Record] = []
        for record in conflict.records where record.operation == TidemarkCore.Operation.create.rawValue {
            guard let table = schema.byName[record.table],
                try CurrentRows(db: db).current(table, key: record.key) != nil
            else { continue }
            guard table.keyKind == .integer, let id = Int64(record.key), try DrawnIDs.wasDrawn(id, from: table, in: db)
            else { return nil }
            occupied.append(record)
        }
        return occupied
    }

    /// Gives records of a conflict their next ids, in it and in those that depend on it.
    private func renumber(_ records: [Conflict.Record], of conflict: String) throws -> [DeviceEvent] {
        if planted(PlantedBug.renumbersOntoRows) { return [] }
        let renumbering = RenumberRecords(db: db, schema: schema)
        let ids = records.compactMap { record in Int64(record.key).map { (table: record.table, id: $0) } }
        guard try renumbering.assign(ids) else { return [] }
        try renumbering.renameParked(from: conflict)
        return try renumbering.events()
    }
}
