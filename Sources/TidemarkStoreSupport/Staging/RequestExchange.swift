import Foundation
import GRDB
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// The members of a request about the exchange itself: its session nonces and its question.
struct RequestExchange {
    let lap: SyncRequest.Lap?
    let question: SyncRequest.Question?
    let isSettled: Bool
    /// The tables for which the device wants ids.
    let lend: [String]

    /// Reads `lap`, `settled`, `lend`, `recall` and `known` of a request.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when one is invalid.
    init(_ members: RequestMembers, limits: Limits, in db: Database) throws {
        lap = members.type("lap") == nil ? nil : try Self.lap(members.object("lap"), limits, in: db)
        isSettled = members.type("settled") != nil
        guard !isSettled || members.type("settled") == "true" else {
            throw RequestMembers.error("settled is not true.", "true, or left out")
        }
        lend = members.type("lend") == nil ? [] : try Self.tables(members.array("lend"), in: db)
        guard members.type("recall") != nil || members.type("known") != nil else {
            question = nil
            return
        }
        question = .init(
            recall: try Self.ids("recall", members: members, limits: limits, in: db),
            known: try Self.ids("known", members: members, limits: limits, in: db)
        )
    }

    /// Refuses members that exclude each other.
    func refuse(beside changeSets: [SyncRequest.Envelope]) throws {
        guard question == nil || changeSets.isEmpty else {
            throw RequestMembers.error(
                "The request has recall or known together with change sets.",
                "one or the other: ask first, send afterwards"
            )
        }
        guard !isSettled || changeSets.isEmpty && lap == nil && question == nil else {
            throw RequestMembers.error(
                "The request has settled together with change sets, a lap or a question.",
                "for requests that only ask for news"
            )
        }
    }

    /// Reads names of tables, which the zone may not have, or no longer.
    private static func tables(_ json: String?, in db: Database) throws -> [String] {
        let listed = try Row.fetchAll(
            db.cachedStatement(sql: "SELECT type, value FROM json_each(?)"),
            arguments: [json]
        )
        guard json != nil, try listed.allSatisfy({ try $0.value("type") == "text" }) else {
            throw RequestMembers.error("lend is not an array of strings.", "the names of tables")
        }
        return Set(try listed.map { try $0.value("value") as String }).sorted()
    }

    private static func lap(_ json: String?, _ limits: Limits, in db: Database) throws -> SyncRequest.Lap {
        // The three members, and the elements of `open`.
        let nodesMax = 3 + limits.openLapsMax
        let nodes = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT path, CAST(key AS TEXT) AS name, type, CASE type WHEN 'text' THEN lower(atom) END AS lap
                    FROM json_tree(?)
                    WHERE key IS NOT NULL
                    LIMIT ?
                    """
            ),
            arguments: [json, nodesMax + 1]
        )
        let members = try nodes.filter { try $0.value("path") == "$" }
        let open = try nodes.filter { try $0.value("path") == "$.open" }
        let types = try members.map { try "\($0.value("name") as String) \($0.value("type") as String)" }.sorted()
        let lap = { (name: String) in try members.first { try $0.value("name") == name }?.value("lap") as String? }
        let laps = try members.compactMap { try $0.value("lap") as String? } + open.map { try $0.value("lap") ?? "" }
        guard nodes.count <= nodesMax,
            [["last null", "next text", "open array"], ["last text", "next text", "open array"]].contains(types),
            laps.allSatisfy(isUUID), let next = try lap("next")
        else {
            throw RequestMembers.error(
                "lap has another form.",
                #"{"last": UUID or null, "open": [at most \#(limits.openLapsMax) UUIDs], "next": UUID}"#
            )
        }
        return try .init(last: lap("last"), open: open.map { try $0.value("lap") }, next: next)
    }

    private static func ids(_ name: String, members: RequestMembers, limits: Limits, in db: Database) throws
        -> [String]
    {
        let rows = try members.array(name).map {
            try Row.fetchAll(
                db.cachedStatement(sql: "SELECT type, lower(atom) AS id FROM json_each(?) LIMIT ?"),
                arguments: [$0, limits.recalledIDsMax + 1]
            )
        }
        guard let rows, rows.count <= limits.recalledIDsMax,
            try rows.allSatisfy({ try $0.value("type") as String == "text" && isUUID($0.value("id") ?? "") })
        else {
            throw RequestMembers.error(
                "\(name) is no list of change set ids.",
                "an array of at most \(limits.recalledIDsMax) UUIDs"
            )
        }
        return try rows.map { try $0.value("id") }
    }

    private static func isUUID(_ text: String) -> Bool { UUID(uuidString: text) != nil }
}
