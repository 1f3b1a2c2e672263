import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Parks edits that no trigger captured, before the device replaces their rows by the server's.
///
/// A program can switch triggers off (`SQLITE_DBCONFIG_ENABLE_TRIGGER`); browsers do. Its edits are in the rows alone,
/// so whatever replaces a row would lose them. They become a conflict with the rule `uncaptured`, in the transaction
/// that replaces the row. So neither a crash nor a repetition doubles or loses one.
///
/// A repair compares the row (``RepairRows``), answers and snapshots keep the rows before (``parkReplaced(since:)``, or
/// ``ReplacedRows`` of a rebuilt table), and so does the rewinding of a pending edit (``parkOverPending()``).
///
/// A damaged page can look like an edit. Its values are parked as well, because no rule tells them
/// apart; its missing rows are not.
struct UncapturedEdits {
    /// The possible reasons why rows differ from the server's.
    enum Suspicion {
        /// They are as the server confirmed them: the server has changed unseen.
        case none
        /// Edits that no trigger captured, and damage that SQLite reports.
        case damage
        /// Edits that no trigger captured.
        case edits

        func isEdit(_ difference: Verification.Record.Difference) -> Bool {
            switch self {
            case .none: false
            case .damage: difference != .missing
            case .edits: true
            }
        }
    }

    /// The most records of one conflict.
    static let recordsMax = 10_000
    let db: Database
    let schema: SyncSchema
    let now: String
    let newID: () -> UUID

    // MARK: Edits on top of pending ones

    /// Parks values of records with pending changes that neither the base nor a pending change has.
    ///
    /// The caller has drained captured changes, and rewinds next. A pending change that does not fit
    /// is not in the row; the row then has the values of the base.
    func parkOverPending() throws -> [DeviceEvent] {
        let names = try String.fetchSet(db, cached: "SELECT DISTINCT tbl FROM tidemark_base")
        guard !names.isEmpty else { return [] }
        for (place, table) in schema.tables.enumerated() where names.contains(table.name) {
            try findValuesOverPending(table, place)
            try findDeletionsOverPending(table, place)
        }
        return try park().events
    }

