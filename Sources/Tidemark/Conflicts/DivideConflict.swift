import GRDB
import TidemarkCore
import TidemarkSQL

/// Divides a parked change set that does not come from one known transaction.
///
/// It divides the records as ``DivideRecords`` does before sending.
struct DivideConflict {
    let db: Database
    let schema: SyncSchema

    /// The ids of the resulting conflicts.
    struct Parts {
        /// Parts with a record that a reason names; without any, the part that keeps the id.
        var contested: [String] = []
        /// All other parts.
        var uncontested: [String] = []
    }

    /// Divides the conflict with an id or a number, in the caller's transaction.
    ///
    /// The first contested part keeps the id. Conflicts that depend on this one depend on all
    /// contested parts afterwards.
    func divide(_ name: String, newID: () -> String) throws -> Parts {
        let conflict = try Conflict.all(db).first { $0.id == name.lowercased() || "\($0.number)" == name }
        guard let conflict else { throw ResolveConflict.noConflict(name) }
        try requireUnknownTransaction(conflict)
        try ResolveConflict(db: db, schema: schema).requirePredecessors(of: conflict.id)
        try EngineConnection.prepare(db, schema: schema)
        let count = try assignParts(conflict.id)
        let contested = try contestedParts(conflict.id)
        var parts = Parts()
        for part in 0..<count {
            // Without a contested part, the first part keeps the id; the app retries it as well.
            let keepsID = part == (contested.min() ?? 0)
            let id = keepsID ? conflict.id : newID()
            if contested.contains(part) { parts.contested.append(id) } else { parts.uncontested.append(id) }
            if !keepsID { try move(part, of: conflict.id, to: id) }
        }
        if let first = contested.min() { try filterReasons(of: conflict.id, for: first) }
        try addToSuccessors(of: conflict.id, parts.contested)
        return parts
    }

    private func requireUnknownTransaction(_ conflict: Conflict) throws {
        let isOutside = try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM tidemark_outside WHERE id = ?)",
            arguments: [conflict.id]
        )
        guard isOutside == true else {
            throw TidemarkError(
                .invalidArgument,
                "One transaction made the changes of conflict \(conflict.number).",
                fix: "They stay together: accept, retry or merge them."
            )
        }
    }

    /// Assigns the conflict's records to parts, and returns the number of parts.
    private func assignParts(_ id: String) throws -> Int {
        let division = DivideRecords(db: db, schema: schema, independent: .all)
        try division.clear()
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_division (tbl, key, operation, before, attributes, grp)
                SELECT tbl, key, operation, base, mine, 0 FROM tidemark_conflict_record
                WHERE id = ? AND operation <> 'unchanged' ORDER BY tbl, length(key), key
                """,
            arguments: [id]
        )
        guard let count = try division.divide(captureRange: nil)[0] else {
            throw TidemarkError(
                .invalidArgument,
                "The records of this conflict refer to each other: it cannot be divided.",
                fix: "Accept, retry or merge it as a whole."
            )
        }
        return count
    }

    /// Returns the parts with a record that a reason names.
    private func contestedParts(_ id: String) throws -> Set<Int> {
        try Int.fetchSet(
            db,
            sql: """
                SELECT division.part
                FROM temp.tidemark_division AS division
                JOIN tidemark_conflict AS parked_set ON parked_set.id = ?
                JOIN json_each(parked_set.reasons) AS reason
                    ON division.tbl = reason.value ->> '$.table' AND division.key = reason.value -> '$.key'
                """,
            arguments: [id]
        )
    }

    private func move(_ part: Int, of id: String, to new: String) throws {
        let inPart = """
            (tbl, key) IN (SELECT tbl, key FROM temp.tidemark_division WHERE part = \(part))
            """
        try db.execute(
            sql: """
                INSERT INTO tidemark_conflict (id, parked, reasons, kind, after, merges, asks)
                SELECT ?2, parked, reasons, kind, after, merges, asks
                FROM tidemark_conflict WHERE id = ?1
                """,
            arguments: [id, new]
        )
        try filterReasons(of: new, for: part)
        try db.execute(
            sql: "UPDATE tidemark_conflict_record SET id = ? WHERE id = ? AND \(inPart)",
            arguments: [new, id]
        )
        try db.execute(sql: "INSERT INTO tidemark_outside VALUES (?)", arguments: [new])
    }

    /// Removes the reasons that name records of other parts.
    private func filterReasons(of id: String, for part: Int) throws {
        try db.execute(
            sql: """
                UPDATE tidemark_conflict SET reasons = (
                    SELECT json_group_array(json(reason.value))
                    FROM json_each(reasons) AS reason
                    WHERE NOT EXISTS (
                        SELECT 1 FROM temp.tidemark_division AS division
                        WHERE division.part <> ?2 AND division.tbl = reason.value ->> '$.table'
                            AND division.key = reason.value -> '$.key'))
                WHERE id = ?1
                """,
            arguments: [id, part]
        )
    }

    private func addToSuccessors(of id: String, _ contested: [String]) throws {
        for new in contested where new != id {
            try db.execute(
                sql: """
                    UPDATE tidemark_conflict SET after = json_insert(after, '$[#]', ?1)
                    WHERE EXISTS (SELECT 1 FROM json_each(after) WHERE value = ?2)
                    """,
                arguments: [new, id]
            )
        }
    }
}
