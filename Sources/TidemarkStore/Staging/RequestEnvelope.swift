import Foundation
package import GRDB
package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// A request without its change sets: who asks, from where, and what for.
///
/// Read by SQLite's JSON functions; no table is touched.
package struct RequestEnvelope {
    /// The change sets, JSON.
    package let changeSets: String
    private let row: Row
    private let revision: Int64
    private let echo: SyncRequest.Echo
    private let exchange: RequestExchange
    private let numbers: (limit: Int64?, wait: Int64?, overruled: Int64?)
    private let fingerprint: Fingerprint?

    /// Reads a body, by its outline if it has been taken apart.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it is not JSON, or its members are not those
    ///   of the protocol.
    package init(
        _ body: [UInt8],
        outline: String? = nil,
        limits: Limits,
        in db: Database
    ) throws {
        let text = outline ?? String(decoding: body, as: UTF8.self)
        guard
            try Bool.fetchOne(
                db.cachedStatement(
                    sql: "SELECT CASE WHEN json_valid(?1) THEN json_type(?1) = 'object' ELSE 0 END"
                ),
                arguments: [text]
            ) ?? false
        else { throw Self.malformed(body) }
        try Self.refuseUnknownMembers(text, in: db)
        try Self.refuseNonText(text, in: db)
        let row = try Row.fetchOne(db.cachedStatement(sql: Self.membersSQL), arguments: [text])
        guard let row, row["revision_type"] as String? == "integer",
            let revision = row["revision"] as Int64?, revision >= 0
        else {
            throw Self.error(
                "maxRevision is missing or is no revision.",
                "the latest revision that you have, 0 at first"
            )
        }
        guard row["sets_type"] as String? == "array" else {
            throw Self.error(
                "changeSets is not an array.",
                "an array of change sets, possibly empty"
            )
        }
        guard [nil, "true", "false"].contains(row["delta"] as String?) else {
            throw Self.error("delta is no truth value.", "true, or left out")
        }
        let echo = try (row["echo_type"] as String?) == nil ? .all : Self.echo(row["echo"])
        (self.row, self.revision, self.echo, changeSets) = (row, revision, echo, row["sets"])
        numbers = (
            try Self.number("limit", from: 1, in: row, "the most revisions that you want"),
            try Self.number("wait", from: 0, in: row, "milliseconds to wait"),
            try Self.number("overruled", from: 0, in: row, "the last note that you took in")
        )
        exchange = try RequestExchange(text, limits: limits, in: db)
        fingerprint = try Self.fingerprint(row["fingerprint"])
    }

    /// The request, with what it brings.
    package func request(bringing sets: [SyncRequest.Envelope]) throws -> SyncRequest {
        try exchange.refuse(beside: sets)
        return SyncRequest(
            maxRevision: revision,
            device: row["device"],
            epoch: row["epoch"],
            schema: row["schema"],
            limit: numbers.limit.map { Int($0) },
            wait: numbers.wait.map { Int($0) },
            overruled: numbers.overruled ?? 0,
            fingerprint: fingerprint,
            isSettled: exchange.isSettled,
            takesDelta: (row["delta"] as String?) == "true",
            echo: echo,
            lap: exchange.lap,
            question: exchange.question,
            changeSets: sets
        )
    }

    static func error(_ message: String, _ fix: String) -> TidemarkError {
        TidemarkError(.malformedRequest, message, fix: "It is \(fix); see PROTOCOL.md.")
    }

    private static let membersSQL = """
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
            CASE json_type(?1, '$.wait') WHEN 'integer' THEN typeof(?1 ->> '$.wait')
                ELSE json_type(?1, '$.wait') END AS wait_type, ?1 ->> '$.wait' AS wait,
            json_type(?1, '$.delta') AS delta,
            json_type(?1, '$.echo') AS echo_type,
            CASE json_type(?1, '$.echo') WHEN 'text' THEN ?1 ->> '$.echo' END AS echo,
            coalesce(json_type(?1, '$.changeSets'), 'array') AS sets_type,
            coalesce(?1 -> '$.changeSets', '[]') AS sets
        """

    /// A member of the envelope that is an integer if it is there.
    private static func number(
        _ name: String,
        from lowest: Int64,
        in row: Row,
        _ meaning: String
    ) throws -> Int64? {
        guard let type = row["\(name)_type"] as String? else { return nil }
        guard type == "integer", let number = row[name] as Int64?, number >= lowest else {
            throw error("\(name) is no integer from \(lowest) on.", meaning)
        }
        return number
    }

    private static func echo(_ name: String?) throws -> SyncRequest.Echo {
        guard let echo = name.flatMap(SyncRequest.Echo.init(rawValue:)) else {
            throw error("echo is neither \"all\" nor \"ids\".", "one of these, or left out")
        }
        return echo
    }

    private static func fingerprint(_ hex: String?) throws -> Fingerprint? {
        guard let hex else { return nil }
        guard let fingerprint = Fingerprint(hex: hex) else {
            throw error(
                "fingerprint is none.",
                "32 hexadecimal digits, and may be left out"
            )
        }
        return fingerprint
    }

    private static func refuseUnknownMembers(_ text: String, in db: Database) throws {
        let names = try String.fetchAll(
            db.cachedStatement(sql: "SELECT key FROM json_each(?)"),
            arguments: [text]
        )
        if let unknown = names.first(where: { !WireName.requestMembers.contains($0) }) {
            throw error(
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
    private static func refuseNonText(_ text: String, in db: Database) throws {
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
        throw error("\(name) is not a string without NUL.", "a string, and may be left out")
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