    private func findValuesOverPending(_ table: SyncedTable, _ place: Int) throws {
        let columns = schema.difference.served(table.valueColumns, of: table.name).map(\.own)
        guard !columns.isEmpty else { return }
        // Nearly every row equals its base with the last pending change, and needs no look at its columns. A
        // patch leaves out NULL, so a row with a new NULL is looked at.
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT key, image, own
                    FROM (
                        SELECT base.key, base.image, \(RowJSON.object(columns, prefix: "app_row.")) AS own
                        FROM tidemark_base AS base
                        JOIN main.\(SQLText.name(table.name)) AS app_row
                            ON \(KeySQL.match(table, key: "base.key", alias: "app_row."))
                        WHERE base.tbl = ?1
                    ) AS pending_row
                    WHERE own IS NOT (
                        SELECT iif(image IS NULL, entry.attributes, json_patch(image, entry.attributes))
                        FROM tidemark_outbox AS entry
                        WHERE entry.tbl = ?1 AND entry.key = pending_row.key
                        ORDER BY entry.seq DESC
                        LIMIT 1)
                    """), arguments: [table.name])
        while let row = try rows.next() {
            let key: String = try row.value("key")
            let base: String? = try row.value("image")
            guard let own = try RecordImage(stored: row.value("own")) else { continue }
            let edits = try own.columnsNotExplained(by: RecordImage(stored: base), pendingChanges(of: key, in: table))
            guard !edits.isEmpty else { continue }
            try add(place, .update, key: key, base: base, mine: own.part(edits).json, theirs: base)
        }
    }

    private func pendingChanges(of key: String, in table: SyncedTable) throws -> [RecordChange] {
        try Row.fetchAll(
            db, cached: "SELECT operation, attributes FROM tidemark_outbox WHERE tbl = ? AND key = ? ORDER BY seq",
            arguments: [table.name, key]
        ).map { try RecordChange(stored: $0.value("attributes"), operation: $0.value("operation")) }
    }

    private func findDeletionsOverPending(_ table: SyncedTable, _ place: Int) throws {
        try db.execute(
            cached: """
                INSERT INTO temp.tidemark_found (place, tbl, key, operation, base, theirs)
                SELECT ?1, base.tbl, base.key, 'delete', base.image, base.image
                FROM tidemark_base AS base
                WHERE base.tbl = ?2 AND base.image IS NOT NULL
                    AND NOT EXISTS (
                        SELECT 1 FROM main.\(SQLText.name(table.name)) AS app_row
                        WHERE \(KeySQL.match(table, key: "base.key", alias: "app_row.")))
                    AND NOT EXISTS (
                        SELECT 1 FROM tidemark_outbox AS entry
                        WHERE entry.tbl = base.tbl AND entry.key = base.key AND entry.operation = 'delete')
                """, arguments: [place, table.name])
    }

    // MARK: Replaced rows

    /// Keeps the current rows of a change set's records, to compare them after it is written.
    func keepRows(_ changeSet: PendingChangeSet) throws {
        try db.execute(sql: "DELETE FROM temp.tidemark_previous")
        for table in schema.tables {
            try db.execute(
                cached: """
                    INSERT INTO temp.tidemark_previous (tbl, key, image, operation)
                    SELECT ?2, listed.value ->> 0, \(image(table)), listed.value ->> 1
                    FROM json_each(?1) AS listed
                    CROSS JOIN main.\(SQLText.name(table.name)) AS app_row
                        ON \(KeySQL.match(table, key: "(listed.value ->> 0)", alias: "app_row."))
                    """, arguments: [changeSet.list(of: table, in: schema), table.name])
        }
    }

    /// Keeps all rows without their pending changes, but for tables that have been compared already.
    func keepAllRows(besides compared: [SyncedTable]) throws {
        try db.execute(sql: "DELETE FROM temp.tidemark_previous")
        for table in schema.tables where !compared.contains(where: { $0.name == table.name }) {
            try db.execute(
                sql: """
                    INSERT INTO temp.tidemark_previous (tbl, key, image)
                    SELECT ?1, own_row.key, iif(base.key IS NULL, own_row.image, base.image)
                    FROM (
                        SELECT \(RowJSON.key(table, alias: "app_row.")) AS key, \(image(table)) AS image
                        FROM main.\(SQLText.name(table.name)) AS app_row
                    ) AS own_row
                    LEFT JOIN tidemark_base AS base ON base.tbl = ?1 AND base.key = own_row.key
                    WHERE base.key IS NULL OR base.image IS NOT NULL
                    """, arguments: [table.name])
        }
    }

    /// The revision at which the kept rows were compared with the server's.
    enum Since {
        /// An earlier one, so that other devices may have changed the rows as well.
        case earlier
        /// The same one, so that every difference is an edit here.
        case same(withDeletions: Bool)
    }

    /// Parks what the server's rows have replaced of the kept rows.
    ///
    /// A row whose record the answer creates is a new one. So is a row of an integer key where the device does not know
    /// whether the record existed. A retry then asks before it replaces another one's record. A row whose record the
    /// answer deletes is an edit of all columns, because the device does not know which ones it changed.
    func parkReplaced(since: Since) throws -> [DeviceEvent] {
        var hasBase = false
        if case .same = since { hasBase = true }
        for (place, table) in schema.tables.enumerated() {
            let mayBeNew = !hasBase && table.keyKind == .integer
            try db.execute(
                cached: """
                    INSERT INTO temp.tidemark_found (place, tbl, key, operation, base, mine, theirs)
                    SELECT ?1, compared.tbl, compared.key, iif(compared.isNew AND NOT compared.isDeleted, 'create', 'update'),
                        iif(?3, compared.theirs, NULL), compared.mine, compared.theirs
                    FROM (
                        SELECT kept.tbl, kept.key, kept.theirs, kept.isNew, kept.operation IS 'delete' AS isDeleted, (
                            SELECT json_group_object(cell.key, json(kept.image -> cell.fullkey))
                            FROM json_each(kept.image) AS cell
                            WHERE kept.isNew
                                OR (kept.image -> cell.fullkey) IS NOT (kept.theirs -> cell.fullkey)) AS mine
                        FROM (
                            SELECT present.*, theirs IS NULL OR coalesce(operation = 'create', ?4) AS isNew
                            FROM (
                                SELECT previous.tbl, previous.key, previous.image, previous.operation,
                                    (\(RowJSON.current(table, key: "previous.key"))) AS theirs
                                FROM temp.tidemark_previous AS previous
                                WHERE previous.tbl = ?2
                            ) AS present
                        ) AS kept
                        WHERE kept.image IS NOT kept.theirs
                    ) AS compared
                    WHERE compared.isNew OR compared.mine <> '{}'
                    """, arguments: [place, table.name, hasBase, mayBeNew])
            if case .same(withDeletions: true) = since { try findDeletions(table, place) }
        }
        try db.execute(sql: "DELETE FROM temp.tidemark_previous")
        try ForgottenChanges(db: db).explainFound()
        return try park().events
    }

    /// Finds rows of the server's that the kept rows lacked.
    private func findDeletions(_ table: SyncedTable, _ place: Int) throws {
        try db.execute(
            sql: """
                INSERT INTO temp.tidemark_found (place, tbl, key, operation, base, theirs)
                SELECT ?1, ?2, new_row.key, 'delete', new_row.image, new_row.image
                FROM (
                    SELECT \(RowJSON.key(table, alias: "app_row.")) AS key, \(image(table)) AS image
                    FROM main.\(SQLText.name(table.name)) AS app_row
                ) AS new_row
                WHERE NOT EXISTS (
                        SELECT 1 FROM temp.tidemark_previous AS previous
                        WHERE previous.tbl = ?2 AND previous.key = new_row.key)
                    AND NOT EXISTS (
                        SELECT 1 FROM tidemark_base AS base WHERE base.tbl = ?2 AND base.key = new_row.key)
                """, arguments: [place, table.name])
    }

    private func image(_ table: SyncedTable) -> String {
        RowJSON.object(table.valueColumns.map(\.name), prefix: "app_row.")
    }

    // MARK: Parking

    /// Adds an edit of a record that the server's row is about to replace; `place` is that of its table.
    func add(
        _ place: Int, _ operation: TidemarkCore.Operation, key: String, base: String?, mine: String?, theirs: String?
    ) throws {
        try db.execute(
            cached: """
                INSERT INTO temp.tidemark_found (place, tbl, key, operation, base, mine, theirs)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """, arguments: [place, schema.tables[place].name, key, operation.rawValue, base, mine, theirs])
    }

    /// Moves the found records to conflicts, at most ``recordsMax`` to one, parents first; returns the last one.
    ///
    /// It first fills `current` if that has room for all, so that the edits of one comparison stay together.
    func park(extending current: String? = nil) throws -> (id: String?, events: [DeviceEvent]) {
        try runPlanted(PlantedBug.dropsUncapturedEdits, in: db)
        var id = try current.flatMap { try hasRoom($0) ? $0 : nil }
        var events: [DeviceEvent] = []
        while try Bool.fetchOne(db, cached: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_found)") == true {
            let target = id ?? newID().uuidString.lowercased()
            try db.execute(
                cached: "INSERT OR IGNORE INTO tidemark_conflict (id, parked, reasons) VALUES (?, ?, ?)",
                arguments: [target, now, "[\(Conflict.Reason.uncaptured.json)]"])
            if db.changesCount > 0 { events.append(.conflict(target)) }
            if planted(PlantedBug.parksEditsTwice) { try copy(to: "\(target) again") }
            try move(to: target)
            try wait(target)
            // The next ones, if any, get a conflict of their own.
            let isDone = try Bool.fetchOne(db, sql: "SELECT NOT EXISTS (SELECT 1 FROM temp.tidemark_found)")
            id = isDone == true ? target : nil
            if isDone == true { return (target, events) }
        }
        return (current, events)
    }

    /// Lets a conflict wait for older ones, whose decisions may give a new row another number, or drop it.
    private func wait(_ id: String) throws {
        for table in schema.tables {
            for reference in table.references where reference.columns.count == 1 {
                guard let parent = schema.byName[reference.parent], parent.key == reference.parentColumns else {
                    continue
                }
                try db.execute(
                    cached: """
                        UPDATE tidemark_conflict AS waiting
                        SET after = (
                            SELECT json_group_array(before.id)
                            FROM (
                                SELECT value AS id FROM json_each(waiting.after)
                                UNION
                                SELECT parent.id
                                FROM tidemark_conflict_record AS child
                                JOIN tidemark_conflict_record AS parent
                                    ON parent.tbl = ?2 AND parent.key = child.mine -> ?3 AND parent.operation = 'create'
                                JOIN tidemark_conflict AS older ON older.id = parent.id
                                WHERE child.id = ?1 AND child.tbl = ?4 AND older.number < waiting.number
                                    AND older.id IN (\(Conflict.Reason.uncapturedIDs))
                            ) AS before)
                        WHERE id = ?1
                        """, arguments: [id, parent.name, MemberSQL.path(reference.columns[0]), table.name])
            }
        }
    }

    private func move(to id: String) throws {
        try copy(to: id)
        try db.execute(
            cached: """
                DELETE FROM temp.tidemark_found
                WHERE (tbl, key) IN (SELECT tbl, key FROM tidemark_conflict_record WHERE id = ?)
                """, arguments: [id])
    }

    private func copy(to id: String) throws {
        try db.execute(
            cached: """
                INSERT INTO tidemark_conflict_record (id, tbl, key, operation, base, mine, theirs)
                SELECT ?1, tbl, key, operation, base, mine, theirs
                FROM temp.tidemark_found
                ORDER BY place, length(key), key
                LIMIT ?2 - (SELECT count(*) FROM tidemark_conflict_record WHERE id = ?1)
                """, arguments: [id, Self.recordsMax])
    }

    /// Whether a conflict has room for the found records, and has none of them already.
    private func hasRoom(_ id: String) throws -> Bool {
        try Bool.fetchOne(
            db,
            cached: """
                SELECT count(*) < ?2 AND count(found.key) = 0
                FROM tidemark_conflict_record AS record
                LEFT JOIN temp.tidemark_found AS found ON found.tbl = record.tbl AND found.key = record.key
                WHERE record.id = ?1
                """, arguments: [id, Self.recordsMax]) ?? false
    }
}

extension PendingChangeSet {
    /// Returns the keys and operations of a table's records as JSON, a list of pairs for a statement.
    func list(of table: SyncedTable, in schema: SyncSchema) -> String {
        let place = schema.places[table.name]
        return JSONText.array(
            records.filter { $0.table == place }.map { #"[\#(JSONText.quote($0.key)),"\#($0.operation.rawValue)"]"# })
    }
}
