import Foundation
import GRDB
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

extension StagedRequest {
    /// Parses a body, checks every name, key and value in it, and stages its rows.
    package func stage(_ body: [UInt8], limits: Limits) throws -> SyncRequest {
        try clearEarlierRequests()
        return try placing {
            let bound = ValueBound(limits)
            let staging = try ChangeSetStaging(body: body, limits: limits, takesDeltas: true, bound: bound, in: db)
            let envelope = try RequestEnvelope(body, outline: staging.outline, limits: limits, in: db)
            try staging.stage(changeSets: envelope.changeSets, max: limits.changeSetsPerRequestMax)
            return try envelope.request(bringing: envelopes(staging))
        }
    }

    /// Stages several short bodies together; nil when one of them is faulty.
    package func stage(together bodies: [[UInt8]], limits: Limits) throws -> [SyncRequest]? {
        guard bodies.allSatisfy({ $0.count <= limits.valueBytesMax }) else { return nil }
        try clearEarlierRequests()
        do {
            let staging = try ChangeSetStaging(together: bodies, limits: limits, in: db)
            let requests = try bodies.map { try RequestEnvelope($0, limits: limits, in: db) }
            try staging.stage(lists: requests.map(\.changeSets), max: limits.changeSetsPerRequestMax)
            let sets = Dictionary(grouping: try envelopes(staging)) { ChangeSetStaging.list(of: $0.ord) }
            return try requests.enumerated().map { list, request in
                try request.request(bringing: sets[list, default: []])
            }
        } catch is TidemarkError {
            // The caller stages each body by itself, which throws the error of the faulty one.
            return nil
        }
    }

    /// Adds the change set's id to the place of an error, so the device can quarantine the change set.
    package func placing<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch var error as TidemarkError {
            if error.place.id == nil, let ord = error.place.changeSet { error.place.id = try id(of: ord) }
            throw error
        }
    }

    /// Returns the id of a change set; nil when it is missing or no UUID.
    private func id(of ord: Int) throws -> String? {
        let id = try String.fetchOne(
            db.cachedStatement(sql: "SELECT lower(json ->> '$.id') FROM temp.tidemark_staged_set WHERE ord = ?"),
            arguments: [ord]
        )
        return id.flatMap { UUID(uuidString: $0) == nil ? nil : $0 }
    }

    /// Empties the tables of earlier requests.
    private func clearEarlierRequests() throws {
        for table in ["given", "planned"] { try CommitTables.clear(table, in: db) }
    }

    /// Checks times and ids, and reads the envelope of each change set.
    private func envelopes(_ staging: ChangeSetStaging) throws -> [SyncRequest.Envelope] {
        try refuseTimes()
        try refuseForeignIds()
        try refuseOldIds()
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT staged_set.ord, staged_set.json, time_member.value AS time,
                        lower(id_member.value) AS id, id_member.type AS id_type, after_member.type AS after_type,
                        CASE after_member.type WHEN 'text' THEN json_array(after_member.value)
                            WHEN 'array' THEN after_member.value ELSE '[]' END AS after
                    FROM temp.tidemark_staged_set AS staged_set
                    LEFT JOIN temp.tidemark_staged_member AS time_member
                        ON time_member.ord = staged_set.ord AND time_member.name = 'time'
                    LEFT JOIN temp.tidemark_staged_member AS id_member
                        ON id_member.ord = staged_set.ord AND id_member.name = 'id'
                    LEFT JOIN temp.tidemark_staged_member AS after_member
                        ON after_member.ord = staged_set.ord AND after_member.name = 'after'
                    ORDER BY staged_set.ord
                    """
            )
        )
        return try rows.map { row in
            let list: String = try row.value("after")
            let after =
                list == "[]"
                ? []
                : try String.fetchAll(
                    db.cachedStatement(sql: "SELECT coalesce(lower(value), '') FROM json_each(?)"),
                    arguments: [list]
                )
            let id: String? = try row.value("id")
            guard ([id].compactMap { $0 } + after).allSatisfy({ UUID(uuidString: $0) != nil }),
                try ["text", nil].contains(row.value("id_type") as String?),
                try ["text", "array", nil].contains(row.value("after_type") as String?)
            else {
                throw TidemarkError(
                    .malformedRequest,
                    "id or after is not a UUID.",
                    fix: "An id is 128 random bits written as a UUID; after names one, or is an array of some.",
                    place: try .init(changeSet: row.value("ord"))
                )
            }
            return SyncRequest.Envelope(
                ord: try row.value("ord"),
                index: try ChangeSetStaging.index(of: row.value("ord")),
                id: id,
                after: after,
                hash: try staging.hash(of: row.value("ord"), staged: row.value("json")),
                time: try row.value("time")
            )
        }
    }

    /// Refuses a time that is not an integer below 2^53; the handler checks its clock skew later.
    private func refuseTimes() throws {
        let ord = try Int.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT ord
                    FROM temp.tidemark_staged_member
                    WHERE name = 'time'
                        AND (type <> 'integer' OR value NOT BETWEEN 0 AND \(HybridClock.timeMax))
                    LIMIT 1
                    """
            )
        )
        guard let ord else { return }
        throw TidemarkError(
            .malformedRequest,
            "time is not a valid time.",
            fix: "It is milliseconds since 1970 times 1,000 plus a counter; leave it out if you have none.",
            place: .init(changeSet: ord)
        )
    }

    /// Refuses new records with an integer key in the region of temporary ids, which no record has.
    private func refuseForeignIds() throws {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT ord, tbl, key
                    FROM temp.tidemark_staged
                    JOIN temp.tidemark_table AS synced_table USING (tbl)
                    WHERE synced_table.kind = 'integer' AND operation = 'create'
                        AND CAST(key AS INTEGER) > \(TemporaryID.permanentMax)
                    LIMIT 1
                    """
            )
        )
        guard let row else { return }
        throw TidemarkError(
            .invalidKey,
            "A new record's id is above 2^52 - 1.",
            fix: "Create it under an id of its own below that, or as -1, -2 and so on; then the server gives the id.",
            place: try .init(changeSet: row.value("ord"), table: row.value("tbl"), key: row.value("key"))
        )
    }

    /// Refuses `__oldId__` in a request: only answers contain it, from the server's id map.
    private func refuseOldIds() throws {
        let row = try Row.fetchOne(
            db.cachedStatement(sql: "SELECT ord, tbl, key FROM temp.tidemark_staged WHERE old_key IS NOT NULL LIMIT 1")
        )
        guard let row else { return }
        throw TidemarkError(
            .unknownColumn,
            "__oldId__ is the server's to write.",
            fix: "List the temporary id in create; the answer tells the permanent one.",
            place: .init(
                changeSet: try row.value("ord"),
                table: try row.value("tbl"),
                key: try row.value("key"),
                column: "__oldId__"
            )
        )
    }
}
