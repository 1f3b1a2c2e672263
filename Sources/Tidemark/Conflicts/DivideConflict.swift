import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Divides a parked change set that does not come from one known transaction, and makes its uncontested parts again.
///
/// It divides the records as ``DivideRecords`` does before sending. All work is in sets, because a conflict may have a
/// million records.
struct DivideConflict {
    let round: RoundContext
    let limits: Limits
    private var db: Database { round.db }
    private var schema: SyncSchema { round.schema }

    /// Divides the conflict with an id or a number, and returns the ids of the parts that are still parked.
    ///
    /// Each part with a record that a reason names becomes a conflict of its own; the first one keeps the id. Conflicts
    /// that depend on this one depend on all of them afterwards. The other parts become change sets again, unless they
    /// no longer fit the rows. The parts of a change set that was too large go together up to a size.
    func divide(_ name: String) throws -> [String] {
        let conflict = try Conflict.all(db).first { $0.id == name.lowercased() || "\($0.number)" == name }
        guard let conflict else { throw ResolveConflict.noConflict(name) }
        try requireUnknownTransaction(conflict)
        try ResolveConflict(db: db, schema: schema).requirePredecessors(of: conflict.id)
        // What the app has done so far has known boundaries; what this writes is divided.
        try round.drain()
        let isTooLarge = conflict.reasons.contains { $0.rule == ErrorCode.tooLarge.rawValue && $0.key == nil }
        let count = try assignParts(conflict.id, sizeMax: isTooLarge ? limits.requestBytesMax / 4 : nil)
        // A part's number changes with the next division, so they are kept.
        try keepParts()
        let (reasons, others) = try reasonsByPart(conflict)
        let contested = reasons.keys.sorted()
        let uncontested = (0..<count).filter { reasons[$0] == nil }
        let ids = try move(contested, of: conflict.id, reasons)
        var parked = contested.isEmpty ? [] : [conflict.id] + ids
        try addToSuccessors(of: conflict.id, ids)
        if !uncontested.isEmpty {
            var rest = conflict.id
            if !contested.isEmpty { rest = try moveRest(uncontested, of: conflict.id) }
            try setReasons(others, of: rest)
            parked += try makeAgain(uncontested[...], of: rest)
        }
        try round.drain([], independent: isTooLarge ? nil : .all)
        return parked
    }

    private func requireUnknownTransaction(_ conflict: Conflict) throws {
        guard try DivideLargeSet.isOutside(conflict.id, in: db) else {
            throw TidemarkError(
                .invalidArgument, "One transaction made the changes of conflict \(conflict.number).",
                fix: "They stay together: accept, retry or merge them.")
        }
    }

    // MARK: Parts

    /// Assigns the conflict's records to parts, and returns the number of parts.
    private func assignParts(_ id: String, sizeMax: Int?) throws -> Int {
        let division = DivideRecords(db: db, schema: schema, independent: .all)
        try division.fill(
            with: """
                SELECT tbl, key, operation, base, mine, 0 FROM tidemark_conflict_record
                WHERE id = ? AND operation <> 'unchanged' ORDER BY tbl, length(key), key
                """, arguments: [id])
        guard let count = try division.divide(captureRange: nil, sizeMax: sizeMax)[0] else {
            throw TidemarkError(
                .invalidArgument, "The records of this conflict refer to each other: it cannot be divided.",
                fix: "Accept, retry or merge it as a whole.")
        }
        return count
    }

    private func keepParts() throws {
        try db.execute(
            sql: """
                CREATE TEMP TABLE IF NOT EXISTS tidemark_part (
                    part INTEGER, tbl TEXT, key TEXT, PRIMARY KEY (part, tbl, key)
                ) WITHOUT ROWID;
                DELETE FROM temp.tidemark_part;
                INSERT INTO temp.tidemark_part SELECT part, tbl, key FROM temp.tidemark_division;
                """)
    }

