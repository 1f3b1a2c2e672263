import Foundation
import GRDB
package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

extension StagedRequest {
    /// Parses a body, checks every name, key and value in it, and stages its rows.
    package func stage(_ body: [UInt8], limits: Limits) throws -> SyncRequest {
        try forget()
        return try placing {
            let staging = try ChangeSetStaging(body: body, limits: limits, bound: ValueBound(limits), in: db)
            let envelope = try RequestEnvelope(body, outline: staging.outline, limits: limits, in: db)
            try staging.stage(changeSets: envelope.changeSets, max: limits.changeSetsPerRequestMax)
            return try envelope.request(bringing: envelopes(staging))
        }
    }

    /// Does the same for several short bodies in one go; nil when something is wrong with one of
    /// them.
    package func stage(together bodies: [[UInt8]], limits: Limits) throws -> [SyncRequest]? {
        guard bodies.allSatisfy({ $0.count <= limits.valueBytesMax }) else { return nil }
        try forget()
        do {
            let staging = try ChangeSetStaging(together: bodies, limits: limits, in: db)
            let requests = try bodies.map { try RequestEnvelope($0, limits: limits, in: db) }
            try staging.stage(lists: requests.map(\.changeSets), max: limits.changeSetsPerRequestMax)
            let sets = Dictionary(grouping: try envelopes(staging)) { ChangeSetStaging.list(of: $0.ord) }
            return try requests.enumerated().map { list, request in
                try request.request(bringing: sets[list, default: []])
            }
        } catch is TidemarkError {
            // What it is, and in whose body, is told when that is staged by itself.
            return nil
        }
    }

    /// Adds the change set's id to the place of an error that is thrown while a request by itself
    /// is checked: a client sets the change set aside by it.
    package func placing<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch var error as TidemarkError {
            if error.place.id == nil, let ord = error.place.changeSet { error.place.id = try id(of: ord) }
            throw error
        }
    }

    /// The id that a change set was sent with; nil when it has none that is one.
    private func id(of ord: Int) throws -> String? {
        let id = try String.fetchOne(
            db.cachedStatement(sql: "SELECT lower(json ->> '$.id') FROM temp.tidemark_staged_set WHERE ord = ?"),
            arguments: [ord]
        )
        return id.flatMap { UUID(uuidString: $0) == nil ? nil : $0 }
    }

    /// Forgets what was given to the requests before, and done with them.
    private func forget() throws { for table in ["given", "planned"] { try CommitTables.clear(table, in: db) } }

    /// Checks what is a change set's own, and reads id and `after` of each.
    private func envelopes(_ staging: ChangeSetStaging) throws -> [SyncRequest.Envelope] {
        try refuseTimes()
        try refuseForeignIds()
        try refuseOldIds()
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT s.ord, s.json, t.value AS time, lower(i.value) AS id, i.type AS id_type,
                        a.type AS after_type, CASE a.type WHEN 'text' THEN json_array(a.value)
                            WHEN 'array' THEN a.value ELSE '[]' END AS after
                    FROM temp.tidemark_staged_set AS s
                    LEFT JOIN temp.tidemark_staged_member AS t ON t.ord = s.ord AND t.name = 'time'
                    LEFT JOIN temp.tidemark_staged_member AS i ON i.ord = s.ord AND i.name = 'id'
                    LEFT JOIN temp.tidemark_staged_member AS a ON a.ord = s.ord AND a.name = 'after'
                    ORDER BY s.ord
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

    /// A time is an integer below 2^53; what it says is judged when it is used.
    private func refuseTimes() throws {
        let ord = try Int.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT ord FROM temp.tidemark_staged_member WHERE name = 'time' AND (type <> 'integer'
                        OR value NOT BETWEEN 0 AND \(HybridClock.timeMax)) LIMIT 1
                    """
            )
        )
        guard let ord else { return }
        throw TidemarkError(
            .malformedRequest,
            "time is no time.",
            fix: "It is milliseconds since 1970 times 1,000 plus a counter; leave it out if you have none.",
            place: .init(changeSet: ord)
        )
    }

    /// Integer keys of new records are the server's to give; a client writes negative ones.
    private func refuseForeignIds() throws {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT ord, tbl, key FROM temp.tidemark_staged JOIN temp.tidemark_table AS t USING (tbl)
                    WHERE t.kind = 'integer' AND operation = 'create' AND key NOT LIKE '-%' LIMIT 1
                    """
            )
        )
        guard let row else { return }
        throw TidemarkError(
            .invalidKey,
            "A record of this table is created under a temporary id, which is negative.",
            fix: "Create it as -1, -2 and so on; the answer tells the permanent id.",
            place: try .init(changeSet: row.value("ord"), table: row.value("tbl"), key: row.value("key"))
        )
    }

    /// `__oldId__` stands in answers; what it says there comes from the server's own map.
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
