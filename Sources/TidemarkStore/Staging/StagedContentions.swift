import Foundation
import GRDB
package import TidemarkCore
import TidemarkServer
import TidemarkSQLite

/// What is known of the records in `temp.tidemark_contended`, put together as evidence.
///
/// The rule itself is `judge`, a pure function.
extension StagedRequest {
    /// A record's place in a zone.
    package struct RecordName: Hashable, Sendable {
        /// The table.
        package let table: String
        /// The key in canonical JSON.
        package let key: String

        /// Names a record.
        package init(table: String, key: String) { (self.table, self.key) = (table, key) }
    }

    /// What was done to a record since its base, oldest first, and whether the author of the change
    /// set has seen it.
    package typealias History = [(change: UnseenChange, isSeen: Bool)]

    /// A log entry's part of the evidence.
    ///
    /// `columns` is a JSON array of names, nil where the operation is about the whole record.
    package static func unseen(operation: String, columns: String?, stamp: Stamp) throws -> UnseenChange {
        UnseenChange(
            operation: TidemarkCore.Operation(rawValue: operation) ?? .update,
            columns: try columns.map { try JSONDecoder().decode(Set<String>.self, from: Data($0.utf8)) } ?? [],
            stamp: stamp
        )
    }

    /// The records of a change set that the database may change others along with, a JSON array,
    /// and the oldest base among them; nil when there are none.
    package func cascading(_ ord: Int, base: Int64) throws -> (records: String, base: Int64)? {
        let left = try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT tbl FROM temp.tidemark_staged
                    WHERE ord = ? AND operation <> 'create'
                    """
            ),
            arguments: [ord]
        )
        guard schema.tables.contains(where: { $0.references.contains { left.contains($0.parent) } }) else { return nil }
        return try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT min(?1, min(coalesce(base, ?1))) AS base,
                        json_group_array(json_object('tbl', tbl, 'key', key)) AS records
                    FROM temp.tidemark_staged WHERE ord = ?2
                    """
            ),
            arguments: [base, ord]
        ).map { try ($0.value("records"), $0.value("base")) }
    }

    /// Refuses a change set of which records are gone that it created or updated: its own
    /// deletions have taken them along, which their author did not see.
    ///
    /// `lost` finds one of a table.
    package func refuseLost(_ ord: Int, lost: (SyncedTable) throws -> String?) throws {
        for table in try touchedTables(ord) where !table.references.isEmpty {
            guard let key = try lost(table) else { continue }
            throw Violation.conflict([ConflictReason(table: table.name, key: key, columns: [], rule: .parentDeleted)])
        }
    }

    /// Whether any record is contended.
    package func hasContended() throws -> Bool {
        try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_contended)")) ?? false
    }

    /// The contended records with what their author has missed of each, oldest first.
    package func contentions(_ histories: [RecordName: History], stamp: Stamp, isCascade: Bool) throws -> [Contention] {
        let differing = isCascade ? [:] : try differingColumns()
        return try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, key, operation, present FROM temp.tidemark_contended
                    ORDER BY tbl, length(key), key
                    """
            )
        ).compactMap { row -> Contention? in
            let record = try RecordName(table: row.value("tbl"), key: row.value("key"))
            let table = schema.byName[record.table]
            let references = table?.references.flatMap(\.columns) ?? []
            let operation = try TidemarkCore.Operation(rawValue: row.value("operation")) ?? .update
            let exists: Bool = try row.value("present")
            let history = histories[record] ?? []
            let missed = UnseenChange.missed(of: history, columns: Set(table?.valueColumns.map(\.name) ?? []))
            // The author has replaced all that others did. Where nobody knows what they did, that
            // they did something is enough.
            let isReplaced = missed.isEmpty && !history.isEmpty
            guard operation == .create || !exists || !isReplaced else { return nil }
            return Contention(
                table: record.table,
                key: record.key,
                operation: operation,
                differingColumns: isCascade ? Set(references) : differing[record] ?? [],
                unseen: missed,
                exists: exists,
                stamp: stamp,
                isCascade: isCascade
            )
        }
    }

    /// The columns that staged updates and creations set to other values than the rows have now.
    private func differingColumns() throws -> [RecordName: Set<String>] {
        var differing: [RecordName: Set<String>] = [:]
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT w.tbl, w.key, c.col
                    FROM temp.tidemark_contended AS w, json_each(w.image) AS j
                    JOIN temp.tidemark_staged_cell AS c ON c.rec = w.rec AND c.col = j.key
                    WHERE w.operation <> 'delete' AND tidemark_key(c.value) IS NOT (w.image -> j.fullkey)
                    """
            )
        )
        while let row = try rows.next() {
            try differing[RecordName(table: row.value("tbl"), key: row.value("key")), default: []].insert(
                row.value("col")
            )
        }
        return differing
    }
}
