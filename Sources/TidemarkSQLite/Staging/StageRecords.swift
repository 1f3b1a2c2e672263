import GRDB
import TidemarkCore

/// Keys and their attributes become records.
extension ChangeSetStaging {
    /// A parsed key as people are told of it.
    static let writtenKey = "iif(type IN ('array', 'object'), json, atom)"

    /// Makes a record of each key that was parsed.
    func stageRecords() throws {
        try refuseUnfitKeys()
        if hasUnicodeEscapes { try refuseInexactKeys() }
        // What is wrong with the keys themselves is told first.
        let naming = Result { try nameAttributes() }
        if case .failure = naming { try insertRecords(withAttributes: false) }
        try naming.get()
        try insertRecords(withAttributes: true)
        try refuseUnfitAttributes()
        for table in ["key", "attributes"] {
            try db.cachedStatement(sql: "DELETE FROM temp.tidemark_staged_\(table)").execute()
        }
    }

    private func refuseUnfitKeys() throws {
        try refuse(
            .invalidKey,
            "A key has the wrong form for its table.",
            fix: """
                Keys of INTEGER PRIMARY KEY tables are integers, of one TEXT column strings, of several columns \
                arrays of their values in key order.
                """,
            """
            SELECT k.ord, k.tbl, \(Self.writtenKey) AS key
            FROM temp.tidemark_staged_key AS k JOIN temp.tidemark_table AS d USING (tbl)
            WHERE NOT (CASE d.kind
                WHEN 'integer' THEN k.type = 'integer' AND typeof(k.atom) = 'integer'
                WHEN 'text' THEN k.type IN ('text', 'object')
                ELSE k.type <> 'null' AND (k.type = 'array') = (d.parts > 1)
                    AND CASE k.type WHEN 'array' THEN json_array_length(k.json) ELSE 1 END = d.parts
                    AND CASE k.type WHEN 'array'
                        THEN NOT EXISTS (SELECT 1 FROM json_each(k.json) WHERE type = 'null') ELSE 1 END
                END) LIMIT 1
            """
        )
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
            SELECT ord, tbl, atom AS key FROM temp.tidemark_staged_key
            WHERE type = 'text'
                AND (instr(json, '\\u0000') OR substr(tidemark_key(atom), 1, 1) <> '"') LIMIT 1
            """
        )
    }

    /// Gives attributes the keys of their records in canonical form.
    private func nameAttributes() throws {
        let isWritten = "d.kind = 'general' OR d.kind = 'text' AND a.key LIKE '{\"$%'"
        try mappingInvalidValues(
            .invalidKey,
            place: """
                SELECT a.ord, a.tbl, a.key
                FROM temp.tidemark_staged_attributes AS a JOIN temp.tidemark_table AS d USING (tbl)
                WHERE (\(isWritten)) AND tidemark_refusal(a.key) IS NOT NULL LIMIT 1
                """
        ) {
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_staged_attributes AS a SET key = tidemark_canonical(a.key)
                    FROM temp.tidemark_table AS d WHERE d.tbl = a.tbl AND (\(isWritten))
                    """
            ).execute()
        }
        try refuseDuplicates(
            """
            SELECT ord, tbl, key, key AS name FROM temp.tidemark_staged_attributes
            GROUP BY ord, tbl, key HAVING count(*) > 1 LIMIT 1
            """
        )
    }

    /// Writes the records down in the order of their keys, each with its attributes, and with base
    /// and old id out of these.
    private func insertRecords(withAttributes: Bool) throws {
        try mappingInvalidValues(
            .invalidKey,
            place: """
                SELECT ord, tbl FROM temp.tidemark_staged_key
                WHERE type IN ('array', 'object', 'real') AND tidemark_refusal(json) IS NOT NULL LIMIT 1
                """
        ) {
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_staged (ord, tbl, operation, key, attributes, base, old_key)
                    SELECT k.ord, k.tbl, k.operation, k.key, a.attributes,
                        a.attributes ->> '$.revision', a.attributes ->> '$.__oldId__'
                    FROM (
                        SELECT ord, tbl, operation, place, CASE
                            WHEN d.kind = 'integer' THEN CAST(atom AS TEXT)
                            WHEN type IN ('array', 'object', 'real') THEN tidemark_canonical(json)
                            ELSE tidemark_key(atom) END AS key
                        FROM temp.tidemark_staged_key CROSS JOIN temp.tidemark_table AS d USING (tbl)
                    ) AS k LEFT JOIN temp.tidemark_staged_attributes AS a
                        ON a.ord = k.ord AND a.tbl = k.tbl AND a.key = k.key AND \(withAttributes)
                    ORDER BY k.ord, k.tbl, k.operation, k.place
                    """
            ).execute()
        }
    }

    // MARK: Attributes

    /// Looks through the records once; what is wrong with one of them is looked for only if one is
    /// suspicious.
    private func refuseUnfitAttributes() throws {
        let found = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT count(attributes) = (SELECT count(*) FROM temp.tidemark_staged_attributes)
                            AND NOT max(operation = 'delete' AND attributes IS NOT NULL) AS fits,
                        max(instr(attributes, '"revision"') OR instr(attributes, '"__oldId__"')) AS named
                    FROM temp.tidemark_staged
                    """
            )
        )
        if try found?.value("fits") as Bool? != true { try refuseForeignAttributes() }
        if try found?.value("named") as Bool? == true { try refuseWrongBases() }
    }

    private func refuseForeignAttributes() throws {
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
    }

    private func refuseWrongBases() throws {
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
}
