import Foundation
import GRDB
package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

extension StagedRequest {
    /// Parses a body, checks every name, key and value in it, and stages its rows.
    package func stage(_ body: [UInt8], limits: Limits) throws -> SyncRequest {
        let staging = try ChangeSetStaging(body: body, limits: limits, in: db)
        let text = String(decoding: body, as: UTF8.self)
        guard
            try Bool.fetchOne(
                db.cachedStatement(
                    sql: "SELECT CASE WHEN json_valid(?1) THEN json_type(?1) = 'object' ELSE 0 END"
                ),
                arguments: [text]
            ) ?? false
        else { throw Self.malformed(body) }
        try refuseUnknownMembers(text)
        try refuseNonText(text)
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT CASE json_type(?1, '$.maxRevision') WHEN 'integer'
                            THEN typeof(?1 ->> '$.maxRevision') END AS revision_type,
                        ?1 ->> '$.maxRevision' AS revision,
                        ?1 ->> '$.device' AS device, ?1 ->> '$.fingerprint' AS fingerprint,
                        ?1 ->> '$.epoch' AS epoch, ?1 ->> '$.schema' AS schema,
                        CASE json_type(?1, '$.limit') WHEN 'integer' THEN typeof(?1 ->> '$.limit')
                            ELSE json_type(?1, '$.limit') END AS limit_type, ?1 ->> '$.limit' AS "limit",
                        CASE json_type(?1, '$.overruled') WHEN 'integer' THEN typeof(?1 ->> '$.overruled')
                            ELSE json_type(?1, '$.overruled') END AS overruled_type,
                        ?1 ->> '$.overruled' AS overruled,
                        CASE json_type(?1, '$.wait') WHEN 'integer' THEN typeof(?1 ->> '$.wait') ELSE json_type(?1, '$.wait') END AS wait_type, ?1 ->> '$.wait' AS wait,
                        coalesce(json_type(?1, '$.changeSets'), 'array') AS sets_type,
                        coalesce(?1 -> '$.changeSets', '[]') AS sets
                    """
            ),
            arguments: [text]
        )
        guard let row, row["revision_type"] as String? == "integer",
            let revision = row["revision"] as Int64?, revision >= 0
        else {
            throw Self.envelopeError(
                "maxRevision is missing or is no revision.",
                "the latest revision that you have, 0 at first"
            )
        }
        guard row["sets_type"] as String? == "array" else {
            throw Self.envelopeError(
                "changeSets is not an array.",
                "an array of change sets, possibly empty"
            )
        }
        let limit = try Self.number("limit", from: 1, in: row, "the most revisions that you want")
        let taken = try Self.number("overruled", from: 0, in: row, "the last note that you took in")
        let exchange = try RequestExchange(text, limits: limits, in: db)
        try staging.stage(changeSets: row["sets"])
        try refuseTimes()
        try refuseForeignIds()
        try refuseOldIds()
        let changeSets = try envelopes(limits)
        try exchange.refuse(beside: changeSets)
        return SyncRequest(
            maxRevision: revision,
            device: row["device"],
            epoch: row["epoch"],
            schema: row["schema"],
            limit: limit.map { Int($0) },
            wait: try Self.number("wait", from: 0, in: row, "milliseconds to wait").map(Int.init),
            overruled: taken ?? 0,
            fingerprint: try fingerprint(row["fingerprint"]),
            lap: exchange.lap,
            question: exchange.question,
            changeSets: changeSets
        )
    }

    /// A member of the envelope that is an integer if it is there.
    private static func number(
        _ name: String,
        from lowest: Int64,
        in row: Row,
        _ meaning: String
    ) throws -> Int64? {
        guard let type = row["\(name)_type"] as String? else { return nil }
        guard type == "integer", let number = row[name] as Int64?, number >= lowest else {
            throw envelopeError("\(name) is no integer from \(lowest) on.", meaning)
        }
        return number
    }

    private func fingerprint(_ hex: String?) throws -> Fingerprint? {
        guard let hex else { return nil }
        guard let fingerprint = Fingerprint(hex: hex) else {
            throw Self.envelopeError(
                "fingerprint is none.",
                "32 hexadecimal digits, and may be left out"
            )
        }
        return fingerprint
    }

    /// Reads id and `after` of each staged change set.
    private func envelopes(_ limits: Limits) throws -> [SyncRequest.Envelope] {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT ord, json, json ->> '$.time' AS time, lower(json ->> '$.id') AS id, json_type(json, '$.id') AS id_type,
                        json_type(json, '$.after') AS after_type,
                        CASE json_type(json, '$.after') WHEN 'text' THEN json_array(json ->> '$.after')
                            WHEN 'array' THEN json -> '$.after' ELSE '[]' END AS after
                    FROM temp.tidemark_staged_set ORDER BY ord
                    """
            )
        )
        guard rows.count <= limits.changeSetsPerRequestMax else {
            throw TidemarkError(
                .tooLarge,
                "The request has \(rows.count) change sets.",
                fix: "Send at most \(limits.changeSetsPerRequestMax) at a time."
            )
        }
        return try rows.map { row in
            let after = try String.fetchAll(
                db.cachedStatement(sql: "SELECT coalesce(lower(value), '') FROM json_each(?)"),
                arguments: [row["after"]]
            )
            let id: String? = row["id"]
            guard ([id].compactMap { $0 } + after).allSatisfy({ UUID(uuidString: $0) != nil }),
                ["text", nil].contains(row["id_type"] as String?),
                ["text", "array", nil].contains(row["after_type"] as String?)
            else {
                throw TidemarkError(
                    .malformedRequest,
                    "id or after is not a UUID.",
                    fix:
                        "An id is 128 random bits written as a UUID; after names one, or is an array of some.",
                    place: .init(changeSet: row["ord"])
                )
            }
            return SyncRequest.Envelope(
                ord: row["ord"],
                id: id,
                after: after,
                hash: ContentHash.of(row["json"]),
                time: row["time"]
            )
        }
    }

    /// A time is an integer below 2^53; what it says is judged when it is used.
    private func refuseTimes() throws {
        let ord = try Int.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT ord FROM temp.tidemark_staged_set WHERE json_type(json, '$.time') <> 'integer'
                        OR (json ->> '$.time') NOT BETWEEN 0 AND \(HybridClock.timeMax) LIMIT 1
                    """
            )
        )
        guard let ord else { return }
        throw TidemarkError(
            .malformedRequest,
            "time is no time.",
            fix:
                "It is milliseconds since 1970 times 1,000 plus a counter; leave it out if you have none.",
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
            place: .init(changeSet: row["ord"], table: row["tbl"], key: row["key"])
        )
    }

    /// `__oldId__` stands in answers; what it says there comes from the server's own map.
    private func refuseOldIds() throws {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql:
                    "SELECT ord, tbl, key FROM temp.tidemark_staged WHERE old_key IS NOT NULL LIMIT 1"
            )
        )
        guard let row else { return }
        throw TidemarkError(
            .unknownColumn,
            "__oldId__ is the server's to write.",
            fix: "List the temporary id in create; the answer tells the permanent one.",
            place: .init(
                changeSet: row["ord"],
                table: row["tbl"],
                key: row["key"],
                column: "__oldId__"
            )
        )
    }

    private func refuseUnknownMembers(_ text: String) throws {
        let names = try String.fetchAll(
            db.cachedStatement(sql: "SELECT key FROM json_each(?)"),
            arguments: [text]
        )
        if let unknown = names.first(where: { !WireName.requestMembers.contains($0) }) {
            throw Self.envelopeError(
                "The request has a member \(unknown).",
                "not part of the protocol"
            )
        }
        guard Set(names).count == names.count else {
            throw TidemarkError(
                .duplicateName,
                "The request has a member twice.",
                fix: "Give each name once."
            )
        }
    }

    /// Refuses members that have to be text and are not, and NUL in them: what stands behind it
    /// would count for nothing.
    private func refuseNonText(_ text: String) throws {
        let name = try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT key FROM json_each(?1)
                    WHERE key IN ('device', 'epoch', 'schema', 'fingerprint')
                        AND (type NOT IN ('text', 'null') OR instr(?1 -> fullkey, '\\u0000') > 0)
                    """
            ),
            arguments: [text]
        )
        guard let name else { return }
        throw Self.envelopeError(
            "\(name) is not a string without NUL.",
            "a string, and may be left out"
        )
    }

    static func envelopeError(_ message: String, _ fix: String) -> TidemarkError {
        TidemarkError(.malformedRequest, message, fix: "It is \(fix); see PROTOCOL.md.")
    }

    /// Explains where a body stops being JSON, for people who type it by hand.
    private static func malformed(_ body: [UInt8]) -> TidemarkError {
        var cause = "it is not a JSON object"
        do {
            _ = try JSONSerialization.jsonObject(with: Data(body))
        } catch {
            let detail = (error as NSError).userInfo["NSDebugDescription"] as? String
            cause = detail ?? "it is not JSON"
        }
        return TidemarkError(
            .malformedRequest,
            "The body cannot be read: \(cause)",
            fix: #"The shortest request is {"maxRevision":0,"changeSets":[]}."#
        )
    }
}
