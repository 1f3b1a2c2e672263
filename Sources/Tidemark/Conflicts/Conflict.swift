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
    /// Where a record was not deleted because others refer to it: those that do so now.
    public internal(set) var referrers: [Referrers] = []

    /// Reads the parked conflicts, oldest first.
    static func all(_ db: Database) throws -> [Conflict] {
        let rows = try Row.fetchAll(db.cachedStatement(sql: "SELECT * FROM tidemark_conflict ORDER BY number"))
        guard !rows.isEmpty else { return [] }
        let reasons = try reasons(db)
        let records = try records(db)
        let after = try Dictionary(grouping: Row.fetchAll(db.cachedStatement(sql: afterSQL))) {
            try $0.value("id") as String
        }
        return try rows.map { row in
            let id: String = try row.value("id")
            return Conflict(
                number: try row.value("number"),
                kind: try Kind(rawValue: row.value("kind")) ?? .refused,
                id: id,
                parked: try row.value("parked"),
                reasons: reasons[id] ?? [],
                records: records[id] ?? [],
                after: try (after[id] ?? []).map { try $0.value("before") }
            )
        }
    }

    private static let afterSQL = """
        SELECT c.id, p.id AS before FROM tidemark_conflict AS c, json_each(c.after) AS a
        JOIN tidemark_conflict AS p ON p.id = a.value ORDER BY p.number
        """

    private static func reasons(_ db: Database) throws -> [String: [Reason]] {
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT t.id, CAST(value ->> '$.table' AS TEXT) AS tbl, value -> '$.key' AS key,
                        CAST(value ->> '$.rule' AS TEXT) AS rule,
                        CAST(value ->> '$.message' AS TEXT) AS message,
                        (SELECT group_concat(c.value, char(10))
                            FROM json_each(r.value, '$.columns') AS c) AS columns
                    FROM tidemark_conflict AS t, json_each(t.reasons) AS r
                    """
            )
        )
        return try Dictionary(grouping: rows) { try $0.value("id") as String }.mapValues {
            try $0.map { row in
                let columns: String? = try row.value("columns")
                return Reason(
                    table: try row.value("tbl") as String? ?? "",
                    key: try row.value("key"),
                    columns: columns?.split(separator: "\n").map(String.init) ?? [],
                    rule: try row.value("rule") as String? ?? "",
                    message: try row.value("message") as String? ?? ""
                )
            }
        }
    }

    private static func records(_ db: Database) throws -> [String: [Record]] {
        let rows = try Row.fetchAll(
            db.cachedStatement(sql: "SELECT * FROM tidemark_conflict_record ORDER BY id, tbl, length(key), key")
        )
        return try Dictionary(grouping: rows) { try $0.value("id") as String }.mapValues {
            try $0.map { row in
                Record(
                    table: try row.value("tbl"),
                    key: try row.value("key"),
                    operation: try row.value("operation"),
                    base: try row.value("base"),
                    mine: try row.value("mine"),
                    theirs: try row.value("theirs")
                )
            }
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
