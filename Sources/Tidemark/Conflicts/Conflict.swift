import Foundation
import GRDB
import TidemarkCore

/// A refused change set, parked until somebody decides what becomes of it.
public struct Conflict: Hashable, Sendable, Codable {
    /// Why the server refused.
    public struct Reason: Hashable, Sendable, Codable {
        /// The table; empty when it is about the change set as a whole.
        public let table: String
        /// The columns where the two sides meet; empty when it is about the whole record.
        public let columns: [String]
        /// The rule, for instance `changed` or `unique`.
        public let rule: String
        /// The rule in words.
        public let message: String
    }

    /// One record of the change set, three times. Images are JSON objects of columns.
    public struct Record: Hashable, Sendable, Codable {
        /// The table.
        public let table: String
        /// The key in canonical JSON.
        public let key: String
        /// What the change set does: `create`, `update` or `delete`.
        public let operation: String
        /// The record as the server had confirmed it when it was edited; nil: it was not there.
        public let base: String?
        /// The columns that the change set sets; nil for a deletion.
        public let mine: String?
        /// The record as the server has it; nil: it is not there.
        public let theirs: String?
    }

    /// A small number for people; stays the same while the conflict is parked.
    public let number: Int
    /// The change set's id.
    public let id: String
    /// When it was parked, ISO 8601.
    public let parked: String
    /// Why.
    public let reasons: [Reason]
    /// Its records.
    public let records: [Record]

    /// Reads the parked conflicts, oldest first.
    static func all(_ db: Database) throws -> [Conflict] {
        let rows = try Row.fetchAll(db, sql: "SELECT * FROM tidemark_conflict ORDER BY number")
        return try rows.map { row in
            let id: String = row["id"]
            let reasons: String = row["reasons"]
            let records = try Row.fetchAll(
                db, sql: "SELECT * FROM tidemark_conflict_record WHERE id = ? ORDER BY tbl, length(key), key",
                arguments: [id])
            return Conflict(
                number: row["number"], id: id, parked: row["parked"],
                reasons: try JSONDecoder().decode([Reason].self, from: Data(reasons.utf8)),
                records: records.map {
                    Record(
                        table: $0["tbl"], key: $0["key"], operation: $0["operation"],
                        base: $0["base"], mine: $0["mine"], theirs: $0["theirs"])
                })
        }
    }
}

/// What becomes of a parked conflict.
public enum Resolution: String, Hashable, Sendable {
    /// The server's rows stay; mine is dropped.
    case accept
    /// My changes are made again on top of the server's rows, as a new change set.
    case retry
}
