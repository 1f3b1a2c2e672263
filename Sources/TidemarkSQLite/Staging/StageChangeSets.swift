import Foundation
package import GRDB
package import TidemarkCore

/// Turns the JSON of change sets into staged records and cells, in sets: a handful of statements
/// whatever the number of rows.
///
/// Names and keys are checked against the catalogue on the way; a body with anything wrong in it is
/// refused whole.
package struct ChangeSetStaging {
    /// What happens to names that the catalogue does not have.
    package enum Strangers {
        /// Refuse the body, as the server does.
        case refuse
        /// Leave those out that the zone has dropped: on a device, an old revision may name them.
        case dropped
    }

    let db: Database
    private let limits: Limits
    private let strangers: Strangers
    /// How the value of a JSON string is read: SQLite's own reading, unless escapes make that
    /// inexact.
    private let textSQL: String
    private let hasUnicodeEscapes: Bool

    /// Checks that a body is well-formed JSON and makes ready to stage it.
    ///
    /// The connection must have been prepared by ``EngineConnection``.
    package init(
        body: [UInt8],
        limits: Limits,
        strangers: Strangers = .refuse,
        in db: Database
    ) throws {
        let scan = try JSONScan(body, limits: limits)
        (self.db, self.limits, hasUnicodeEscapes) = (db, limits, scan.hasUnicodeEscapes)
        self.strangers = strangers
        textSQL = scan.hasUnicodeEscapes ? "tidemark_decode(a.attributes -> c.fullkey)" : "c.atom"
    }

    /// Stages every change set of a JSON array.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` naming the first thing that is wrong.
    package func stage(changeSets: String) throws {
        try StagingTables.clear(in: db)
        try stageSets(changeSets)
        try stageTables()
        try stageKeys()
        try stageAttributes()
        try stageCells()
    }

    // MARK: Envelope

    private func stageSets(_ json: String) throws {
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_staged_set (ord, json)
                SELECT key, value FROM json_each(?) WHERE type = 'object'
                """
        ).execute(arguments: [json])
        let staged = db.changesCount
        let total =
            try Int.fetchOne(
                db.cachedStatement(sql: "SELECT json_array_length(?)"),
                arguments: [json]
            ) ?? 0
        guard staged == total else {
            throw TidemarkError(
                .malformedRequest,
                "An element of changeSets is not an object.",
                fix:
                    #"A change set is {"types":["t"],"t":{"create":[],"update":[],"delete":[],"attributes":{}}}."#
            )
        }
        try refuseDuplicates(
            """
            SELECT s.ord, NULL AS tbl, NULL AS key, j.key AS name
            FROM temp.tidemark_staged_set AS s, json_each(s.json) AS j
            GROUP BY s.ord, j.key HAVING count(*) > 1 LIMIT 1
            """
        )
    }

    private func stageTables() throws {
        let members = WireName.changeSetMembers.sorted().map { SQLText.literal($0) }
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_staged_table (ord, tbl, json)
                SELECT s.ord, j.key, CASE j.type WHEN 'object' THEN j.value ELSE 'null' END
                FROM temp.tidemark_staged_set AS s, json_each(s.json) AS j
                WHERE j.key NOT IN (\(members.joined(separator: ", ")))
                """
        ).execute()
        if strangers == .dropped {
            try db.cachedStatement(
                sql: """
                    DELETE FROM temp.tidemark_staged_table
                    WHERE tbl IN (SELECT tbl FROM temp.tidemark_gone)
                        AND tbl NOT IN (SELECT tbl FROM temp.tidemark_table)
                    """
            ).execute()
        }
        try refuse(
            .unknownTable,
            "This zone has no table of that name.",
            fix: "Use a synced table's name, exactly as it is spelled in CREATE TABLE.",
            """
            SELECT t.ord, t.tbl FROM temp.tidemark_staged_table AS t
            LEFT JOIN temp.tidemark_table AS k USING (tbl) WHERE k.tbl IS NULL LIMIT 1
            """
        )
        try refuseTypes()
        try refuse(
            .malformedRequest,
            "A table's part has another form than create, update, delete, attributes.",
            fix:
                "create, update and delete are arrays of keys; attributes is an object of objects.",
            """
            SELECT t.ord, t.tbl FROM temp.tidemark_staged_table AS t
            WHERE t.json = 'null' OR EXISTS (
                SELECT 1 FROM json_each(t.json) AS m WHERE m.key NOT IN ('create', 'update', 'delete', 'attributes')
                OR m.type <> CASE m.key WHEN 'attributes' THEN 'object' ELSE 'array' END
            ) LIMIT 1
            """
        )
        try refuseDuplicates(
            """
            SELECT t.ord, t.tbl, NULL AS key, m.key AS name
            FROM temp.tidemark_staged_table AS t, json_each(t.json) AS m
            GROUP BY t.ord, t.tbl, m.key HAVING count(*) > 1 LIMIT 1
            """
        )
    }

    // MARK: Records

    private func stageKeys() throws {
        try refuse(
            .invalidKey,
            "A key has the wrong form for its table.",
            fix: """
                Keys of INTEGER PRIMARY KEY tables are integers, of one TEXT column strings, of several columns \
                arrays of their values in key order.
                """,
            """
            SELECT t.ord, t.tbl, k.value AS key
            FROM temp.tidemark_staged_table AS t JOIN (
                    SELECT tbl, kind, count(*) AS parts FROM temp.tidemark_table
                    JOIN temp.tidemark_column USING (tbl) WHERE key_position >= 0 GROUP BY tbl
                ) AS d USING (tbl),
                json_each(t.json) AS m, json_each(m.value) AS k
            WHERE m.key <> 'attributes' AND NOT (CASE d.kind
                WHEN 'integer' THEN k.type = 'integer' AND typeof(k.atom) = 'integer'
                WHEN 'text' THEN k.type IN ('text', 'object')
                ELSE k.type <> 'null' AND (k.type = 'array') = (d.parts > 1)
                    AND CASE k.type WHEN 'array' THEN json_array_length(k.value) ELSE 1 END = d.parts
                    AND CASE k.type WHEN 'array'
                        THEN NOT EXISTS (SELECT 1 FROM json_each(k.value) WHERE type = 'null') ELSE 1 END
                END) LIMIT 1
            """
        )
        if hasUnicodeEscapes { try refuseInexactKeys() }
        try mappingInvalidValues(
            .invalidKey,
            place: """
                SELECT t.ord, t.tbl
                FROM temp.tidemark_staged_table AS t, json_each(t.json) AS m, json_each(m.value) AS k
                WHERE m.key <> 'attributes' AND k.type IN ('array', 'object', 'real')
                    AND tidemark_refusal(m.value -> ('$[' || k.key || ']')) IS NOT NULL LIMIT 1
                """
        ) {
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_staged (ord, tbl, operation, key)
                    SELECT t.ord, t.tbl, m.key, CASE
                        WHEN d.kind = 'integer' THEN CAST(k.atom AS TEXT)
                        WHEN k.type IN ('array', 'object') THEN tidemark_canonical(k.value)
                        WHEN k.type = 'real' THEN tidemark_canonical(m.value -> ('$[' || k.key || ']'))
                        ELSE tidemark_key(k.atom) END
                    FROM temp.tidemark_staged_table AS t JOIN temp.tidemark_table AS d USING (tbl),
                        json_each(t.json) AS m, json_each(m.value) AS k
                    WHERE m.key <> 'attributes'
                    ORDER BY t.ord, t.tbl, m.key, k.key
                    """
            ).execute()
        }
    }

    /// SQLite cuts a string at an escaped NUL, and reads half a surrogate pair as a character: such
    /// a key would be somebody else's.
    ///
    /// A key that spells out a backslash before `u0000` is refused as well.
    private func refuseInexactKeys() throws {
        try refuse(
            .invalidKey,
            "A key contains NUL, or an escape that is no character.",
            fix: "Give the record a key of other characters.",
            """
            SELECT t.ord, t.tbl, k.atom AS key
            FROM temp.tidemark_staged_table AS t, json_each(t.json) AS m, json_each(m.value) AS k
            WHERE m.key <> 'attributes' AND k.type = 'text'
                AND (instr(m.value, '\\u0000') OR substr(tidemark_key(k.atom), 1, 1) <> '"') LIMIT 1
            """
        )
    }

    private func stageAttributes() throws {
        try mappingInvalidValues(
            .invalidKey,
            place: """
                SELECT t.ord, t.tbl, j.key
                FROM temp.tidemark_staged_table AS t JOIN temp.tidemark_table AS d USING (tbl),
                    json_each(t.json, '$.attributes') AS j
                WHERE d.kind <> 'integer' AND tidemark_refusal(j.key) IS NOT NULL
                    AND (d.kind <> 'text' OR j.key LIKE '{"$%') LIMIT 1
                """
        ) {
            try db.cachedStatement(sql: "DELETE FROM temp.tidemark_staged_attributes").execute()
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_staged_attributes
                    SELECT t.ord, t.tbl, CASE d.kind
                        WHEN 'integer' THEN j.key
                        WHEN 'text' THEN CASE WHEN j.key LIKE '{"$%' THEN tidemark_canonical(j.key)
                            ELSE tidemark_key(j.key) END
                        ELSE tidemark_canonical(j.key) END,
                        CASE j.type WHEN 'object' THEN j.value END
                    FROM temp.tidemark_staged_table AS t JOIN temp.tidemark_table AS d USING (tbl),
                        json_each(t.json, '$.attributes') AS j
                    """
            ).execute()
        }
        try joinAttributes()
        try stageBases()
    }

    /// Gives each staged record its attributes.
    private func joinAttributes() throws {
        try refuseDuplicates(
            """
            SELECT ord, tbl, key, key AS name FROM temp.tidemark_staged_attributes
            GROUP BY ord, tbl, key HAVING count(*) > 1 LIMIT 1
            """
        )
        try refuse(
            .malformedRequest,
            "attributes has a member that is no object, or belongs to no created or updated record.",
            fix: "Give attributes only for keys that create or update of the same table lists.",
            """
            SELECT a.ord, a.tbl, a.key FROM temp.tidemark_staged_attributes AS a
            LEFT JOIN temp.tidemark_staged AS r USING (ord, tbl, key)
            WHERE a.attributes IS NULL OR r.rec IS NULL
                OR r.operation = 'delete' AND json_remove(a.attributes, '$.revision') <> '{}' LIMIT 1
            """
        )
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged SET attributes = a.attributes
                FROM temp.tidemark_staged_attributes AS a
                WHERE a.ord = tidemark_staged.ord AND a.tbl = tidemark_staged.tbl AND a.key = tidemark_staged.key
                """
        ).execute()
    }

    /// Takes the base and the old id out of the attributes.
    private func stageBases() throws {
        try refuseDuplicates(
            """
            SELECT a.ord, a.tbl, a.key, c.key AS name
            FROM temp.tidemark_staged AS a, json_each(a.attributes) AS c
            WHERE (a.attributes LIKE '%"revision"%"revision"%'
                    OR a.attributes LIKE '%"__oldId__"%"__oldId__"%')
                AND c.key IN ('revision', '__oldId__')
            GROUP BY a.rec, c.key HAVING count(*) > 1 LIMIT 1
            """
        )
        try db.cachedStatement(
            sql: """
                UPDATE temp.tidemark_staged SET base = attributes ->> '$.revision',
                    old_key = attributes ->> '$.__oldId__'
                WHERE attributes IS NOT NULL
                """
        ).execute()
        try refuse(
            .invalidValue,
            "revision is no revision.",
            fix: "revision is the revision of the record that the change is based on.",
            """
            SELECT ord, tbl, key, 'revision' AS col FROM temp.tidemark_staged
            WHERE json_type(attributes, '$.revision') <> 'integer' OR typeof(base) = 'real' OR base < 0
            LIMIT 1
            """
        )
    }

    // MARK: Cells

    private func stageCells() throws {
        let isDropped = strangers == .dropped ? "n.name IS NOT NULL AND n.col IS NULL" : "false"
        try refuse(
            .unknownColumn,
            "The table has no such column, or it is part of the key.",
            fix: "Use the names of columns that are neither generated nor part of the primary key.",
            """
            SELECT a.ord, a.tbl, a.key, c.key AS col
            FROM temp.tidemark_staged AS a, json_each(a.attributes) AS c
            LEFT JOIN temp.tidemark_alias AS n ON n.tbl = a.tbl AND n.name = c.key
            LEFT JOIN temp.tidemark_column AS k ON k.tbl = a.tbl AND k.col = coalesce(n.col, c.key)
            WHERE c.key NOT IN ('revision', '__oldId__')
                AND (k.col IS NULL OR k.key_position IS NOT NULL) AND NOT (\(isDropped)) LIMIT 1
            """
        )
        try mappingInvalidValues(
            .invalidValue,
            place: """
                SELECT a.ord, a.tbl, a.key, c.key AS col
                FROM temp.tidemark_staged AS a, json_each(a.attributes) AS c
                WHERE c.key NOT IN ('revision', '__oldId__') AND (c.type = 'array'
                    OR tidemark_refusal(a.attributes -> c.fullkey) IS NOT NULL) LIMIT 1
                """
        ) {
            do {
                try db.cachedStatement(sql: Self.cellSQL(text: textSQL, names: .wire)).execute()
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                try refuseDuplicates(
                    """
                    SELECT a.ord, a.tbl, a.key, c.key AS name
                    FROM temp.tidemark_staged AS a, json_each(a.attributes) AS c
                    GROUP BY a.rec, c.key HAVING count(*) > 1 LIMIT 1
                    """
                )
                throw error
            }
            try db.cachedStatement(sql: Self.keyCellSQL()).execute()
        }
        try refuse(
            .invalidValue,
            "An integer is beyond 64 bits.",
            fix: "SQLite's integers end at 9223372036854775807; send larger numbers as text.",
            """
            SELECT a.ord, a.tbl, a.key, c.key AS col
            FROM temp.tidemark_staged AS a, json_each(a.attributes) AS c
            WHERE c.type = 'integer' AND typeof(c.atom) <> 'integer' LIMIT 1
            """
        )
    }

    /// Whose names the members of attributes are.
    enum Names {
        /// This file's own.
        case own
        /// Those of the wire: former names are understood, strangers are left out.
        case wire
    }

    /// Decodes the attributes of staged records into cells.
    ///
    /// `text` is how the value of a JSON string is read, `condition` which staged records `a` to
    /// take.
    static func cellSQL(
        text: String,
        names: Names = .own,
        where condition: String = "true"
    ) -> String {
        let name = names == .own ? "c.key" : "coalesce(n.col, c.key)"
        let joins =
            names == .own
            ? ""
            : """
            LEFT JOIN temp.tidemark_alias AS n ON n.tbl = a.tbl AND n.name = c.key
            JOIN temp.tidemark_column AS k ON k.tbl = a.tbl AND k.col = \(name) AND k.key_position IS NULL
            """
        return """
            INSERT INTO temp.tidemark_staged_cell (rec, col, value)
            SELECT a.rec, \(name), CASE c.type
                WHEN 'text' THEN \(text)
                WHEN 'integer' THEN c.atom
                WHEN 'null' THEN NULL
                WHEN 'object' THEN tidemark_decode(c.value)
                WHEN 'array' THEN tidemark_decode(c.value)
                ELSE tidemark_decode(a.attributes -> c.fullkey) END
            FROM temp.tidemark_staged AS a, json_each(a.attributes) AS c \(joins)
            WHERE \(condition) AND c.key NOT IN ('revision', '__oldId__')
            """
    }

    /// The key's own columns, as cells like the others.
    package static func keyCellSQL(where condition: String = "true") -> String {
        """
        INSERT INTO temp.tidemark_staged_cell (rec, col, value)
        SELECT a.rec, k.col, CASE
            WHEN d.kind = 'integer' THEN CAST(a.key AS INTEGER)
            WHEN substr(a.key, 1, 1) = '[' THEN tidemark_decode(a.key -> k.key_position)
            ELSE tidemark_decode(a.key) END
        FROM temp.tidemark_staged AS a JOIN temp.tidemark_table AS d ON d.tbl = a.tbl
            JOIN temp.tidemark_column AS k ON k.tbl = a.tbl AND k.key_position >= 0
        WHERE \(condition)
        """
    }
}
