import GRDB
import TidemarkCore
import TidemarkSQLite

/// Offers again what the server acknowledged and has forgotten.
///
/// The change sets go to the head of the outbox, in their order. New records get fresh temporary
/// ids, for their permanent ones may mean somebody else's records by now, and everything that waits
/// and refers to them follows. Then each is judged by the rows, as they are with all earlier ones
/// applied:
///
/// | change | the record is | outcome |
/// | --- | --- | --- |
/// | any | as the change leaves it | nothing is left to do |
/// | update, deletion | as it was before the change | offered |
/// | creation | not there | offered |
/// | any | anything else | the change set is parked as a conflict |
struct OfferAgain {
    let db: Database
    let schema: SyncSchema
    let header: SnapshotFormat.Header
    let now: String

    /// What was offered.
    struct Offered {
        var events: [SyncEvent] = []
        var count = 0
        /// From this place in the outbox on stands what waited before.
        var firstWaiting = Int64.min
    }

    /// Staged records of an offered change set stand under numbers from here down.
    private static let ordBase = -1_000_000

    /// The change sets that are kept here and that the server does not know, oldest first.
    func forgotten(_ recall: Recall) throws -> [String] {
        if planted(PlantedBug.forgetsToOfferAgain) { return [] }
        return try String.fetchAll(db, sql: "SELECT id FROM tidemark_kept ORDER BY number").filter {
            !recall.known.contains($0) && !recall.known.contains(KeptChangeSets.idOfferedAgain($0))
        }
    }

    /// Puts what was forgotten into the outbox and into the tables, where ``takeBack()`` takes it
    /// out again.
    func offer(_ forgotten: [String]) throws -> Offered {
        guard !forgotten.isEmpty else { return Offered() }
        try db.execute(
            sql: """
                CREATE TEMP TABLE IF NOT EXISTS tidemark_offered (
                    tbl TEXT, key TEXT, image TEXT, PRIMARY KEY (tbl, key)
                ) WITHOUT ROWID;
                DELETE FROM temp.tidemark_offered;
                """
        )
        let firstWaiting = try Int64.fetchOne(db, sql: "SELECT min(seq) FROM tidemark_changeset") ?? 1
        let sets = forgotten.enumerated().map { index, id in
            (id: id, seq: firstWaiting - Int64(forgotten.count - index))
        }
        for set in sets { try enqueue(set.id, as: set.seq) }
        try giveFreshIds(before: firstWaiting)
        try Dependencies(db: db, schema: schema).note(from: .min)
        var offered = Offered(firstWaiting: firstWaiting)
        for set in sets { offered.events += try judge(set.seq) }
        offered.count =
            try Int.fetchOne(
                db,
                sql: "SELECT count(*) FROM tidemark_changeset WHERE seq < ?",
                arguments: [firstWaiting]
            ) ?? 0
        return offered
    }

    /// Puts the rows back to what the server has.
    func takeBack() throws {
        guard try db.tableExists("tidemark_offered", in: "temp") else { return }
        try StagedImages.stage(
            """
            SELECT tbl, key, iif(image IS NULL, 'delete', 'create') AS operation, image AS attributes
            FROM temp.tidemark_offered
            """,
            ord: Self.ordBase + 1,
            in: db
        )
        try RecordWriter(db, schema: schema, existing: .overwrite).write(ord: Self.ordBase + 1)
        try db.execute(sql: "DELETE FROM temp.tidemark_offered")
    }

    // MARK: Into the outbox

    private func enqueue(_ id: String, as seq: Int64) throws {
        try db.execute(
            sql: """
                INSERT INTO tidemark_changeset (seq, id, epoch, time)
                SELECT ?, ?, ?, time FROM tidemark_kept WHERE id = ?
                """,
            arguments: [seq, KeptChangeSets.idOfferedAgain(id), header.epoch, id]
        )
        try db.execute(
            sql: """
                INSERT INTO tidemark_outbox (seq, tbl, key, operation, before, attributes, base)
                SELECT ?1, r.tbl, r.key, r.operation, r.before, r.attributes, ?2
                FROM tidemark_kept AS k JOIN tidemark_kept_record AS r USING (number) WHERE k.id = ?3
                """,
            arguments: [seq, header.revision, id]
        )
        try db.execute(
            sql: """
                DELETE FROM tidemark_kept_record
                WHERE number = (SELECT number FROM tidemark_kept WHERE id = ?)
                """,
            arguments: [id]
        )
        try db.execute(sql: "DELETE FROM tidemark_kept WHERE id = ?", arguments: [id])
    }

    private func giveFreshIds(before firstWaiting: Int64) throws {
        try db.execute(sql: "DELETE FROM temp.tidemark_assigned")
        let made = try Row.fetchAll(
            db,
            sql: """
                SELECT DISTINCT o.tbl, o.key FROM tidemark_outbox AS o
                JOIN temp.tidemark_table AS t ON t.tbl = o.tbl AND t.kind = 'integer'
                WHERE o.seq < ? AND o.operation = 'create' ORDER BY o.seq, o.tbl, length(o.key), o.key
                """,
            arguments: [firstWaiting]
        )
        for row in made {
            try db.execute(
                sql: "INSERT INTO temp.tidemark_assigned VALUES (?, CAST(? AS INTEGER), ?)",
                arguments: try [row.value("tbl") as String, row.value("key") as String, TemporaryIDs.next(db)]
            )
        }
        try db.execute(
            sql: """
                UPDATE tidemark_idmap SET permanent = m.permanent FROM temp.tidemark_assigned AS m
                WHERE m.tbl = tidemark_idmap.tbl AND m.temporary = tidemark_idmap.permanent
                """
        )
        try MapIdentities(db: db, schema: schema).rewrite()
    }

