import GRDB
import TidemarkCore
import TidemarkSQL

/// Offers acknowledged change sets again that the server has forgotten.
///
/// They go to the head of the outbox, in their order. New records get fresh temporary ids, because
/// their permanent ids may belong to other records now; pending references follow. Then the device
/// compares each change with the rows by ``ThreeWay``, after it has applied all earlier ones. A change that fits is
/// offered, one that is done leaves the outbox, and a conflict is parked.
struct OfferAgain {
    let db: Database
    let schema: SyncSchema
    let header: SnapshotFormat.Header
    let now: String

    struct Offer {
        var events: [DeviceEvent] = []
        var count = 0
        /// The sequence number of the first change set that was pending before the offer.
        var firstWaiting = Int64.min
    }

    /// Returns the kept change sets that the server does not know, oldest first.
    func forgottenIDs(_ recall: Recall) throws -> [KeptChangeSets.IDs] {
        if planted(PlantedBug.forgetsToOfferAgain) { return [] }
        return try KeptChangeSets.ids(in: db).filter { !$0.isKnown(by: recall.knownIDs) }
    }

    /// Puts forgotten change sets into outbox and tables; ``restoreRows()`` removes them from the tables again.
    func offer(_ ids: [KeptChangeSets.IDs]) throws -> Offer {
        guard !ids.isEmpty else { return Offer() }
        try db.execute(
            sql: """
                CREATE TEMP TABLE IF NOT EXISTS tidemark_offered (
                    tbl TEXT, key TEXT, image TEXT, PRIMARY KEY (tbl, key)
                ) WITHOUT ROWID;
                DELETE FROM temp.tidemark_offered;
                """)
        let firstWaiting = try Int64.fetchOne(db, sql: "SELECT min(seq) FROM tidemark_changeset") ?? 1
        let sets = ids.enumerated().map { index, id in (id: id, seq: firstWaiting - Int64(ids.count - index)) }
        for set in sets { try enqueue(set.id, as: set.seq) }
        try assignTemporaryIDs(before: firstWaiting)
        try Dependencies(db: db, schema: schema).store(from: .min)
        var offer = Offer(firstWaiting: firstWaiting)
        for set in sets { offer.events += try judge(set.seq) }
        offer.count =
            try Int.fetchOne(
                db, sql: "SELECT count(*) FROM tidemark_changeset WHERE seq < ?", arguments: [firstWaiting]) ?? 0
        return offer
    }

    func restoreRows() throws {
        guard try db.tableExists("tidemark_offered", in: "temp") else { return }
        try WriteRecords(db: db, schema: schema).write(
            """
            SELECT tbl, key, iif(image IS NULL, 'delete', 'create') AS operation, image AS attributes
            FROM temp.tidemark_offered
            """)
        try db.execute(sql: "DELETE FROM temp.tidemark_offered")
    }

    // MARK: Into the outbox

    private func enqueue(_ ids: KeptChangeSets.IDs, as seq: Int64) throws {
        let id = ids.present
        try db.execute(
            sql: """
                INSERT INTO tidemark_changeset (seq, id, first, epoch, time)
                SELECT ?, ?, ?, ?, time FROM tidemark_kept WHERE id = ?
                """, arguments: [seq, ids.again, ids.first, header.epoch, id])
        try db.execute(
            sql: """
                INSERT INTO tidemark_outbox (seq, tbl, key, operation, before, attributes, base)
                SELECT ?1, kept_record.tbl, kept_record.key, kept_record.operation, kept_record.before,
                    kept_record.attributes, ?2
                FROM tidemark_kept AS kept
                JOIN tidemark_kept_record AS kept_record USING (number)
                WHERE kept.id = ?3
                """, arguments: [seq, header.revision, id])
        try db.execute(
            sql: """
                DELETE FROM tidemark_kept_record
                WHERE number = (SELECT number FROM tidemark_kept WHERE id = ?)
                """, arguments: [id])
        try db.execute(sql: "DELETE FROM tidemark_kept WHERE id = ?", arguments: [id])
    }

