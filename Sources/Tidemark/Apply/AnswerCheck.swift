import GRDB
import TidemarkCore
import TidemarkSQLite

/// What must be true of an answer's change sets before any of them is believed.
///
/// The answer may come from a broken or hostile server, or from something that stands between: then
/// it is refused whole, and file and outbox stay as they were. What this cannot tell, for instance
/// one plausible value in another's place, is left to the fingerprint.
struct AnswerCheck {
    let db: Database
    let schema: SyncSchema
    /// The revision that the request was made at.
    let requested: Int64
    /// The ids of the change sets in the request.
    let sent: [String]

    /// The error of an answer that cannot be applied.
    static func inapplicable(_ reason: String, place: TidemarkError.Place = .init()) -> TidemarkError {
        TidemarkError(
            .invalidResponse,
            "\(inapplicableWords): \(reason)",
            fix: "Nothing was changed, and what waits is kept. Compare versions and tables.",
            place: place
        )
    }

    private static let inapplicableWords = "The server's answer cannot be applied"

    /// Whether an error says that an answer does not fit this file: then one of the two is wrong.
    static func isInapplicable(_ error: TidemarkError) -> Bool {
        error.code == .invalidResponse && error.message.hasPrefix(inapplicableWords)
    }

    /// Whether an error of SQLite is about what was to be written, not about the disk or the file.
    static func blames(_ error: DatabaseError) -> Bool {
        [.SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_ERROR, .SQLITE_TOOBIG].contains(error.resultCode)
    }

    /// Reads the members of the staged change sets that are not tables, and checks them against
    /// each other and against the outbox.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `invalidResponse`.
    func form() throws {
        try ownSets()
        try verdicts()
    }

    /// What of that does not depend on the request.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `invalidResponse`.
    func ownSets() throws {
        try read()
        try members()
        try ids()
        try keys()
        try oldIds()
    }

    /// Checks that the ids given to new records are nobody's, while the tables hold what the server
    /// has confirmed.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with `invalidResponse`.
    func newIdsAreFree() throws {
        let tables = try String.fetchSet(
            db.cachedStatement(sql: "\(Self.named) SELECT DISTINCT tbl FROM named WHERE revision > ?1"),
            arguments: [requested]
        )
        for table in schema.tables where tables.contains(table.name) {
            try refuse(
                "A new record gets the id of another one.",
                """
                \(Self.named) SELECT n.ord, n.tbl, n.key FROM named AS n
                JOIN main.\(SQLText.name(table.name)) AS t ON \(KeySQL.match(table, key: "n.key", alias: "t."))
                WHERE n.tbl = ?2 AND n.revision > ?1 LIMIT 1
                """,
                [requested, table.name]
            )
        }
    }

    // MARK: The checks

    /// The new records of this device's accepted change sets that have an `__oldId__`.
    private static let named = """
        WITH named (ord, seq, revision, tbl, key, wire) AS (
            SELECT a.ord, c.seq, a.revision, r.tbl, r.key, r.old_key
            FROM temp.tidemark_answered AS a JOIN tidemark_changeset AS c ON c.id = a.id
            JOIN temp.tidemark_staged AS r ON r.ord = a.ord
            JOIN temp.tidemark_table AS t ON t.tbl = r.tbl
            WHERE NOT a.conflict AND r.operation = 'create' AND r.old_key IS NOT NULL
                AND t.kind = 'integer'
        )
        """

    /// One pass over the JSON; a value of another type than the protocol's is left out, and its
    /// type noted.
    private func read() throws {
        try db.cachedStatement(
            sql: """
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
                """
        ).execute()
    }

    private func members() throws {
        try refuse(
            "A change set has a member of another kind than the protocol's.",
            """
            SELECT s.ord FROM temp.tidemark_staged_set AS s LEFT JOIN temp.tidemark_answered AS a USING (ord)
            WHERE a.ord IS NULL OR a.wrong OR NOT a.conflict AND a.revision IS NULL
                OR a.conflict AND a.id IS NULL LIMIT 1
            """
        )
        try refuse(
            "A conflict has a reason of another form than the protocol's.",
            """
            SELECT a.ord FROM temp.tidemark_answered AS a, json_each(a.reasons) AS r
            WHERE CASE r.type WHEN 'object' THEN
                coalesce(json_type(r.value, '$.table'), 'text') <> 'text'
                OR coalesce(json_type(r.value, '$.rule'), 'text') <> 'text'
                OR coalesce(json_type(r.value, '$.message'), 'text') <> 'text'
                OR coalesce(json_type(r.value, '$.columns'), 'array') <> 'array'
                ELSE 1 END
            LIMIT 1
            """
        )
    }

    private func ids() throws {
        try refuse(
            "Two change sets have one id.",
            """
            SELECT max(ord) AS ord FROM temp.tidemark_answered WHERE id IS NOT NULL
            GROUP BY id HAVING count(*) > 1 LIMIT 1
            """
        )
    }

