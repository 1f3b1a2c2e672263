import GRDB
import TidemarkCore
import TidemarkSQL

/// Judges pending changes whose bases belong to another history than the server's.
///
/// A base is a revision of the old history and means nothing in the new one, so the device compares rows by
/// ``ThreeWay``: what overwrites nothing is sent again, what the record has already leaves the outbox, and anything
/// else is parked as a conflict, with the current record.
///
/// A deletion would also delete children that its author has not seen, because the server takes it for newer than
/// they are. The device parks it, too.
struct JudgeAfterReset {
    let db: Database
    let schema: SyncSchema
    /// The sequence number of the first change set to judge.
    let firstWaiting: Int64
    /// The referenced records; nil if every id still stands for the same record.
    let parents: OldParents?
    let now: String
    /// Whether no waiting change has taken effect on the server's rows.
    ///
    /// If the server remembers this device, it knows the verdicts on all that it has accepted. A server
    /// that has the rows but has lost its bookkeeping knows none.
    let knowsVerdicts: Bool
    /// The reason in the conflict: why the record differs from the one that the author saw.
    var cause = "The server's history has changed, and this record differs in the new one."

    /// Parks conflicting change sets, while the tables hold the new rows and the bases are the old ones.
    func park() throws -> [DeviceEvent] {
        var reasons: [String: String] = [:]
        for table in schema.tables {
            for record in try changedRecords(of: table) { try judge(record, of: table, &reasons) }
        }
        try removeEmpty()
        for table in schema.tables {
            for row in try parents?.changeSetsWithChangedParent(in: table) ?? [] {
                let id: String = try row.value("id")
                guard reasons[id] == nil, try Outbox.contains(id, in: db) else { continue }
                reasons[id] = try "[\(reason(.changed, table: table, key: row.value("key")).json)]"
            }
        }
        for table in schema.tables {
            for row in try Self.deletionsOverUnseenChildren(of: table, in: firstWaiting...Int64.max, schema, db) {
                let id: String = try row.value("id")
                guard reasons[id] == nil, try Outbox.contains(id, in: db) else { continue }
                reasons[id] = try "[\(reason(.referenced, table: table, key: row.value("key")).json)]"
            }
        }
        let events = try ParkConflict(db: db, now: now).parkUnsent(reasons)
        try Self.fillTheirs(events.compactMap(\.conflictID), schema: schema, in: db)
        return events
    }

    private func reason(_ rule: ConflictRule, table: SyncedTable, key: String) -> Conflict.Reason {
        Conflict.Reason(table: table.name, key: key, columns: [], rule: rule.rawValue, message: cause)
    }

    /// A record that differs from its base, with its pending changes in their order.
    private struct Changed {
        let key: String
        let images: ThreeWay
        var changes: [(id: String, isUnsent: Bool, change: RecordChange)] = []
    }

    private func judge(_ record: Changed, of table: SyncedTable, _ reasons: inout [String: String]) throws {
        guard var whole = record.changes.first?.change else { return }
        for later in record.changes.dropFirst() { whole.append(later.change) }
        switch record.images.judge(whole) {
        case .done:
            try db.execute(
                sql: "DELETE FROM tidemark_outbox WHERE tbl = ? AND key = ? AND seq >= ?",
                arguments: [table.name, record.key, firstWaiting])
        case .fits: break
        case .conflict(let rule):
            for (id, isUnsent, change) in record.changes where try reasons[id] == nil && Outbox.contains(id, in: db) {
                let mayAdd = isUnsent || knowsVerdicts
                if change.operation == .update, record.images.judge(change, mayAdd: mayAdd) == .fits { continue }
                reasons[id] = "[\(reason(rule, table: table, key: record.key).json)]"
            }
        }
    }

    private func removeEmpty() throws {
        let empty = try String.fetchAll(
            db, sql: "SELECT id FROM tidemark_changeset WHERE seq NOT IN (SELECT seq FROM tidemark_outbox)")
        for id in empty { try Outbox.remove(id, in: db) }
    }

