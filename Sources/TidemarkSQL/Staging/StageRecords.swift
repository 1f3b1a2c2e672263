import GRDB
import TidemarkCore

/// Stages keys and their attributes as records.
extension ChangeSetStaging {
    /// The SQL of a parsed key as error messages show it.
    static let keyTextSQL = "iif(type IN ('array', 'object'), json, atom)"

    /// Stages a record for each parsed key.
    func stageRecords() throws {
        try refuseUnfitKeys()
        if hasUnicodeEscapes { try refuseInexactKeys() }
        // Errors in the keys themselves are reported first.
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
            message: "A key has the wrong form for its table.",
            fix: """
                Keys of INTEGER PRIMARY KEY tables are integers, of one TEXT column strings, of several columns \
                arrays of their values in key order.
                """,
            sql: """
                SELECT staged_key.ord, staged_key.tbl, \(Self.keyTextSQL) AS key
                FROM temp.tidemark_staged_key AS staged_key
                JOIN temp.tidemark_table AS known_table USING (tbl)
                WHERE NOT (CASE known_table.kind
                    WHEN 'integer' THEN staged_key.type = 'integer' AND typeof(staged_key.atom) = 'integer'
                    WHEN 'text' THEN staged_key.type IN ('text', 'object')
                    ELSE staged_key.type <> 'null' AND (staged_key.type = 'array') = (known_table.parts > 1)
                        AND CASE staged_key.type WHEN 'array'
                            THEN json_array_length(staged_key.json) ELSE 1 END = known_table.parts
                        AND CASE staged_key.type WHEN 'array'
                            THEN NOT EXISTS (SELECT 1 FROM json_each(staged_key.json) WHERE type = 'null')
                            ELSE 1 END
                    END)
                LIMIT 1
                """
        )
    }

    /// Refuses keys with an escaped NUL or half a surrogate pair.
    ///
    /// SQLite cuts a string at NUL and reads half a pair as a character, so the key would be another
    /// record's. A key with an escaped backslash before `u0000` is refused as well.
    private func refuseInexactKeys() throws {
        try refuse(
            .invalidKey,
            message: "A key contains NUL, or an escape that is not a character.",
            fix: "Give the record a key of other characters.",
            sql: """
                SELECT ord, tbl, atom AS key
                FROM temp.tidemark_staged_key
                WHERE type = 'text'
                    AND (instr(json, '\\u0000') OR substr(tidemark_key(atom), 1, 1) <> '"')
                LIMIT 1
                """
        )
    }

    /// Converts the keys of attributes to canonical form.
    private func nameAttributes() throws {
        let hasRawKey =
            "known_table.kind = 'general' OR known_table.kind = 'text' AND staged_attributes.key LIKE '{\"$%'"
        try mappingInvalidValues(
            .invalidKey,
            place: """
                SELECT staged_attributes.ord, staged_attributes.tbl, staged_attributes.key
                FROM temp.tidemark_staged_attributes AS staged_attributes
                JOIN temp.tidemark_table AS known_table USING (tbl)
                WHERE (\(hasRawKey)) AND tidemark_refusal(staged_attributes.key) IS NOT NULL
                LIMIT 1
                """
        ) {
            try db.cachedStatement(
                sql: """
                    UPDATE temp.tidemark_staged_attributes AS staged_attributes
                    SET key = tidemark_canonical(staged_attributes.key)
                    FROM temp.tidemark_table AS known_table
                    WHERE known_table.tbl = staged_attributes.tbl AND (\(hasRawKey))
                    """
            ).execute()
        }
        try refuseDuplicates(
            """
            SELECT ord, tbl, key, key AS name
            FROM temp.tidemark_staged_attributes
            GROUP BY ord, tbl, key
            HAVING count(*) > 1
            LIMIT 1
            """
        )
    }

    /// Inserts the records in the order of their keys, with their attributes, bases and old ids.
    private func insertRecords(withAttributes: Bool) throws {
        try mappingInvalidValues(
            .invalidKey,
            place: """
                SELECT ord, tbl
                FROM temp.tidemark_staged_key
                WHERE type IN ('array', 'object', 'real') AND tidemark_refusal(json) IS NOT NULL
                LIMIT 1
                """
        ) {
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_staged (ord, tbl, operation, key, attributes, base, old_key)
                    SELECT record_key.ord, record_key.tbl, record_key.operation, record_key.key,
                        staged_attributes.attributes, staged_attributes.attributes ->> '$.revision',
                        staged_attributes.attributes ->> '$.__oldId__'
                    FROM (
                        SELECT ord, tbl, operation, place, CASE
                            WHEN known_table.kind = 'integer' THEN CAST(atom AS TEXT)
                            WHEN type IN ('array', 'object', 'real') THEN tidemark_canonical(json)
                            ELSE tidemark_key(atom) END AS key
                        FROM temp.tidemark_staged_key
                        CROSS JOIN temp.tidemark_table AS known_table USING (tbl)
                    ) AS record_key
                    LEFT JOIN temp.tidemark_staged_attributes AS staged_attributes
                        ON staged_attributes.ord = record_key.ord AND staged_attributes.tbl = record_key.tbl
                            AND staged_attributes.key = record_key.key AND \(withAttributes)
                    ORDER BY record_key.ord, record_key.tbl, record_key.operation, record_key.place
                    """
            ).execute()
        }
    }

    // MARK: Attributes

    /// Checks all records in one scan, and searches for the error only if the scan finds one.
    private func refuseUnfitAttributes() throws {
        let summary = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT count(attributes) = (SELECT count(*) FROM temp.tidemark_staged_attributes)
                            AND NOT max(operation = 'delete' AND attributes IS NOT NULL) AS fits,
                        max(instr(attributes, '"revision"') OR instr(attributes, '"__oldId__"')) AS has_reserved_names
                    FROM temp.tidemark_staged
                    """
            )
        )
        if try summary?.value("fits") as Bool? != true { try refuseForeignAttributes() }
        if try summary?.value("has_reserved_names") as Bool? == true { try refuseWrongBases() }
    }

    private func refuseForeignAttributes() throws {
        try refuse(
            .malformedRequest,
            message: "attributes has a member that is not an object, or has no created or updated record.",
            fix: "Give attributes only for keys that create or update of the same table lists.",
            sql: """
                SELECT staged_attributes.ord, staged_attributes.tbl, staged_attributes.key
                FROM temp.tidemark_staged_attributes AS staged_attributes
                LEFT JOIN temp.tidemark_staged AS staged USING (ord, tbl, key)
                WHERE staged_attributes.attributes IS NULL OR staged.rec IS NULL
                    OR staged.operation = 'delete'
                        AND json_remove(staged_attributes.attributes, '$.revision') <> '{}'
                LIMIT 1
                """
        )
    }

    private func refuseWrongBases() throws {
        try refuseDuplicates(
            """
            SELECT staged.ord, staged.tbl, staged.key, attribute.key AS name
            FROM temp.tidemark_staged AS staged, json_each(staged.attributes) AS attribute
            WHERE (staged.attributes LIKE '%"revision"%"revision"%'
                    OR staged.attributes LIKE '%"__oldId__"%"__oldId__"%')
                AND attribute.key IN ('revision', '__oldId__')
            GROUP BY staged.rec, attribute.key
            HAVING count(*) > 1
            LIMIT 1
            """
        )
        try refuse(
            .invalidValue,
            message: "revision is not a revision number.",
            fix: "revision is the revision of the record that the change is based on.",
            sql: """
                SELECT ord, tbl, key, 'revision' AS col
                FROM temp.tidemark_staged
                WHERE json_type(attributes, '$.revision') <> 'integer' OR typeof(base) = 'real' OR base < 0
                LIMIT 1
                """
        )
    }
}
