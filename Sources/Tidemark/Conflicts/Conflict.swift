import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// A parked entry: a refused change set, or values that another change set overruled.
///
/// The device keeps a refused change set until the user or the app resolves it, and overruled values
/// until the user or the app restores or dismisses them.
public struct Conflict: Hashable, Sendable, Codable, Identifiable {
    /// Whether the entry needs a decision.
    public enum Kind: String, Hashable, Sendable, Codable {
        /// The server refused the change set, or no trigger captured it; nothing of it is in the rows.
        case refused
        /// The server applied the change set, but kept other values in some columns by their policy.
        case overruled
    }

    /// Why the server refused.
    public struct Reason: Hashable, Sendable, Codable {
        /// The table; empty when it is about the change set as a whole.
        public let table: String
        /// The record's key in canonical JSON; nil when it is about more than one record.
        public let key: String?
        /// The conflicting columns; empty when the reason is about the whole record.
        public let columns: [String]
        /// The rule, for instance `changed` or `unique`.
        public let rule: String
        /// The rule in words.
        public let message: String
    }

    /// One record of the change set in three versions, each a JSON object of columns: base, mine and theirs.
    public struct Record: Hashable, Sendable, Codable {
        /// The table.
        public let table: String
        /// The key in canonical JSON.
        public let key: String
        /// The operation: `create`, `update` or `delete`; `unchanged` for another's record that blocks it.
        public let operation: String
        /// The record as the server last confirmed it before the edit, in JSON; nil if it did not exist.
        ///
        /// Once a conflict that this one depends on is made again, the record as that has left it. ``versions(as:)``
        /// has values.
        public let base: String?
        /// The columns that the change set sets, or adds to, as `{"$add":-2}` in place of a value; nil for a deletion.
        public let mine: String?
        /// The server's record as it is now, without pending changes of this device; nil if the server has none.
        ///
        /// Of overruled values: the columns of ``mine`` as they stand now. While the file has no rows of the server,
        /// it is the record as it was when the device parked the change set.
        public internal(set) var theirs: String?
        /// The record in this file, if pending changes of the device make it another one than ``theirs``, in JSON.
        ///
        /// `null` if they delete it. A retry replaces them, too. Nil if ``base`` has them.
        public internal(set) var here: String?
        /// The names of the key's columns; empty if the table no longer syncs.
        var keyNames: [String] = []
        /// The names of the table's columns, in its order; empty if the table no longer syncs.
        package internal(set) var columnNames: [String] = []
        /// The columns of ``mine`` that the table in this file no longer has.
        package internal(set) var missingColumns: [String] = []
        /// Whether the table no longer syncs in this file.
        package internal(set) var isTableMissing = false

        /// The text of ``here`` for a record that is not in the file.
        static let missing = "null"

        private enum CodingKeys: CodingKey { case table, key, operation, base, mine, theirs, here }
    }

    /// A small number for people; stays the same while the conflict is parked.
    public let number: Int
    /// The kind of the entry.
    public let kind: Kind
    /// The change set's id; a random id for values that another change set overruled later.
    public let id: String
    /// When the device parked it, ISO 8601.
    public let parked: String
    /// The reasons for the refusal or the overruling.
    public let reasons: [Reason]
    /// Its records.
    public internal(set) var records: [Record]
    /// The ids of the parked conflicts that this one depends on; they must be resolved first.
    public let after: [String]
    /// The records that now refer to a record whose deletion they prevented.
    public internal(set) var referrers: [Referrers] = []
    /// Other records that a retry would delete or change now, because they refer to a record that it deletes.
    public internal(set) var takenAlong: [TakenAlong] = []
    /// Whether the server's records, or those that a retry takes along, are others than when the device parked it.
    public internal(set) var hasChanged = false
    /// What the conflict shows of the server's rows, as a short hash: equal texts have shown the same.
    public internal(set) var seen = ""
    /// Whether a text of the conflict in the file is damaged; ``Resolution/accept`` is possible then.
    public internal(set) var isDamaged = false