    /// Returns the records that differ from their confirmed version.
    private func changedRecords(of table: SyncedTable) throws -> [Changed] {
        let current = RowJSON.current(table, key: "base_row.key")
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT base_row.key, base_row.image, (\(current)) AS current, changeset.id,
                    changeset.wire IS NULL AS isUnsent, pending.operation, pending.attributes
                FROM tidemark_base AS base_row
                JOIN tidemark_outbox AS pending ON pending.tbl = base_row.tbl AND pending.key = base_row.key
                JOIN tidemark_changeset AS changeset ON changeset.seq = pending.seq
                WHERE base_row.tbl = ? AND base_row.image IS NOT (\(current)) AND changeset.seq >= ?
                ORDER BY base_row.key, changeset.seq
                """, arguments: [table.name, firstWaiting])
        var records: [Changed] = []
        while let row = try rows.next() {
            let key: String = try row.value("key")
            if records.last.map({ !$0.key.utf8.elementsEqual(key.utf8) }) ?? true {
                let images = try ThreeWay(
                    base: RecordImage(stored: row.value("image")), theirs: RecordImage(stored: row.value("current")))
                records.append(Changed(key: key, images: images))
            }
            let change = try RecordChange(stored: row.value("attributes"), operation: row.value("operation"))
            records[records.count - 1].changes.append((try row.value("id"), try row.value("isUnsent"), change))
        }
        return records
    }

    /// Returns the pending deletions of records to which others refer now.
    ///
    /// The children that the author saw have pending changes, because the deletion has changed them as well.
    /// `waiting` are the numbers of the change sets to look at; the tables have all changes before them.
    static func deletionsOverUnseenChildren(
        of parent: SyncedTable, in waiting: ClosedRange<Int64>, _ schema: SyncSchema, _ db: Database
    ) throws -> [Row] {
        try schema.references(to: parent.name).filter { $0.1.parentColumns == parent.key }.flatMap { child, reference in
            let match = reference.columns.indices.map {
                "child_row.\(SQLText.name(reference.columns[$0])) = \(KeySQL.part(parent, $0, of: "pending.key"))"
            }
            return try Row.fetchAll(
                db,
                cached: """
                    SELECT changeset.id, pending.key
                    FROM tidemark_outbox AS pending
                    JOIN tidemark_changeset AS changeset ON changeset.seq = pending.seq
                    WHERE pending.tbl = ? AND pending.operation = 'delete' AND pending.seq BETWEEN ? AND ? AND EXISTS (
                        SELECT 1 FROM main.\(SQLText.name(child.name)) AS child_row
                        WHERE \(match.joined(separator: " AND ")) AND NOT EXISTS (
                            SELECT 1 FROM tidemark_outbox AS known
                            WHERE known.tbl = ? AND \(KeySQL.match(child, key: "known.key", alias: "child_row."))))
                    ORDER BY pending.seq
                    """, arguments: [parent.name, waiting.lowerBound, waiting.upperBound, child.name])
        }
    }

    /// Stores the current records in parked change sets, in those of their records for which the SQL condition holds.
    static func fillTheirs(_ ids: [String], schema: SyncSchema, in db: Database, where condition: String = "true")
        throws
    {
        guard !ids.isEmpty else { return }
        let list = "[" + ids.map { "\"\($0)\"" }.joined(separator: ",") + "]"
        for table in schema.tables {
            try db.execute(
                sql: """
                    UPDATE tidemark_conflict_record
                    SET theirs = (\(RowJSON.current(table, key: "tidemark_conflict_record.key")))
                    WHERE id IN (SELECT value FROM json_each(?)) AND tbl = ? AND \(condition)
                    """, arguments: [list, table.name])
        }
    }
}

extension DeviceEvent {
    var conflictID: String? { if case .conflict(let id) = self { id } else { nil } }
}
