import Foundation
import GRDB
package import TidemarkCore
import TidemarkEngine
import TidemarkSQL

/// Collects the evidence about the records in `temp.tidemark_contended`.
///
/// The pure function `judge` contains the rule itself.
extension StagedRequest {
    /// Identifies a record in a zone.
    package struct RecordName: Hashable, Sendable {
        /// The table.
        package let table: String
        /// The key in canonical JSON.
        package let key: String

        /// Names a record.
        package init(table: String, key: String) {
            self.table = table
            self.key = key
        }
    }

    /// The changes of a record since its base, oldest first, and whether the author has seen each.
    package typealias History = [(change: UnseenChange, isSeen: Bool)]

    /// Makes the evidence of one log entry.
    ///
    /// `columns` is a JSON array of names, or nil if the operation concerns the whole record.
    package static func unseen(operation: String, columns: String?, stamp: Stamp) throws -> UnseenChange {
        UnseenChange(
            operation: TidemarkCore.Operation(rawValue: operation) ?? .update,
            columns: try columns.map { try JSONDecoder().decode(Set<String>.self, from: Data($0.utf8)) } ?? [],
            stamp: stamp
        )
    }

    /// Returns the change set's records from which the database may cascade, and their oldest base.
    ///
    /// The records are a JSON array. Returns nil when no other table can be affected.
    package func cascadeSources(_ ord: Int, base: Int64) throws -> (records: String, base: Int64)? {
        let changedTables = try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT DISTINCT tbl
                    FROM temp.tidemark_staged
                    WHERE ord = ? AND operation <> 'create'
                    """
            ),
            arguments: [ord]
        )
        let refersToChanged = { (table: SyncedTable) in table.references.contains { changedTables.contains($0.parent) }
        }
        guard schema.tables.contains(where: refersToChanged) else { return nil }
        return try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT min(?1, min(coalesce(base, ?1))) AS base,
                        json_group_array(json_object('tbl', tbl, 'key', key)) AS records
                    FROM temp.tidemark_staged
                    WHERE ord = ?2
                    """
            ),
            arguments: [base, ord]
        ).map { try ($0.value("records"), $0.value("base")) }
    }

    /// Refuses a change set whose own deletions cascade to records that it created or updated.
    ///
    /// `findLost` returns the key of one such record of a table.
    package func refuseLost(_ ord: Int, findLost: (SyncedTable) throws -> String?) throws {
        for table in try touchedTables(ord) where !table.references.isEmpty {
            guard let key = try findLost(table) else { continue }
            throw Violation.conflict([ConflictReason(table: table.name, key: key, columns: [], rule: .parentDeleted)])
        }
    }

    /// Whether any record is contended.
    package func hasContended() throws -> Bool {
        try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_contended)")) ?? false
    }

    /// Returns the contended records with the changes that their author has not seen, oldest first.
    package func contentions(_ histories: [RecordName: History], stamp: Stamp, isCascade: Bool) throws -> [Contention] {
        let differing = isCascade ? [:] : try differingColumns()
        let absolute = isCascade ? [:] : try absoluteColumns()
        let sums = isCascade ? [] : try sums()
        return try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT tbl, key, operation, present
                    FROM temp.tidemark_contended
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
            let missed = UnseenChange.selectUnseen(
                from: history,
                columns: Set(table?.valueColumns.map(\.name) ?? []),
                adding: schema.addingColumns(of: record.table)
            )
            // The author has replaced all other changes. A record without a known history stays
            // contended.
            let isReplaced = missed.isEmpty && !history.isEmpty
            guard operation == .create || !exists || !isReplaced else { return nil }
            return Contention(
                table: record.table,
                key: record.key,
                operation: operation,
                differingColumns: isCascade ? Set(references) : differing[record] ?? [],
                absoluteColumns: absolute[record] ?? [],
                isSum: sums.contains(record),
                unseen: missed,
                exists: exists,
                stamp: stamp,
                isCascade: isCascade,
                isNumbered: table?.keyKind == .integer
            )
        }
    }

    /// Returns the contended records whose staged updates only add to columns.
    private func sums() throws -> Set<RecordName> {
        guard try Delta.isStaged(in: db) else { return [] }
        let rows = try Row.fetchAll(
            db.cachedStatement(
                sql: """
                    SELECT contended.tbl, contended.key
                    FROM temp.tidemark_contended AS contended
                    WHERE contended.operation = 'update'
                        AND EXISTS (SELECT 1 FROM temp.tidemark_staged_delta AS delta WHERE delta.rec = contended.rec)
                        AND NOT EXISTS (
                            SELECT 1
                            FROM temp.tidemark_staged_cell AS cell
                            JOIN temp.tidemark_column AS known_column
                                ON known_column.tbl = contended.tbl AND known_column.col = cell.col
                            WHERE cell.rec = contended.rec AND known_column.key_position IS NULL)
                    """
            )
        )
        return try Set(rows.map { try RecordName(table: $0.value("tbl"), key: $0.value("key")) })
    }

    /// Returns the columns in which staged updates and creations differ from the current rows.
    ///
    /// A column to which an update adds differs if it has no integer now.
    private func differingColumns() throws -> [RecordName: Set<String>] {
        try columns(
            """
            SELECT contended.tbl, contended.key, cell.col
            FROM temp.tidemark_contended AS contended, json_each(contended.image) AS member
            JOIN temp.tidemark_staged_cell AS cell
                ON cell.rec = contended.rec AND cell.col = \(MemberSQL.name(of: "member.key"))
            WHERE contended.operation <> 'delete'
                AND tidemark_key(cell.value) IS NOT (contended.image -> member.fullkey)
            UNION ALL
            SELECT contended.tbl, contended.key, delta.col
            FROM temp.tidemark_contended AS contended
            JOIN temp.tidemark_staged_delta AS delta ON delta.rec = contended.rec
            JOIN json_each(contended.image) AS member ON \(MemberSQL.name(of: "member.key")) = delta.col
            WHERE member.type <> 'integer'
            """
        )
    }

    /// Returns the columns with the policy `add` that staged updates and creations set to a value.
    private func absoluteColumns() throws -> [RecordName: Set<String>] {
        guard schema.policies.values.contains(.add) else { return [:] }
        return try columns(
            """
            SELECT contended.tbl, contended.key, cell.col
            FROM temp.tidemark_contended AS contended
            JOIN temp.tidemark_staged_cell AS cell ON cell.rec = contended.rec
            JOIN temp.tidemark_column AS known_column
                ON known_column.tbl = contended.tbl AND known_column.col = cell.col AND known_column.adds
            WHERE contended.operation <> 'delete'
            """
        )
    }

    /// Returns the columns of contended records that a query finds, as `tbl`, `key` and `col`.
    private func columns(_ query: String) throws -> [RecordName: Set<String>] {
        var columns: [RecordName: Set<String>] = [:]
        let rows = try Row.fetchCursor(db.cachedStatement(sql: query))
        while let row = try rows.next() {
            try columns[RecordName(table: row.value("tbl"), key: row.value("key")), default: []].insert(
                row.value("col")
            )
        }
        return columns
    }
}
