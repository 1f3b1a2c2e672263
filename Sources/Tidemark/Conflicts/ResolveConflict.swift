package import GRDB
package import TidemarkCore
import TidemarkSQL

/// Resolves a parked conflict: the triggers capture the outcome like any edit, and it becomes a new change set.
package struct ResolveConflict {
    let db: Database
    let schema: SyncSchema
    private let seen: Seen
    private let takenIDs: TakenIDs

    /// `seen` is what the person who decides has seen of the server's rows.
    package init(db: Database, schema: SyncSchema, seen: Seen = .asParked, takenIDs: TakenIDs = .refuse) {
        self.db = db
        self.schema = schema
        self.seen = seen
        self.takenIDs = takenIDs
    }

    /// Resolves the conflict with an id or a number; returns the parked conflicts that depend on it, in their order.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` if there is no such conflict, if a conflict that it depends on is
    ///   parked, if the change would overwrite values that its author has not seen, or if it no longer fits the rows.
    @discardableResult package func resolve(_ name: String, _ resolution: Resolution) throws -> [Conflict] {
        let id = try id(of: name)
        switch resolution {
        case .accept: break
        case .retry: try redo(id, merged: [])
        case .merge(let records): try redo(id, merged: records)
        }
        let dependents = try Self.dependents(of: id, in: db)
        try LostParents(db: db, schema: schema).note(after: resolution, of: id, dependents: dependents)
        try Self.forget(id, in: db)
        guard !dependents.isEmpty else { return [] }
        return try Conflict.shown(db, DeviceFile(db)).filter { dependents.contains($0.id) }
    }

    /// Resolves a conflict, and then those that build on it and on no other one, inside the caller's transaction.
    ///
    /// `decide` gets a conflict that builds on it as it is by then, with the missing records that a retry would create
    /// again, and returns its resolution; without it, all stay parked. Throws as for one conflict, or what `decide`
    /// throws.
    func resolve(
        _ name: String, _ resolution: Resolution,
        dependents decide: ((Conflict, [Conflict.Record]) throws -> Resolution)?
    ) throws -> ResolvedChain {
        var waiting = try resolve(name, resolution)
        guard let decide else { return ResolvedChain(open: waiting) }
        var chain = ResolvedChain()
        let follower = ResolveConflict(db: db, schema: schema, takenIDs: takenIDs)
        try EngineConnection.prepare(db, schema: schema)
        while !waiting.isEmpty {
            // The resolution before may have given its records new ids.
            let id = waiting.removeFirst().id
            guard let conflict = try Conflict.shown(db, DeviceFile(db)).first(where: { $0.id == id }) else { continue }
            let anew = try missingRecords(of: conflict)
            guard conflict.after.isEmpty else {
                chain.open.append(conflict)
                continue
            }
            let next = try follower.resolve(id, decide(conflict, anew))
            chain.dependents.append((conflict, anew))
            chain.open.removeAll { open in next.contains { $0.id == open.id } }
            waiting += next.filter { one in !waiting.contains { $0.id == one.id } }
            waiting.sort { $0.number < $1.number }
        }
        return chain
    }

    private static let misfits: Set<ErrorCode> = [
        .constraintViolated, .invalidArgument, .preconditionFailed, .unknownColumn, .unknownTable,
    ]

    /// Retries a conflict by itself, where references are not enforced; false if it does not fit, so a person decides.
    func retry(_ id: String, after prepare: () throws -> Void = {}) throws -> Bool {
        do {
            try db.inSavepoint {
                try prepare()
                try resolve(id, .retry)
                guard try ForeignKeyCheck(db, schema: schema).all(limit: 1).isEmpty else {
                    throw RecordDecision.misfit("a reference points at nothing")
                }
                return .commit
            }
            return true
        } catch let error as TidemarkError where Self.misfits.contains(error.code) { return false }
    }

    /// Returns the missing records that the conflict with an id or a number updates.
    func recordsToRecreate(_ name: String) throws -> [Conflict.Record] {
        let id = try id(of: name)
        try EngineConnection.prepare(db, schema: schema)
        return try Conflict.shown(db, DeviceFile(db)).first { $0.id == id }.map(missingRecords) ?? []
    }

    private func missingRecords(of conflict: Conflict) throws -> [Conflict.Record] {
        let values = CurrentRows(db: db)
        return try conflict.records.filter { record in
            guard record.operation == TidemarkCore.Operation.update.rawValue, let table = schema.byName[record.table]
            else { return false }
            return try values.current(table, key: record.key) == nil
        }
    }

    private func id(of name: String) throws -> String {
        let id = try String.fetchOne(
            db, sql: "SELECT id FROM tidemark_conflict WHERE id = lower(?1) OR CAST(number AS TEXT) = ?1",
            arguments: [name])
        guard let id else { throw Self.noConflict(name) }
        return id
    }

    static func noConflict(_ name: String) -> TidemarkError {
        invalid("There is no conflict \(name) in this file.", fix: "`tidemark device conflicts FILE` lists them.")
    }

    static func forget(_ id: String, in db: Database) throws {
        try db.execute(sql: "DELETE FROM tidemark_conflict_record WHERE id = ?", arguments: [id])
        try db.execute(sql: "DELETE FROM tidemark_conflict WHERE id = ?", arguments: [id])
    }

    // MARK: Retry

    /// Omits a deletion whose record is missing; an update of a missing record creates it, maybe under a new id.
    private func redo(_ id: String, merged: [MergedRecord]) throws {
        try EngineConnection.prepare(db, schema: schema)
        try requirePredecessors(of: id)
        try check(merged, id)
        try LostParents(db: db, schema: schema).check(id, merged)
        let rows = try parkedRows(of: id)
        let recreation = RecreateRecords(db: db, schema: schema)
        let plan = try recreation.plan(id, merged: merged, takenIDs: takenIDs)
        // A refusal names the records by the ids that the conflict shows.
        let decisions = try decisions(on: rows, merged)
        try SeenRecords(db: db, schema: schema, seen: seen).check(decisions, in: id, renumbered: plan.names)
        try refuse(plan.occupied, decisions)
        try refuseNewNumbers(for: rows, decisions)
        let renumbered = try recreation.assign(plan, in: id, merged)
        let outcome = try self.decisions(on: parkedRows(of: id), renumbered)
        try RecordDecision.write(outcome, schema: schema, in: db)
        try Self.rebaseDependents(of: id, on: outcome, in: db)
    }

    /// Makes the written records the base of the conflicts that build on one, because their author has seen them.
    static func rebaseDependents(of id: String, on outcome: [RecordDecision], in db: Database) throws {
        var dependents: Set<String> = []
        var waiting = [id]
        while let next = waiting.popLast() {
            let more = try Self.dependents(of: next, in: db).subtracting(dependents)
            dependents.formUnion(more)
            waiting += more
        }
        guard !dependents.isEmpty else { return }
        let list = "[\(dependents.sorted().map(JSONText.quote).joined(separator: ","))]"
        for decision in outcome {
            try db.execute(
                cached: """
                    UPDATE tidemark_conflict_record AS parked
                    SET base = (\(RowJSON.current(decision.table, key: "?2")))
                    WHERE tbl = ?1 AND key = ?2 AND id IN (SELECT value FROM json_each(?3))
                    """, arguments: [decision.table.name, decision.key, list])
        }
    }

    private static func dependents(of id: String, in db: Database) throws -> Set<String> {
        try String.fetchSet(
            db,
            sql: """
                SELECT dependent.id
                FROM tidemark_conflict AS dependent
                JOIN json_each(iif(json_valid(dependent.after), dependent.after, '[]')) AS predecessor
                WHERE predecessor.value = ?
                """, arguments: [id])
    }

    private func parkedRows(of id: String) throws -> [Row] {
        try Row.fetchAll(
            db, sql: "SELECT * FROM tidemark_conflict_record WHERE id = ? AND operation <> 'unchanged'", arguments: [id]
        )
    }

    /// Refuses new records whose number another record has, unless that one has their values already.
    private func refuse(_ occupied: Set<RecordName>, _ decisions: [RecordDecision]) throws {
        guard takenIDs == .refuse, !planted(PlantedBug.replacesTakenRecords) else { return }
        let taken = decisions.filter { occupied.contains($0.name) }
        guard !taken.isEmpty else { return }
        let names = taken.prefix(5).map { "\($0.table.name) \($0.key)" } + (taken.count > 5 ? ["more"] : [])
        throw Self.invalid(
            "Another record has the number of this new record by now: \(names.joined(separator: ", ")).",
            fix: """
                Choose one of two. The new record gets another number: --as-new, in Swift `takenIDs: .asNew`. Or it \
                takes the other one's place, which is lost: --replace, in Swift `.replace`.
                """)
    }

    /// Refuses another number for new records whose key is no number, and which another record has.
    private func refuseNewNumbers(for rows: [Row], _ decisions: [RecordDecision]) throws {
        guard takenIDs == .asNew else { return }
        let created = try Set(
            rows.filter { try $0.value("operation") == TidemarkCore.Operation.create.rawValue }.map {
                RecordName(try $0.value("tbl"), RecordKey(json: try $0.value("key")))
            })
        let taken = decisions.first { decision in
            decision.operation == .update && decision.table.keyKind != .integer && created.contains(decision.name)
        }
        guard let taken else { return }
        throw TidemarkError(
            .invalidArgument,
            "The key of \(taken.table.name) \(taken.key) is no number that the device could change, and another record "
                + "has it.",
            fix: "Retry without --as-new to write your columns into that record, or create yours under another key and "
                + "accept the server's version.", place: .init(table: taken.table.name, key: taken.key))
    }

    /// Returns the records to write, and refuses references between them and the omitted ones.
    private func decisions(on rows: [Row], _ merged: [MergedRecord]) throws -> [RecordDecision] {
        let mergedByRecord = Dictionary(merged.map { ("\($0.table) \($0.key)", $0) }, uniquingKeysWith: { $1 })
        let decisions = try rows.compactMap { row -> RecordDecision? in
            let table: String = try row.value("tbl")
            let key: String = try row.value("key")
            return try decide(row, mergedByRecord["\(table) \(key)"], isOnly: rows.count == 1)
        }
        let omittedRows = try rows.filter { row in
            let table: String = try row.value("tbl")
            let key: String = try row.value("key")
            return mergedByRecord["\(table) \(key)"].map { $0.columns == nil } ?? false
        }
        let chosen = Dictionary(
            merged.map { (RecordName($0.table, RecordKey(json: $0.key)), Set(($0.columns ?? [:]).keys)) },
            uniquingKeysWith: { $1 })
        try OmittedRecords(db: db).check(omittedRows, beside: decisions, choosing: chosen, in: schema)
        return decisions
    }

    private func decide(_ row: Row, _ merged: MergedRecord?, isOnly: Bool) throws -> RecordDecision? {
        if let merged, merged.columns == nil { return nil }
        let key: String = try row.value("key")
        guard let table = try schema.byName[row.value("tbl")] else {
            let missing = MissingParts(table: try row.value("tbl"), key: key, conflict: try row.value("id"))
            throw missing.noTable(isOnly: isOnly)
        }
        var changes = try RecordChanges(json: row.value("mine"))
        let base = try (row.value("base") as String?).map { try RecordChanges(json: $0).values }
        let current = try CurrentRows(db: db).current(table, key: key)
        if merged == nil {
            let missing = MissingParts(table: table.name, key: key, conflict: try row.value("id"))
            if let error = missing.noColumns(of: changes, in: table, isOnly: isOnly) { throw error }
        }
        for (column, value) in merged?.columns ?? [:] {
            changes.deltas[column] = nil
            changes.values[column] = value
        }
        switch try row.value("operation") as String {
        case "delete": return deletion(of: key, in: table, current: current, base: base, merged: merged?.columns)
        case "create":
            return try creation(of: key, in: table, changes.values, current: current, merged: merged?.columns)
        default:
            // What the parked change added is added again, to the row as it is now.
            let newValues = try changes.values(over: current ?? base ?? [:])
            var decision = RecordDecision(table: table, key: key, operation: .update, values: newValues)
            decision.sums = Set(changes.deltas.keys)
            guard current == nil else { return decision }
            guard let base = base ?? (table.hasAllColumns(of: newValues) ? newValues : nil) else {
                throw Self.invalid(
                    "\(table.name) \(key) is missing, and this file has only some of its columns.",
                    fix: "Create the record yourself, or dismiss this with accept.")
            }
            return revival(of: key, in: table, base.merging(newValues) { $1 })
        }
    }

    private func deletion(
        of key: String, in table: SyncedTable, current: [String: DatabaseValue]?, base: [String: DatabaseValue]?,
        merged: [String: DatabaseValue]?
    ) -> RecordDecision? {
        guard let merged else {
            return current.map { _ in RecordDecision(table: table, key: key, operation: .delete, values: [:]) }
        }
        guard current == nil else { return RecordDecision(table: table, key: key, operation: .update, values: merged) }
        return revival(of: key, in: table, (base ?? [:]).merging(merged) { $1 })
    }

    private func revival(of key: String, in table: SyncedTable, _ values: [String: DatabaseValue]) -> RecordDecision {
        var decision = RecordDecision(table: table, key: key, operation: .create, values: values)
        decision.isRevival = true
        return decision
    }

    /// Returns the decision on a new record; if its record exists by now, it sets what its author has set.
    private func creation(
        of key: String, in table: SyncedTable, _ values: [String: DatabaseValue], current: [String: DatabaseValue]?,
        merged: [String: DatabaseValue]?
    ) throws -> RecordDecision? {
        guard let current, takenIDs != .replace else {
            return RecordDecision(table: table, key: key, operation: .create, values: values)
        }
        let own = try CurrentRows(db: db).withoutDefaults(values, of: table).merging(merged ?? [:]) { $1 }
        let differing = own.filter { current[$0.key] != $0.value }
        guard !differing.isEmpty else { return nil }
        return RecordDecision(table: table, key: key, operation: .update, values: differing)
    }

    // MARK: Checks

    func requirePredecessors(of id: String) throws {
        let number = try Int.fetchOne(
            db,
            sql: """
                SELECT predecessor.number
                FROM tidemark_conflict AS parked_set, json_each(parked_set.after) AS after_id
                JOIN tidemark_conflict AS predecessor ON predecessor.id = after_id.value
                WHERE parked_set.id = ?
                ORDER BY predecessor.number
                LIMIT 1
                """, arguments: [id])
        guard let number else { return }
        throw Self.invalid(
            "This change set depends on the change set of conflict \(number).", fix: "Resolve conflict \(number) first."
        )
    }

    private func check(_ merged: [MergedRecord], _ id: String) throws {
        for record in merged {
            let isPart =
                try Bool.fetchOne(
                    db,
                    sql: """
                        SELECT EXISTS (
                            SELECT 1 FROM tidemark_conflict_record
                            WHERE id = ? AND tbl = ? AND key = ? AND operation <> 'unchanged')
                        """, arguments: [id, record.table, record.key]) ?? false
            guard isPart else {
                throw Self.invalid(
                    "The conflict has no record \(record.table) \(record.key).",
                    fix: "Give values for its records; `tidemark device conflicts FILE` lists them.")
            }
            guard let table = schema.byName[record.table] else { continue }
            try requireColumns(Set((record.columns ?? [:]).keys), in: table, record.key)
        }
    }

    /// Throws if a column does not exist, because the write would ignore it silently.
    private func requireColumns(_ names: Set<String>, in table: SyncedTable, _ key: String) throws {
        let columns = Set(table.valueColumns.map(\.name))
        guard let unknown = names.sorted().first(where: { !columns.contains($0) }) else { return }
        throw TidemarkError(
            .unknownColumn, "\(table.name) has no value column \(unknown).",
            fix: "Give values only for existing columns, or accept the server's version.",
            place: .init(table: table.name, key: key, column: unknown))
    }

    static func invalid(_ message: String, fix: String) -> TidemarkError {
        TidemarkError(.invalidArgument, message, fix: fix)
    }
}

/// The outcome of a decision about a conflict and those that build on it.
package struct ResolvedChain: Sendable {
    /// The conflicts that were resolved with it, in their order, with the records that a retry creates again.
    package internal(set) var dependents: [(conflict: Conflict, anew: [Conflict.Record])] = []
    /// The conflicts that build on it and are still parked, in the order in which to resolve them.
    package internal(set) var open: [Conflict] = []
}
