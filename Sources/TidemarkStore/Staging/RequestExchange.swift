import Foundation
import GRDB
import TidemarkCore
import TidemarkServer

/// The members of a request that are about the exchange itself: which of the device's it is, and
/// what it asks.
struct RequestExchange {
    let lap: SyncRequest.Lap?
    let question: SyncRequest.Question?
    let isSettled: Bool

    /// Reads `lap`, `settled`, `recall` and `known` of a request.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when one has another form than the protocol's.
    init(_ text: String, limits: Limits, in db: Database) throws {
        let types = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_type(?1, '$.lap') AS lap, json_type(?1, '$.recall') AS recall,
                        json_type(?1, '$.known') AS known, json_type(?1, '$.settled') AS settled
                    """
            ),
            arguments: [text]
        )
        func isThere(_ name: String) -> Bool { (types?[name] as String?) != nil }
        lap = isThere("lap") ? try Self.lap(text, in: db) : nil
        isSettled = isThere("settled")
        guard !isSettled || types?["settled"] as String? == "true" else {
            throw RequestEnvelope.error("settled is not true.", "true, or left out")
        }
        let recall = try Self.ids("recall", text, limits, in: db)
        let known = try Self.ids("known", text, limits, in: db)
        question =
            isThere("recall") || isThere("known") ? .init(recall: recall, known: known) : nil
    }

    /// Refuses what cannot stand beside each other.
    func refuse(beside changeSets: [SyncRequest.Envelope]) throws {
        guard question == nil || changeSets.isEmpty else {
            throw RequestEnvelope.error(
                "recall and known stand beside change sets.",
                "one or the other: ask first, send afterwards"
            )
        }
        guard !isSettled || changeSets.isEmpty && lap == nil && question == nil else {
            throw RequestEnvelope.error(
                "settled stands beside change sets, a lap or a question.",
                "for requests that only ask what is new"
            )
        }
    }

    private static func lap(_ text: String, in db: Database) throws -> SyncRequest.Lap {
        let members = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT coalesce(key, '') AS name, type, CASE type WHEN 'text' THEN lower(value) END AS lap
                    FROM json_each(?, '$.lap')
                    """
            ),
            arguments: [text]
        )
        let open = try Row.fetchAll(
            db.cachedStatement(
                sql: "SELECT type, lower(atom) AS lap FROM json_each(?, '$.lap.open')"
            ),
            arguments: [text]
        )
        let types = members.map { "\($0["name"] as String) \($0["type"] as String)" }.sorted()
        let named = Dictionary(
            members.map { ($0["name"] as String, $0["lap"] as String?) },
            uniquingKeysWith: { first, _ in first }
        )
        let laps = members.compactMap { $0["lap"] as String? } + open.map { $0["lap"] ?? "" }
        guard
            [["last null", "next text", "open array"], ["last text", "next text", "open array"]]
                .contains(types),
            open.allSatisfy({ $0["type"] as String == "text" }), laps.allSatisfy(isUUID),
            let next = named["next"] ?? nil
        else {
            throw RequestEnvelope.error(
                "lap has another form.",
                #"{"last": UUID or null, "open": [UUIDs], "next": UUID}"#
            )
        }
        return .init(last: named["last"] ?? nil, open: open.map { $0["lap"] }, next: next)
    }

    private static func ids(
        _ name: String,
        _ text: String,
        _ limits: Limits,
        in db: Database
    ) throws -> [String] {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: "SELECT type, lower(atom) AS id FROM json_each(?1, '$.\(name)')"
            ),
            arguments: [text]
        )
        let isArray = try Bool.fetchOne(
            db.cachedStatement(
                sql: "SELECT coalesce(json_type(?1, '$.\(name)'), 'array') = 'array'"
            ),
            arguments: [text]
        )
        guard isArray == true, rows.count <= limits.changeSetsPerRequestMax,
            rows.allSatisfy({ $0["type"] as String == "text" && isUUID($0["id"] ?? "") })
        else {
            throw RequestEnvelope.error(
                "\(name) is no list of change set ids.",
                "an array of at most \(limits.changeSetsPerRequestMax) UUIDs"
            )
        }
        return rows.map { $0["id"] }
    }

    private static func isUUID(_ text: String) -> Bool {
        UUID(uuidString: text) != nil
    }
}
