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
/// | what replaces the row | how the device finds the edit |
/// | --- | --- |
/// | a repair | ``RepairRows`` compares the row with the server's, at the same revision |
/// | an answer during a comparison | ``keepRows(_:)`` and ``parkReplaced(since:)`` |
/// | an answer before a rebuilt table is compared | ``ReplacedRows`` |
/// | a snapshot | ``keepAllRows()`` and ``parkReplaced(since:)`` |
/// | the rewinding of a pending edit | ``parkOverPending()`` |
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
        let unserved = Set(schema.difference.unservedColumns[table.name, default: []].map(\.name))
        let columns = table.valueColumns.map(\.name).filter { !unserved.contains($0) }
        guard !columns.isEmpty else { return }
        let name = SQLText.literal(table.name)
        let entry = "tidemark_outbox AS entry WHERE entry.tbl = \(name) AND entry.key = pending_row.key"
        // Nearly every row equals its base with the last pending change, and needs no look at its columns. A
        // patch leaves out NULL, so a row with a new NULL is looked at.
        let expected = """
            SELECT iif(pending_row.image IS NULL, entry.attributes, json_patch(pending_row.image, entry.attributes))
            FROM \(entry)
            ORDER BY entry.seq DESC
            LIMIT 1
            """
        try db.execute(
            cached: """
                INSERT INTO temp.tidemark_found (place, tbl, key, operation, base, mine, theirs)
                SELECT ?, \(name), pending_row.key, 'update', pending_row.image,
                    json_group_object(cell.key, json(pending_row.own -> cell.fullkey)), pending_row.image
                FROM (
                    SELECT base.key, base.image, \(RowJSON.object(columns, prefix: "app_row.")) AS own
                    FROM tidemark_base AS base
                    JOIN main.\(SQLText.name(table.name)) AS app_row
                        ON \(KeySQL.match(table, key: "base.key", alias: "app_row."))
                    WHERE base.tbl = \(name)
                ) AS pending_row
                JOIN json_each(pending_row.own) AS cell
                WHERE pending_row.own IS NOT (\(expected))
                    AND (pending_row.own -> cell.fullkey) IS NOT (pending_row.image -> cell.fullkey)
                    AND NOT EXISTS (
                        SELECT 1 FROM \(entry)
                            AND (entry.attributes -> cell.fullkey) IS (pending_row.own -> cell.fullkey))
                    AND NOT \(isPendingSum(table))
                    AND CASE WHEN pending_row.image IS NULL
                        THEN EXISTS (
                            SELECT 1 FROM \(entry) AND json_type(entry.attributes, cell.fullkey) IS NOT NULL)
                        ELSE json_type(pending_row.image, cell.fullkey) IS NOT NULL END
                GROUP BY pending_row.key
                """, arguments: [place])
    }

    /// The condition under which a value is the sum of an integer and pending deltas.
    ///
    /// Mostly all deltas are in the row, or those up to one, or all but one that does not fit. Otherwise any of the
    /// pending changes may not fit: ``isPartialSum(_:)``.
    private func isPendingSum(_ table: SyncedTable) -> String {
        let columns = schema.addingColumns(of: table.name)
        guard !columns.isEmpty else { return "false" }
        let isPending = "tbl = \(SQLText.literal(table.name)) AND key = pending_row.key"
        let value = { (entry: String) in "json_extract(\(entry).attributes, cell.fullkey || '.\"$add\"')" }
        let plain = "tidemark_outbox WHERE \(isPending) AND json_type(attributes, cell.fullkey) = 'integer'"
        let start = """
            coalesce(
                (SELECT attributes ->> cell.fullkey FROM \(plain) ORDER BY seq DESC LIMIT 1),
                pending_row.image ->> cell.fullkey)
            """
        let sum = { (condition: String) in
            """
            (SELECT sum(\(value("added"))) FROM tidemark_outbox AS added
                WHERE \(isPending) AND added.seq > coalesce((SELECT max(seq) FROM \(plain)), \(Int64.min + 1)) AND \(condition))
            """
        }
        return """
            (cell.key IN (\(columns.sorted().map { SQLText.literal(WireName.member(column: $0)) }.joined(separator: ", ")))
                AND json_type(pending_row.own, cell.fullkey) = 'integer'
                AND (EXISTS (
                    SELECT 1 FROM tidemark_outbox AS delta
                    WHERE \(isPending) AND \(value("delta")) IS NOT NULL
                        AND (pending_row.own ->> cell.fullkey) - \(start) IN (
                            \(sum("added.seq <= delta.seq")), coalesce(\(sum("added.seq <> delta.seq")), 0)))
                    OR \(isPartialSum(isPending, value: value("tidemark_outbox")))))
            """
    }

    /// The most sums that a search looks at; a value that it has not found by then is parked.
    private static let sumsMax = 10_000

    /// The condition that a value is the confirmed one with some of the pending changes, in their order.
    private func isPartialSum(_ isPending: String, value: String) -> String {
        """
        EXISTS (
            WITH RECURSIVE part (place, is_delta, value) AS MATERIALIZED (
                SELECT row_number() OVER (ORDER BY seq), \(value) IS NOT NULL,
                    coalesce(\(value), attributes ->> cell.fullkey)
                FROM tidemark_outbox
                WHERE \(isPending) AND json_type(attributes, cell.fullkey) IS NOT NULL
            ), reached (place, value) AS (
                SELECT 0, pending_row.image ->> cell.fullkey
                UNION
                SELECT part.place, CASE
                    WHEN NOT fit.fits THEN reached.value
                    WHEN part.is_delta THEN reached.value + part.value
                    ELSE part.value END
                FROM reached
                JOIN part ON part.place = reached.place + 1
                JOIN (SELECT 0 AS fits UNION ALL SELECT 1) AS fit
                ORDER BY 1 DESC
                LIMIT \(Self.sumsMax)
            )
            SELECT 1 FROM reached WHERE reached.value = pending_row.own ->> cell.fullkey)
        """
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

    /// Keeps all rows, without their pending changes.
    func keepAllRows() throws {
        try db.execute(sql: "DELETE FROM temp.tidemark_previous")
        for table in schema.tables {
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
                                    (\(Images.current(table, key: "previous.key"))) AS theirs
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

    /// Adds a record that a repair is about to replace; `columns` are the differing ones.
    func add(_ record: Verification.Record, mine: String?, theirs: String?) throws {
        let operation: TidemarkCore.Operation
        switch record.difference {
        case .changed: operation = .update
        case .missing: operation = .delete
        case .surplus: operation = .create
        case .unsent: return
        }
        let columns = "[" + record.columns.map(JSONText.quote).joined(separator: ",") + "]"
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_found (place, tbl, key, operation, base, mine, theirs)
                SELECT ?1, ?2, ?3, ?4, ?6, iif(?4 <> 'update', ?5, (
                    SELECT json_group_object(cell.key, json(?5 -> cell.fullkey)) FROM json_each(?5) AS cell
                    WHERE cell.key IN (SELECT value FROM json_each(?7)))), ?6
                """
        ).execute(arguments: [
            schema.tables.firstIndex { $0.name == record.table } ?? 0, record.table, record.key, operation.rawValue,
            operation == .delete ? nil : mine, operation == .create ? nil : theirs, columns,
        ])
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
