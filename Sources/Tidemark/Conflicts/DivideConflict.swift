import GRDB
import TidemarkCore
import TidemarkSQLite

/// Divides a parked change set that no known transaction made, as ``DivideRecords`` would have
/// divided it before it was sent.
struct DivideConflict {
    let db: Database
    let schema: SyncSchema

    /// The conflicts that one has become.
    struct Parts {
        /// Those with a record that the reasons name, or the one that keeps the id.
        var contested: [String] = []
        /// All others.
        var uncontested: [String] = []
    }

    /// Divides the conflict with an id or a number, in a transaction of the caller's.
    ///
    /// The first contested part keeps the id. What builds on the conflict builds on all of its
    /// contested parts.
    func divide(_ name: String, newID: () -> String) throws -> Parts {
        let conflict = try Conflict.all(db).first { $0.id == name.lowercased() || "\($0.number)" == name }
        guard let conflict else { throw ResolveConflict.noConflict(name) }
        try requireOutside(conflict)
        try ResolveConflict(db: db, schema: schema).requirePredecessors(of: conflict.id)
        try EngineConnection.prepare(db, schema: schema)
        let count = try number(conflict.id)
        let contested = try contestedParts(conflict.id)
        var parts = Parts()
        for part in 0..<count {
            // Without any contested part, the first one keeps the id and is made again as well.
            let keepsID = part == (contested.min() ?? 0)
            let id = keepsID ? conflict.id : newID()
            if contested.contains(part) { parts.contested.append(id) } else { parts.uncontested.append(id) }
            if !keepsID { try move(part, of: conflict.id, to: id) }
        }
        if let first = contested.min() { try keepReasons(of: conflict.id, about: first) }
        try noteSuccessors(of: conflict.id, parts.contested)
        return parts
    }

    private func requireOutside(_ conflict: Conflict) throws {
        let isOutside = try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM tidemark_outside WHERE id = ?)",
            arguments: [conflict.id]
        )
        guard isOutside == true else {
            throw TidemarkError(
                .invalidArgument,
                "The changes of conflict \(conflict.number) were made by one transaction.",
                fix: "They stay together: accept, retry or merge them."
            )
        }
    }

    /// Numbers the parts of a conflict's records.
    private func number(_ id: String) throws -> Int {
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
        guard let count = try division.divide(moved: nil)[0] else {
            throw TidemarkError(
                .invalidArgument,
                "The records of this conflict refer to each other: it cannot be divided.",
                fix: "Accept, retry or merge it as a whole."
            )
        }
        return count
    }

    /// The parts with a record that a reason names.
    private func contestedParts(_ id: String) throws -> Set<Int> {
        try Int.fetchSet(
            db,
            sql: """
                SELECT d.part FROM temp.tidemark_division AS d
                JOIN tidemark_conflict AS c ON c.id = ?
                JOIN json_each(c.reasons) AS r ON d.tbl = r.value ->> '$.table' AND d.key = r.value -> '$.key'
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
        try keepReasons(of: new, about: part)
        try db.execute(
            sql: "UPDATE tidemark_conflict_record SET id = ? WHERE id = ? AND \(inPart)",
            arguments: [new, id]
        )
        try db.execute(sql: "INSERT INTO tidemark_outside VALUES (?)", arguments: [new])
    }

    /// Leaves out the reasons that name records of other parts.
    private func keepReasons(of id: String, about part: Int) throws {
        try db.execute(
            sql: """
                UPDATE tidemark_conflict SET reasons = (
                    SELECT json_group_array(json(r.value)) FROM json_each(reasons) AS r
                    WHERE NOT EXISTS (SELECT 1 FROM temp.tidemark_division AS d WHERE d.part <> ?2
                        AND d.tbl = r.value ->> '$.table' AND d.key = r.value -> '$.key'))
                WHERE id = ?1
                """,
            arguments: [id, part]
        )
    }

    private func noteSuccessors(of id: String, _ contested: [String]) throws {
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
