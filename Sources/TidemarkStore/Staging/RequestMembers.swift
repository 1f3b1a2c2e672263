import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// The members of a request, each once, read by SQLite's JSON functions in one statement; no table
/// is touched.
struct RequestMembers {
    private struct Member {
        /// As `json_type` calls it.
        let type: String
        /// Arrays and objects as their JSON.
        let value: DatabaseValue
        let hasNUL: Bool
    }

    private let byName: [String: Member]

    /// Reads a request, by its outline if it has been taken apart.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` when it is not JSON, no object, or has a member
    ///   twice or one that the protocol does not know.
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
        // An empty object has one row, of nothing.
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

    /// Where there are more members than names, one of the first is unknown or there twice.
    private static let sql = """
        SELECT json_type(?1) AS root, j.key AS name, j.type, j.value,
            j.type = 'text' AND instr(?1, '\\u0000') > 0 AND instr(?1 -> j.fullkey, '\\u0000') > 0 AS has_nul
        FROM (SELECT 1) LEFT JOIN json_each(?1) AS j
        LIMIT \(WireName.requestMembers.count + 1)
        """

    /// The type of a member, as `json_type` calls it; nil when it is not there.
    func type(_ name: String) -> String? { byName[name]?.type }

    /// A member's text: nil when it is not there or null.
    ///
    /// NUL in it is refused: what stands behind it would count for nothing.
    func text(_ name: String) throws -> String? {
        guard let member = byName[name], member.type != "null" else { return nil }
        guard member.type == "text", !member.hasNUL, let text = String.fromDatabaseValue(member.value) else {
            throw Self.error("\(name) is not a string without NUL.", "a string, and may be left out")
        }
        return text
    }

    /// A member that is an integer if it is there.
    func number(_ name: String, from lowest: Int64, _ meaning: String) throws -> Int64? {
        guard let member = byName[name] else { return nil }
        // An integer beyond 64 bits is a real to SQLite.
        guard member.type == "integer", case .int64(let number) = member.value.storage, number >= lowest else {
            throw Self.error("\(name) is no integer from \(lowest) on.", meaning)
        }
        return number
    }

    /// A member that is `true` or `false` if it is there.
    func truth(_ name: String) throws -> Bool? {
        switch type(name) {
        case nil: nil
        case "true": true
        case "false": false
        default: throw Self.error("\(name) is no truth value.", "true or false, or left out")
        }
    }

    /// The JSON of a member that is an array, which is empty when it is not there; nil when it is
    /// something else.
    func array(_ name: String) -> String? {
        guard let member = byName[name] else { return "[]" }
        return member.type == "array" ? String.fromDatabaseValue(member.value) : nil
    }

    /// The JSON of a member that is an object; nil when it is something else.
    func object(_ name: String) -> String? {
        guard let member = byName[name], member.type == "object" else { return nil }
        return String.fromDatabaseValue(member.value)
    }

    static func error(_ message: String, _ fix: String) -> TidemarkError {
        TidemarkError(.malformedRequest, message, fix: "It is \(fix); see PROTOCOL.md.")
    }

    /// Explains where a body stops being JSON, for people who type it by hand.
    private static func malformed(_ body: [UInt8]) -> TidemarkError {
        var cause = "it is not a JSON object"
        do { _ = try JSONSerialization.jsonObject(with: Data(body)) } catch {
            let words = "NSDebugDescription"
            let detail = (error as NSError).userInfo[words] as? String
            cause = detail ?? "it is not JSON"
        }
        return TidemarkError(
            .malformedRequest,
            "The body cannot be read: \(cause)",
            fix: #"The shortest request is {"maxRevision":0,"changeSets":[]}."#
        )
    }
}
