import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// A refused change set, parked until somebody decides what becomes of it; or values that another
/// change set overruled, kept until somebody restores or dismisses them.
public struct Conflict: Hashable, Sendable, Codable {
    /// Whether something has to be decided.
    public enum Kind: String, Hashable, Sendable, Codable {
        /// The change set was refused: nothing of it stands on the server.
        case refused
        /// The change set stands, but by the policy of some columns other values do.
        case overruled
    }

    /// Why the server refused.
    public struct Reason: Hashable, Sendable, Codable {
        /// The table; empty when it is about the change set as a whole.
        public let table: String
        /// The record's key in canonical JSON; nil when it is about more than one record.
        public let key: String?
        /// The columns where the two sides meet; empty when it is about the whole record.
        public let columns: [String]
        /// The rule, for instance `changed` or `unique`.
        public let rule: String
        /// The rule in words.
        public let message: String
    }

    /// One record of the change set, three times.
    ///
    /// Images are JSON objects of columns.
    public struct Record: Hashable, Sendable, Codable {
        /// The table.
        public let table: String
        /// The key in canonical JSON.
        public let key: String
        /// What the change set does: `create`, `update` or `delete`; `unchanged` for a record of
        /// somebody else's that stands in its way.
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
    /// What kind of entry it is.
    public let kind: Kind
    /// The change set's id; of values that somebody else overruled later, a random one.
    public let id: String
    /// When it was parked, ISO 8601.
    public let parked: String
    /// Why.
    public let reasons: [Reason]
    /// Its records.
    public let records: [Record]
    /// The ids of the parked conflicts that this one builds on: they are resolved first.
    public let after: [String]

    /// Reads the parked conflicts, oldest first.
    static func all(_ db: Database) throws -> [Conflict] {
        let rows = try Row.fetchAll(db, sql: "SELECT * FROM tidemark_conflict ORDER BY number")
        return try rows.map { row in
            Conflict(
                number: row["number"],
                kind: Kind(rawValue: row["kind"]) ?? .refused,
                id: row["id"],
                parked: row["parked"],
                reasons: try reasons(row["reasons"], in: db),
                records: try records(row["id"], in: db),
                after: try String.fetchAll(
                    db,
                    sql: """
                        SELECT p.id FROM json_each(?) AS a JOIN tidemark_conflict AS p
                            ON p.id = a.value ORDER BY p.number
                        """,
                    arguments: [row["after"]]
                )
            )
        }
    }

    private static func reasons(_ json: String, in db: Database) throws -> [Reason] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT value ->> '$.table' AS tbl, value -> '$.key' AS key,
                    value ->> '$.rule' AS rule, value ->> '$.message' AS message,
                    (SELECT group_concat(c.value, char(10)) FROM json_each(r.value, '$.columns') AS c)
                        AS columns
                FROM json_each(?) AS r
                """,
            arguments: [json]
        ).map { row in
            let columns: String? = row["columns"]
            return Reason(
                table: row["tbl"] as String? ?? "",
                key: row["key"],
                columns: columns?.split(separator: "\n").map(String.init) ?? [],
                rule: row["rule"] as String? ?? "",
                message: row["message"] as String? ?? ""
            )
        }
    }

    private static func records(_ id: String, in db: Database) throws -> [Record] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT * FROM tidemark_conflict_record WHERE id = ? ORDER BY tbl, length(key), key
                """,
            arguments: [id]
        ).map {
            Record(
                table: $0["tbl"],
                key: $0["key"],
                operation: $0["operation"],
                base: $0["base"],
                mine: $0["mine"],
                theirs: $0["theirs"]
            )
        }
    }
}

extension Conflict.Reason {
    /// The reason as it travels in `reasons` of an answer.
    var json: String {
        let quote = ChangeSetJSON.quote
        let key = key.map { "\"key\":\($0)," } ?? ""
        let columns = columns.map(quote).joined(separator: ",")
        return "{\"table\":\(quote(table)),\(key)\"columns\":[\(columns)],"
            + "\"rule\":\(quote(rule)),\"message\":\(quote(message))}"
    }

    /// The reason of new records that are not there although their change set was accepted.
    static let missing = Self(
        table: "",
        key: nil,
        columns: [],
        rule: "missing",
        message: "The server accepted the change set, but does not have these new records."
    )

    /// The reason of a change set that was parked along with the one that it depends on.
    static let predecessor = Self(
        table: "",
        key: nil,
        columns: [],
        rule: ConflictRule.predecessor.rawValue,
        message: "The change set that this one depends on was refused."
    )
}