    private func assignTemporaryIDs(before firstWaiting: Int64) throws {
        try db.execute(sql: "DELETE FROM temp.tidemark_assigned")
        let creations = try Row.fetchAll(
            db,
            sql: """
                SELECT DISTINCT pending.tbl, pending.key
                FROM tidemark_outbox AS pending
                WHERE pending.seq < ? AND pending.operation = 'create'
                ORDER BY pending.seq, pending.tbl, length(pending.key), pending.key
                """, arguments: [firstWaiting])
        for row in creations where try schema.byName[row.value("tbl")]?.keyKind == .integer {
            try db.execute(
                sql: "INSERT INTO temp.tidemark_assigned VALUES (?, CAST(? AS INTEGER), ?)",
                arguments: try [row.value("tbl") as String, row.value("key") as String, TemporaryIDs.next(db)])
        }
        try db.execute(
            sql: """
                UPDATE tidemark_idmap SET permanent = assigned.permanent
                FROM temp.tidemark_assigned AS assigned
                WHERE assigned.tbl = tidemark_idmap.tbl AND assigned.temporary = tidemark_idmap.permanent
                """)
        try RewriteKeys(db: db, schema: schema, pairs: .ids).run()
    }

    // MARK: Judging

    private func judge(_ seq: Int64) throws -> [DeviceEvent] {
        let id = try String.fetchOne(db, sql: "SELECT id FROM tidemark_changeset WHERE seq = ?", arguments: [seq])
        // Parking a predecessor may have parked this one as well.
        guard let id else { return [] }
        var reasons: [Conflict.Reason] = []
        var deletingTables: [SyncedTable] = []
        for table in schema.tables {
            let records = try records(of: table, seq)
            if try records.contains(where: { try $0.value("operation") == TidemarkCore.Operation.delete.rawValue }) {
                deletingTables.append(table)
            }
            for row in records {
                let images = try ThreeWay(
                    base: RecordImage(stored: row.value("before")), theirs: RecordImage(stored: row.value("current")))
                let change = try RecordChange(stored: row.value("attributes"), operation: row.value("operation"))
                switch images.judge(change) {
                case .fits: try storeImage(row, table)
                case .done:
                    try db.execute(
                        sql: "DELETE FROM tidemark_outbox WHERE seq = ? AND tbl = ? AND key = ?",
                        arguments: try [seq, table.name, row.value("key") as String])
                case .conflict(let rule): try reasons.append(reason(rule, table: table, key: row.value("key")))
                }
            }
        }
        for table in deletingTables {
            for row in try JudgeAfterReset.deletionsOverUnseenChildren(of: table, in: seq...seq, schema, db) {
                try reasons.append(reason(.referenced, table: table, key: row.value("key")))
            }
        }
        guard reasons.isEmpty else {
            let list = reasons.map(\.json).joined(separator: ",")
            let events = try ParkConflict(db: db, now: now).parkUnsent([id: "[\(list)]"])
            try JudgeAfterReset.fillTheirs(events.compactMap(\.conflictID), schema: schema, in: db)
            return events
        }
        try applyToRows(seq)
        let isEmpty = try Bool.fetchOne(
            db, sql: "SELECT NOT EXISTS (SELECT 1 FROM tidemark_outbox WHERE seq = ?)", arguments: [seq])
        if isEmpty == true { try Outbox.remove(id, in: db) }
        return []
    }

    private func records(of table: SyncedTable, _ seq: Int64) throws -> [Row] {
        try Row.fetchAll(
            db,
            cached: """
                SELECT pending.key, pending.operation, pending.before, pending.attributes,
                    (\(RowJSON.current(table, key: "pending.key"))) AS current
                FROM tidemark_outbox AS pending
                WHERE pending.seq = ? AND pending.tbl = ?
                """, arguments: [seq, table.name])
    }

    private func reason(_ rule: ConflictRule, table: SyncedTable, key: String) -> Conflict.Reason {
        Conflict.Reason(
            table: table.name, key: key, columns: [], rule: rule.rawValue,
            message: "The server has forgotten this change, and its record differs now.")
    }

    private func storeImage(_ row: Row, _ table: SyncedTable) throws {
        try db.execute(
            sql: "INSERT OR IGNORE INTO temp.tidemark_offered VALUES (?, ?, ?)",
            arguments: try [table.name, row.value("key") as String, row.value("current") as String?])
    }

    /// Applies a change set, so that later ones are compared with its result; if it does not fit, the server decides.
    private func applyToRows(_ seq: Int64) throws {
        do {
            try WriteRecords(db: db, schema: schema).write(
                "SELECT tbl, key, operation, attributes FROM tidemark_outbox WHERE seq = ?", arguments: [seq])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT { return }
    }
}