    /// Returns the reasons of each contested part, and those that name no record of a part, which belong to all.
    private func reasonsByPart(_ conflict: Conflict) throws -> (byPart: [Int: [String]], others: [String]) {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT division.part, json(reason.value) AS reason
                FROM tidemark_conflict AS parked_set
                JOIN json_each(parked_set.reasons) AS reason
                LEFT JOIN temp.tidemark_division AS division
                    ON division.tbl = reason.value ->> '$.table' AND division.key = reason.value -> '$.key'
                WHERE parked_set.id = ?
                """, arguments: [conflict.id])
        var reasons: [Int: [String]] = [:]
        var others: [String] = []
        for row in rows {
            let reason: String = try row.value("reason")
            if let part = try row.value("part") as Int? {
                reasons[part, default: []].append(reason)
            } else {
                others.append(reason)
            }
        }
        return (reasons.mapValues { $0 + others }, others)
    }

    private func setReasons(_ reasons: [String], of id: String) throws {
        try db.execute(
            sql: "UPDATE tidemark_conflict SET reasons = ? WHERE id = ?",
            arguments: ["[\(reasons.joined(separator: ","))]", id])
    }

    // MARK: Conflicts of parts

    /// Makes a conflict of each part but the first one, which keeps the id.
    private func move(_ parts: [Int], of id: String, _ reasons: [Int: [String]]) throws -> [String] {
        guard let first = parts.first else { return [] }
        let moved = parts.dropFirst().map { (part: $0, id: round.newID().uuidString.lowercased()) }
        let list = moved.map { part, id in
            #"[\#(part),"\#(id)",[\#(reasons[part, default: []].joined(separator: ","))]]"#
        }
        let json = "[\(list.joined(separator: ","))]"
        try db.execute(
            sql: """
                INSERT INTO tidemark_conflict (id, parked, reasons, kind, after, merges, asks)
                SELECT part.value ->> 1, parked, part.value -> 2, kind, after, merges, asks
                FROM json_each(?2) AS part CROSS JOIN tidemark_conflict AS whole ON whole.id = ?1
                ORDER BY part.key
                """, arguments: [id, json])
        try db.execute(
            sql: """
                UPDATE tidemark_conflict_record SET id = division.id
                FROM (
                    SELECT part.value ->> 1 AS id, own.tbl, own.key
                    FROM json_each(?2) AS part
                    CROSS JOIN temp.tidemark_part AS own ON own.part = part.value ->> 0
                ) AS division
                WHERE tidemark_conflict_record.id = ?1 AND tidemark_conflict_record.tbl = division.tbl
                    AND tidemark_conflict_record.key = division.key
                """, arguments: [id, json])
        try db.execute(sql: "INSERT INTO tidemark_outside SELECT value ->> 1 FROM json_each(?)", arguments: [json])
        try setReasons(reasons[first, default: []], of: id)
        return moved.map(\.id)
    }

    /// Moves parts to one conflict with the same reasons.
    private func moveRest(_ parts: some Collection<Int>, of id: String) throws -> String {
        let rest = round.newID().uuidString.lowercased()
        try db.execute(
            sql: """
                INSERT INTO tidemark_conflict (id, parked, reasons, kind, after, merges, asks)
                SELECT ?2, parked, reasons, kind, after, merges, asks FROM tidemark_conflict WHERE id = ?1
                """, arguments: [id, rest])
        try db.execute(
            sql: """
                UPDATE tidemark_conflict_record SET id = ?2
                WHERE id = ?1 AND (tbl, key) IN (
                    SELECT tbl, key FROM temp.tidemark_part WHERE part IN (SELECT value FROM json_each(?3)))
                """, arguments: [id, rest, "[\(parts.map(String.init).joined(separator: ","))]"])
        try db.execute(sql: "INSERT INTO tidemark_outside VALUES (?)", arguments: [rest])
        return rest
    }

    private func addToSuccessors(of id: String, _ ids: [String]) throws {
        guard !ids.isEmpty else { return }
        try db.execute(
            sql: """
                UPDATE tidemark_conflict SET after = (
                    SELECT json_group_array(value) FROM (
                        SELECT value FROM json_each(after) UNION SELECT value FROM json_each(?2)))
                WHERE EXISTS (SELECT 1 FROM json_each(after) WHERE value = ?1)
                """, arguments: [id, "[\(ids.map { "\"\($0)\"" }.joined(separator: ","))]"])
    }

    // MARK: Uncontested parts

    /// Makes all parts again or, if something does not fit, its halves; returns the conflicts of parts that do not fit.
    private func makeAgain(_ parts: ArraySlice<Int>, of id: String) throws -> [String] {
        do {
            try db.inSavepoint {
                try ResolveConflict(db: db, schema: schema).resolve(id, .retry)
                return .commit
            }
            return []
        } catch is TidemarkError {
            // A person decides about a single part that does not fit.
            guard parts.count > 1 else { return [id] }
        }
        let half = parts[(parts.startIndex + parts.count / 2)...]
        let other = try moveRest(half, of: id)
        return try makeAgain(parts.dropLast(half.count), of: id) + makeAgain(half, of: other)
    }
}
