import GRDB
import TidemarkCore
import TidemarkSQL

/// Validates the change sets of an answer before the device applies any of them.
///
/// The answer may come from a broken or hostile server, or from a proxy. The device refuses an
/// invalid answer whole, and file and outbox stay as they were. The fingerprint finds the other
/// faults, for instance one plausible value in place of another.
struct AnswerCheck {
    let db: Database
    let schema: SyncSchema
    /// The device's revision at the time of the request.
    let requested: Int64
    let requestIDs: [String]

    static func inapplicable(_ reason: String, place: TidemarkError.Place = .init()) -> TidemarkError {
        TidemarkError(
            .invalidResponse, "\(inapplicablePrefix): \(reason)",
            fix: "Nothing was changed, and the outbox is kept. Compare versions and tables.", place: place)
    }

    private static let inapplicablePrefix = "The server's answer cannot be applied"

    static func isInapplicable(_ error: TidemarkError) -> Bool {
        error.code == .invalidResponse && error.message.hasPrefix(inapplicablePrefix)
    }

    /// Whether an SQLite error is about the data to write, not about the disk or the file.
    static func isDataError(_ error: DatabaseError) -> Bool {
        [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_ERROR, .SQLITE_TOOBIG].contains(error.resultCode)
    }

    /// Checks the staged change sets against each other, the outbox and the request; throws `invalidResponse`.
    func checkAnswer() throws {
        try checkChangeSets()
        try checkVerdicts()
    }

    /// Runs the checks that do not depend on the request; throws `invalidResponse`.
    func checkChangeSets() throws {
        try readMembers()
        try checkMembers()
        try checkIDs()
        try checkKeys()
        try checkOldIDs()
        try checkNewRecords()
        try checkRefusedRecords()
    }

    /// Checks that no record has the ids of the new records, while the tables hold the confirmed rows.
    func checkNewIDs() throws {
        let tables = try String.fetchSet(
            db, cached: "\(Self.named) SELECT DISTINCT tbl FROM named WHERE revision > ?1", arguments: [requested])
        for table in schema.tables where tables.contains(table.name) {
            try refuse(
                "A new record gets the id of another one.",
                sql: """
                    \(Self.named)
                    SELECT named.ord, named.tbl, named.key
                    FROM named
                    JOIN main.\(SQLText.name(table.name)) AS app_row
                        ON \(KeySQL.match(table, key: "named.key", alias: "app_row."))
                    WHERE named.tbl = ?2 AND named.revision > ?1
                    LIMIT 1
                    """, arguments: [requested, table.name])
        }
    }

    // MARK: The checks

    /// The new records of this device's accepted change sets that have an `__oldId__`.
    private static let named = """
        WITH named (ord, seq, revision, tbl, key, wire) AS (
            SELECT answered.ord, changeset.seq, answered.revision, staged.tbl, staged.key, staged.old_key
            FROM temp.tidemark_answered AS answered
            JOIN tidemark_changeset AS changeset ON changeset.id = answered.id
            JOIN temp.tidemark_staged AS staged ON staged.ord = answered.ord
            JOIN temp.tidemark_table AS synced_table ON synced_table.tbl = staged.tbl
            WHERE NOT answered.conflict AND staged.operation = 'create' AND staged.old_key IS NOT NULL
                AND synced_table.kind = 'integer'
        )
        """

    /// Reads the members of the change sets; a wrongly typed value leaves its column NULL and sets `wrong`.
    private func readMembers() throws {
        try db.execute(
            cached: """
                INSERT INTO temp.tidemark_answered
                SELECT ord, max(value) FILTER (WHERE name = 'id' AND type = 'text'),
                    max(value) FILTER (WHERE name = 'revision' AND typeof(value) = 'integer'),
                    coalesce(max(type = 'true') FILTER (WHERE name = 'conflict'), 0),
                    max(value) FILTER (WHERE name = 'reasons' AND type = 'array'),
                    coalesce(max(CASE name WHEN 'id' THEN type <> 'text'
                        WHEN 'revision' THEN type <> 'integer' OR typeof(value) <> 'integer'
                        WHEN 'conflict' THEN type NOT IN ('true', 'false')
                        WHEN 'reasons' THEN type <> 'array' END), 0)
                FROM temp.tidemark_staged_member WHERE tbl IS NULL GROUP BY ord
                """)
    }

