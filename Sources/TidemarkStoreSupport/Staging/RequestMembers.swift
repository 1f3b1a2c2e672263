import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// The members of a request, read by SQLite's JSON functions in one statement.
struct RequestMembers {
    private struct Member {
        /// The type as `json_type` names it.
        let type: String
        /// The value; an array or object is JSON text.
        let value: DatabaseValue
        let hasNUL: Bool
    }

    private let byName: [String: Member]

    /// Reads a request, or its outline if the staging has split it.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it is not a JSON object, or has a duplicate or
    ///   unknown member.
    init(_ body: [UInt8], outline: String?, in db: Database) throws {
        let rows: [Row]
        do {
            rows = try Row.fetchAll(
                db.cachedStatement(sql: Self.sql),
                arguments: [outline ?? String(decoding: body, as: UTF8.self)]
            )
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR { throw Self.malformed(body) }
        guard try rows.first?.value("root") as String? == "object" else { throw Self.malformed(body) }
        var byName: [String: Member] = [:]
        // An empty object gives one row of nulls.
        for row in rows where try row.value("type") as String? != nil {
            let name: String = try row.value("name")
            guard WireName.requestMembers.contains(name) else {
                throw Self.error("The request has a member \(name).", "not part of the protocol")
            }
            let member = try Member(type: row.value("type"), value: row.value("value"), hasNUL: row.value("has_nul"))
            guard byName.updateValue(member, forKey: name) == nil else {
                throw TidemarkError(.duplicateName, "The request has a member twice.", fix: "Give each name once.")
            }
        }
        self.byName = byName
    }

    /// Reads the members of the request `?1`.
    ///
    /// The limit suffices: with more members than names, an earlier one is unknown or a duplicate.
    private static let sql = """
        SELECT json_type(?1) AS root, member.key AS name, member.type, member.value,
            member.type = 'text' AND instr(?1, '\\u0000') > 0
                AND instr(?1 -> member.fullkey, '\\u0000') > 0 AS has_nul
        FROM (SELECT 1)
        LEFT JOIN json_each(?1) AS member
        LIMIT \(WireName.requestMembers.count + 1)
        """

    /// Returns the type of a member, as `json_type` names it; nil when it is absent.
    func type(_ name: String) -> String? { byName[name]?.type }

    /// Returns the text of a member; nil when it is absent or null.
    ///
    /// A text with NUL is refused, because SQLite functions ignore the rest after NUL.
    func text(_ name: String) throws -> String? {
        guard let member = byName[name], member.type != "null" else { return nil }
        guard member.type == "text", !member.hasNUL, let text = String.fromDatabaseValue(member.value) else {
            throw Self.error("\(name) is not a string without NUL.", "a string, and may be left out")
        }
        return text
    }

    /// Returns an integer member; nil when it is absent.
    func number(_ name: String, from lowest: Int64, _ meaning: String) throws -> Int64? {
        guard let member = byName[name] else { return nil }
        // SQLite reads an integer beyond 64 bits as a real.
        guard member.type == "integer", case .int64(let number) = member.value.storage, number >= lowest else {
            throw Self.error("\(name) is no integer from \(lowest) on.", meaning)
        }
        return number
    }

    /// Returns a Boolean member; nil when it is absent.
    func truth(_ name: String) throws -> Bool? {
        switch type(name) {
        case nil: nil
        case "true": true
        case "false": false
        default: throw Self.error("\(name) is not true or false.", "true or false, or left out")
        }
    }

    /// Returns the JSON of an array member, `[]` when it is absent, nil when it is no array.
    func array(_ name: String) -> String? {
        guard let member = byName[name] else { return "[]" }
        return member.type == "array" ? String.fromDatabaseValue(member.value) : nil
    }

    /// Returns the JSON of an object member; nil when it is absent or no object.
    func object(_ name: String) -> String? {
        guard let member = byName[name], member.type == "object" else { return nil }
        return String.fromDatabaseValue(member.value)
    }

    static func error(_ message: String, _ fix: String) -> TidemarkError {
        TidemarkError(.malformedRequest, message, fix: "It is \(fix); see PROTOCOL.md.")
    }

    /// Explains where a body is not JSON, for people who write it by hand.
    private static func malformed(_ body: [UInt8]) -> TidemarkError {
        TidemarkError(
            .malformedRequest,
            "The body cannot be read: \(JSONFault.cause(in: body))",
            fix: #"The shortest request is {"maxRevision":0,"changeSets":[]}."#
        )
    }
}