    /// Reads the parked conflicts, oldest first, with the server's records as they were when the device parked them.
    static func all(_ db: Database) throws -> [Conflict] {
        let rows = try Row.fetchAll(db, cached: "SELECT * FROM tidemark_conflict ORDER BY number")
        guard !rows.isEmpty else { return [] }
        let ids = try rows.map { try $0.value("id") as String }
        let places = Dictionary(uniqueKeysWithValues: ids.enumerated().map { ($1, $0) })
        let records = try Row.fetchAll(
            db, cached: "SELECT * FROM tidemark_conflict_record ORDER BY id, tbl, length(key), key")
        let parked = try Dictionary(grouping: records) { try $0.value("id") as String }
        return try zip(ids, rows).map { id, row in
            let reasons = try Reason.list(row.value("reasons"))
            let after = try JSONParts.elements(of: row.value("after"))?.map(JSONText.unquote)
            let records = try parked[id, default: []].map(Record.read)
            var conflict = Conflict(
                number: try row.value("number"), kind: try Kind(rawValue: row.value("kind")) ?? .refused, id: id,
                parked: try row.value("parked"), reasons: reasons ?? [], records: records.map(\.record),
                after: (after ?? []).compactMap { places[$0] }.sorted().map { ids[$0] })
            conflict.isDamaged = reasons == nil || after == nil || !records.allSatisfy(\.isSound)
            return conflict
        }
    }
}

extension Conflict.Record {
    /// Reads a parked record without the texts that are damaged, which would hide all conflicts.
    fileprivate static func read(_ row: Row) throws -> (record: Self, isSound: Bool) {
        let names = ["base", "mine", "theirs"]
        let images = try names.map { name in try (row.value(name) as String?).map { ($0, JSONParts.members(of: $0)) } }
        let texts = images.map { image in image?.1 == nil ? nil : image?.0 }
        let record = Self(
            table: try row.value("tbl"), key: try row.value("key"), operation: try row.value("operation"),
            base: texts[0], mine: texts[1], theirs: texts[2])
        let isSound =
            JSONParts.elements(of: "[\(record.key)]") != nil && images.allSatisfy { $0 == nil || $0?.1 != nil }
        return (record, isSound)
    }
}

extension Conflict.Reason {
    /// Reads an array of a response without white space; nil if a reason has a form that the protocol does not allow.
    static func list(_ json: String) -> [Self]? {
        let reasons = JSONParts.elements(of: json)?.map(Self.init(json:))
        return reasons.flatMap { $0.contains(nil) ? nil : $0.compactMap(\.self) }
    }

    private init?(json: String) {
        guard let members = JSONParts.members(of: json) else { return nil }
        let value = { (name: String) in members.first { $0.name == name }?.value }
        guard let columns = JSONParts.elements(of: value("columns") ?? "[]") else { return nil }
        let texts = ["table", "rule", "message"].map { value($0) ?? "\"\"" } + columns
        guard texts.allSatisfy({ $0.hasPrefix("\"") }) else { return nil }
        self.init(
            table: JSONText.unquote(texts[0]), key: value("key"), columns: columns.map(JSONText.unquote),
            rule: JSONText.unquote(texts[1]), message: JSONText.unquote(texts[2]))
    }

    /// The reason as JSON, in the form of a response's `reasons`.
    var json: String {
        let quote: (String) -> String = { JSONText.quote($0) }
        let key = key.map { "\"key\":\($0)," } ?? ""
        let columns = columns.map(quote).joined(separator: ",")
        return "{\"table\":\(quote(table)),\(key)\"columns\":[\(columns)],"
            + "\"rule\":\(quote(rule)),\"message\":\(quote(message))}"
    }

    static let missing = Self(
        table: "", key: nil, columns: [], rule: "missing",
        message: "The server accepted the change set, but does not have these new records.")

    static let uncapturedRule = "uncaptured"

    static let uncapturedIDs = """
        SELECT id FROM tidemark_conflict
        WHERE CASE WHEN json_valid(reasons) THEN reasons ->> '$[0].rule' END = '\(uncapturedRule)'
        """

    static let uncaptured = Self(
        table: "", key: nil, columns: [], rule: uncapturedRule,
        message: "These rows were changed here without a capture; a program seems to switch triggers off, "
            + "or a migration made the table again.")

    static let predecessor = Self(
        table: "", key: nil, columns: [], rule: ConflictRule.predecessor.rawValue,
        message: "The change set that this one depends on was refused.")
}