    private func checkMembers() throws {
        try refuse(
            "A change set has a member with a type that the protocol does not allow.",
            sql: """
                SELECT staged_set.ord
                FROM temp.tidemark_staged_set AS staged_set
                LEFT JOIN temp.tidemark_answered AS answered USING (ord)
                WHERE answered.ord IS NULL OR answered.wrong
                    OR NOT answered.conflict AND answered.revision IS NULL
                    OR answered.conflict AND answered.id IS NULL
                LIMIT 1
                """)
        try refuse(
            "A conflict has a reason with a form that the protocol does not allow.",
            sql: """
                SELECT answered.ord
                FROM temp.tidemark_answered AS answered, json_each(answered.reasons) AS reason
                WHERE CASE reason.type WHEN 'object' THEN
                    coalesce(json_type(reason.value, '$.table'), 'text') <> 'text'
                    OR coalesce(json_type(reason.value, '$.rule'), 'text') <> 'text'
                    OR coalesce(json_type(reason.value, '$.message'), 'text') <> 'text'
                    OR coalesce(json_type(reason.value, '$.columns'), 'array') <> 'array'
                    ELSE 1 END
                LIMIT 1
                """)
    }

    private func checkIDs() throws {
        try refuse(
            "Two change sets have the same id.",
            sql: """
                SELECT max(ord) AS ord FROM temp.tidemark_answered WHERE id IS NOT NULL
                GROUP BY id HAVING count(*) > 1 LIMIT 1
                """)
    }

    private func checkVerdicts() throws {
        try refuse(
            "It has a verdict on a change set that this device did not send.",
            sql: """
                SELECT answered.ord
                FROM temp.tidemark_answered AS answered
                LEFT JOIN tidemark_changeset AS changeset ON changeset.id = answered.id
                WHERE changeset.seq IS NOT NULL AND changeset.wire IS NULL
                    OR (answered.conflict OR answered.revision <= ?1)
                        AND coalesce(answered.id, '') NOT IN (SELECT value FROM json_each(?2))
                LIMIT 1
                """, arguments: [requested, "[" + requestIDs.map { "\"\($0)\"" }.joined(separator: ",") + "]"])
    }

    /// Refuses temporary ids, which are below 0 or from 2^52 on and have no meaning on other devices.
    private func checkKeys() throws {
        try refuse(
            "A record has an id that no server gives.",
            sql: """
                SELECT staged.ord, staged.tbl, staged.key
                FROM temp.tidemark_staged AS staged
                JOIN temp.tidemark_table AS synced_table ON synced_table.tbl = staged.tbl
                JOIN temp.tidemark_answered AS answered ON answered.ord = staged.ord
                WHERE synced_table.kind = 'integer' AND NOT answered.conflict
                    AND CAST(staged.key AS INTEGER) NOT BETWEEN synced_table.lowest AND \(TemporaryID.permanentMax)
                LIMIT 1
                """)
    }

    private func checkOldIDs() throws {
        try refuse(
            "An __oldId__ names no record that the change set created.",
            sql: """
                \(Self.named)
                SELECT named.ord, named.tbl, named.key
                FROM named
                WHERE NOT EXISTS (
                    SELECT 1 FROM tidemark_outbox AS entry
                    WHERE entry.seq = named.seq AND entry.tbl = named.tbl AND entry.operation = 'create'
                        AND entry.key IN (
                            named.wire,
                            iif(CAST(named.wire AS INTEGER) <= -\(TemporaryID.reservedMin),
                                substr(named.wire, 2), NULL)))
                LIMIT 1
                """)
        // An update may name its record by an old id, too. The device must have that id in its map.
        try refuse(
            "An __oldId__ names another record.",
            sql: """
                \(Self.named)
                SELECT staged.ord, staged.tbl, staged.key
                FROM temp.tidemark_answered AS answered
                JOIN tidemark_changeset AS changeset ON changeset.id = answered.id
                JOIN temp.tidemark_staged AS staged ON staged.ord = answered.ord AND staged.operation <> 'create'
                JOIN temp.tidemark_table AS synced_table ON synced_table.tbl = staged.tbl
                WHERE NOT answered.conflict AND synced_table.kind = 'integer' AND staged.old_key IS NOT NULL
                    AND NOT EXISTS (
                        SELECT 1 FROM named
                        WHERE named.tbl = staged.tbl AND named.wire = staged.old_key AND named.key = staged.key)
                    AND NOT EXISTS (
                        SELECT 1 FROM tidemark_idmap AS mapping
                        WHERE mapping.tbl = staged.tbl AND mapping.permanent = CAST(staged.key AS INTEGER)
                            AND mapping.temporary IN (
                                CAST(staged.old_key AS INTEGER), CAST(substr(staged.old_key, 2) AS INTEGER)))
                LIMIT 1
                """)
    }