    // MARK: Judging

    private func judge(_ seq: Int64) throws -> [SyncEvent] {
        let id = try String.fetchOne(db, sql: "SELECT id FROM tidemark_changeset WHERE seq = ?", arguments: [seq])
        // It may have been parked with one that it depends on.
        guard let id else { return [] }
        var reasons: [Conflict.Reason] = []
        for table in schema.tables {
            for row in try records(of: table, seq) {
                switch try outcome(of: row) {
                case .offered: try remember(row, table)
                case .done:
                    try db.execute(
                        sql: "DELETE FROM tidemark_outbox WHERE seq = ? AND tbl = ? AND key = ?",
                        arguments: try [seq, table.name, row.value("key") as String]
                    )
                case .conflict(let rule): try reasons.append(reason(rule, table, row.value("key")))
                }
            }
        }
        guard reasons.isEmpty else {
            let list = reasons.map(\.json).joined(separator: ",")
            let events = try ParkConflict(db: db, now: now).parkUnsent([id: "[\(list)]"])
            for case .conflict(let id) in events { try JudgeAfterReset.showTheirs(id, schema: schema, in: db) }
            return events
        }
        try show(seq)
        let isEmpty = try Bool.fetchOne(
            db,
            sql: "SELECT NOT EXISTS (SELECT 1 FROM tidemark_outbox WHERE seq = ?)",
            arguments: [seq]
        )
        if isEmpty == true { try Outbox.remove(id, in: db) }
        return []
    }

    private func records(of table: SyncedTable, _ seq: Int64) throws -> [Row] {
        try Row.fetchAll(
            db,
            sql: """
                SELECT o.key, o.operation, o.before, o.attributes,
                    (\(Images.current(table, key: "o.key"))) AS current
                FROM tidemark_outbox AS o WHERE o.seq = ? AND o.tbl = ?
                """,
            arguments: [seq, table.name]
        )
    }

    private enum Outcome {
        case offered
        case done
        case conflict(ConflictRule)
    }

    private func outcome(of row: Row) throws -> Outcome {
        let before = try row.value("before") as String?
        let current = try row.value("current") as String?
        let attributes: String = try row.value("attributes") ?? "{}"
        switch try TidemarkCore.Operation(rawValue: row.value("operation")) {
        case .create:
            guard let current else { return .offered }
            return try isDone(attributes, current) ? .done : .conflict(.exists)
        case .delete:
            guard let current else { return .done }
            return try isAsBefore(current, before) ? .offered : .conflict(.changed)
        case .update, nil:
            guard let current else { return .conflict(.deleted) }
            if try isDone(attributes, current) { return .done }
            // What the file has no place for any more cannot be compared.
            let fits = try Images.covers(current, attributes, in: db)
            return try fits && isAsBefore(current, before) ? .offered : .conflict(.changed)
        }
    }

    private func isDone(_ attributes: String, _ current: String) throws -> Bool {
        guard try Images.covers(current, attributes, in: db) else { return false }
        return try Images.merged(current, attributes, in: db) == current
    }

    /// Whether a record is as it was before a change, in the columns that it had then.
    private func isAsBefore(_ current: String, _ before: String?) throws -> Bool {
        guard let before else { return false }
        return try Images.merged(current, before, in: db) == current
    }

    private func reason(_ rule: ConflictRule, _ table: SyncedTable, _ key: String) -> Conflict.Reason {
        Conflict.Reason(
            table: table.name,
            key: key,
            columns: [],
            rule: rule.rawValue,
            message: "The server has forgotten this change, and has another record here now."
        )
    }

    private func remember(_ row: Row, _ table: SyncedTable) throws {
        try db.execute(
            sql: "INSERT OR IGNORE INTO temp.tidemark_offered VALUES (?, ?, ?)",
            arguments: try [table.name, row.value("key") as String, row.value("current") as String?]
        )
    }

    /// Writes a change set on top of the rows, so that later ones are judged by what it leaves.
    ///
    /// One that does not fit, for instance because somebody took its unique value, is left to the
    /// server's verdict.
    private func show(_ seq: Int64) throws {
        let ord = Self.ordBase + Int(truncatingIfNeeded: seq) - 1_000_000_000
        do {
            try db.inSavepoint {
                try StagedImages.stage(
                    "SELECT tbl, key, operation, attributes FROM tidemark_outbox WHERE seq = ?",
                    arguments: [seq],
                    ord: ord,
                    in: db
                )
                try RecordWriter(db, schema: schema, existing: .overwrite).write(ord: ord)
                return .commit
            }
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT { return }
    }
}