    private func verdicts() throws {
        try refuse(
            "It has a verdict on a change set that was not sent.",
            """
            SELECT a.ord FROM temp.tidemark_answered AS a LEFT JOIN tidemark_changeset AS c ON c.id = a.id
            WHERE c.seq IS NOT NULL AND c.wire IS NULL
                OR (a.conflict OR a.revision <= ?1)
                    AND coalesce(a.id, '') NOT IN (SELECT value FROM json_each(?2))
            LIMIT 1
            """,
            [requested, "[" + sent.map { "\"\($0)\"" }.joined(separator: ",") + "]"]
        )
    }

    /// Ids below 0 and from 2^52 on are temporary, and another record's on every device.
    private func keys() throws {
        try refuse(
            "A record has an id that no server gives.",
            """
            SELECT r.ord, r.tbl, r.key FROM temp.tidemark_staged AS r
            JOIN temp.tidemark_table AS t ON t.tbl = r.tbl
            JOIN temp.tidemark_answered AS a ON a.ord = r.ord
            WHERE t.kind = 'integer' AND NOT a.conflict
                AND CAST(r.key AS INTEGER) NOT BETWEEN 0 AND \(TemporaryID.permanentMax)
            LIMIT 1
            """
        )
    }

    private func oldIds() throws {
        try refuse(
            "An __oldId__ is that of no record which the change set created.",
            """
            \(Self.named) SELECT n.ord, n.tbl, n.key FROM named AS n
            WHERE NOT EXISTS (
                SELECT 1 FROM tidemark_outbox AS o
                WHERE o.seq = n.seq AND o.tbl = n.tbl AND o.operation = 'create' AND o.key IN (
                    n.wire, iif(CAST(n.wire AS INTEGER) <= -\(TemporaryID.reservedMin), substr(n.wire, 2), NULL)))
            LIMIT 1
            """
        )
        // An update may name its record by the old id as well: then it is known.
        try refuse(
            "An __oldId__ is that of another record.",
            """
            \(Self.named) SELECT r.ord, r.tbl, r.key FROM temp.tidemark_answered AS a
            JOIN tidemark_changeset AS c ON c.id = a.id
            JOIN temp.tidemark_staged AS r ON r.ord = a.ord AND r.operation <> 'create'
            JOIN temp.tidemark_table AS t ON t.tbl = r.tbl
            WHERE NOT a.conflict AND t.kind = 'integer' AND r.old_key IS NOT NULL AND NOT EXISTS (
                SELECT 1 FROM named AS n WHERE n.tbl = r.tbl AND n.wire = r.old_key AND n.key = r.key
            ) AND NOT EXISTS (
                SELECT 1 FROM tidemark_idmap AS m WHERE m.tbl = r.tbl
                    AND m.permanent = CAST(r.key AS INTEGER)
                    AND m.temporary IN (CAST(r.old_key AS INTEGER), CAST(substr(r.old_key, 2) AS INTEGER))
            ) LIMIT 1
            """
        )
        try refuse(
            "It does not say which new record is whose.",
            """
            \(Self.named) SELECT a.ord, r.tbl, r.key FROM temp.tidemark_answered AS a
            JOIN tidemark_changeset AS c ON c.id = a.id
            JOIN temp.tidemark_staged AS r ON r.ord = a.ord AND r.operation = 'create' AND r.old_key IS NULL
            JOIN tidemark_outbox AS o ON o.seq = c.seq AND o.tbl = r.tbl AND o.operation = 'create'
            JOIN temp.tidemark_table AS t ON t.tbl = r.tbl
            WHERE NOT a.conflict AND t.kind = 'integer'
                AND CAST(o.key AS INTEGER) NOT BETWEEN 0 AND \(TemporaryID.permanentMax)
                AND NOT EXISTS (SELECT 1 FROM named AS n WHERE n.seq = o.seq AND n.tbl = o.tbl
                    AND n.wire IN (o.key, '-' || o.key))
            LIMIT 1
            """
        )
        for pair in ["tbl, wire", "tbl, key"] {
            try refuse(
                "Two new records share an id.",
                """
                \(Self.named) SELECT max(ord) AS ord, tbl, key FROM named
                GROUP BY \(pair) HAVING count(*) > 1 LIMIT 1
                """
            )
        }
        try refuse(
            "A new record gets the id of another one.",
            """
            \(Self.named) SELECT n.ord, n.tbl, n.key FROM named AS n
            JOIN temp.tidemark_staged AS r ON r.tbl = n.tbl AND r.key = n.key AND r.ord < n.ord
            JOIN temp.tidemark_answered AS a ON a.ord = r.ord
            WHERE NOT a.conflict LIMIT 1
            """
        )
    }

    private func refuse(_ reason: String, _ sql: String, _ arguments: StatementArguments = []) throws {
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: arguments) else { return }
        throw Self.inapplicable(
            reason,
            place: try .init(changeSet: row.value("ord"), table: row.value("tbl"), key: row.value("key"))
        )
    }
}