    private func checkNewRecords() throws {
        try refuse(
            "A new record of this device has no __oldId__.",
            sql: """
                \(Self.named)
                SELECT answered.ord, staged.tbl, staged.key
                FROM temp.tidemark_answered AS answered
                JOIN tidemark_changeset AS changeset ON changeset.id = answered.id
                JOIN temp.tidemark_staged AS staged
                    ON staged.ord = answered.ord AND staged.operation = 'create' AND staged.old_key IS NULL
                JOIN tidemark_outbox AS entry
                    ON entry.seq = changeset.seq AND entry.tbl = staged.tbl AND entry.operation = 'create'
                JOIN temp.tidemark_table AS synced_table ON synced_table.tbl = staged.tbl
                WHERE NOT answered.conflict AND synced_table.kind = 'integer'
                    AND CAST(entry.key AS INTEGER) NOT BETWEEN synced_table.lowest AND \(TemporaryID.permanentMax)
                    AND NOT EXISTS (
                        SELECT 1 FROM named
                        WHERE named.seq = entry.seq AND named.tbl = entry.tbl
                            AND named.wire IN (entry.key, '-' || entry.key))
                LIMIT 1
                """)
        for pair in ["tbl, wire", "tbl, key"] {
            try refuse(
                "Two new records share an id.",
                sql: """
                    \(Self.named)
                    SELECT max(ord) AS ord, tbl, key
                    FROM named
                    GROUP BY \(pair)
                    HAVING count(*) > 1
                    LIMIT 1
                    """)
        }
        try refuse(
            "A new record gets the id of another one.",
            sql: """
                \(Self.named)
                SELECT named.ord, named.tbl, named.key
                FROM named
                JOIN temp.tidemark_staged AS staged
                    ON staged.tbl = named.tbl AND staged.key = named.key AND staged.ord < named.ord
                JOIN temp.tidemark_answered AS answered ON answered.ord = staged.ord
                WHERE NOT answered.conflict
                LIMIT 1
                """)
    }

    /// Checks that a refusal is about the records of its change set, not about those of another one.
    ///
    /// A refusal names every record of its change set. If two ids were exchanged, the device would
    /// take the refused change set for an accepted one, and drop it. Only records with permanent
    /// integer ids are compared: they have one spelling on both sides.
    private func checkRefusedRecords() throws {
        try refuse(
            "A refusal is about other records than its change set.",
            sql: """
                SELECT answered.ord, entry.tbl, entry.key
                FROM temp.tidemark_answered AS answered
                JOIN tidemark_changeset AS changeset ON changeset.id = answered.id
                JOIN tidemark_outbox AS entry ON entry.seq = changeset.seq AND entry.operation = 'update'
                JOIN temp.tidemark_table AS synced_table
                    ON synced_table.tbl = entry.tbl AND synced_table.kind = 'integer'
                WHERE answered.conflict
                    AND CAST(entry.key AS INTEGER) BETWEEN synced_table.lowest AND \(TemporaryID.permanentMax)
                    AND EXISTS (
                        SELECT 1
                        FROM temp.tidemark_staged AS staged
                        WHERE staged.ord = answered.ord AND staged.tbl = entry.tbl)
                    AND NOT EXISTS (
                        SELECT 1
                        FROM temp.tidemark_staged AS staged
                        WHERE staged.ord = answered.ord AND staged.tbl = entry.tbl AND staged.key = entry.key)
                LIMIT 1
                """)
    }

    private func refuse(_ reason: String, sql: String, arguments: StatementArguments = []) throws {
        guard let row = try Row.fetchOne(db, cached: sql, arguments: arguments) else { return }
        throw Self.inapplicable(
            reason, place: try .init(changeSet: row.value("ord"), table: row.value("tbl"), key: row.value("key")))
    }
}
