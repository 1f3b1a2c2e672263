import GRDB
import TidemarkCore

/// Stages attributes as cells: one row per value, as SQLite stores it.
extension ChangeSetStaging {
    /// Decodes the attributes and the keys of all records.
    ///
    /// The fast statement fails without a reason. Then the slow path finds the first error.
    func stageCells() throws {
        do { try db.cachedStatement(sql: strictCellSQL()).execute() } catch let error as DatabaseError
            where [.SQLITE_CONSTRAINT, .SQLITE_ERROR].contains(error.resultCode)
        { try stageCellsWithChecks() }
        if takesDeltas { try stageDeltas() }
        try db.cachedStatement(sql: Self.keyCellSQL()).execute()
    }

    /// The condition that an attribute is a value, with `known_column` as its column.
    private var isValueSQL: String {
        takesDeltas ? "(known_column.adds IS NOT 1 OR NOT \(Delta.isDelta("attribute")))" : "true"
    }

    /// The SQL of a JSON string's value: SQLite's own reading, unless escapes make it inexact.
    private var textSQL: String {
        hasUnicodeEscapes ? "tidemark_decode(staged.attributes -> attribute.fullkey)" : "attribute.atom"
    }

    /// The condition that staging ignores an attribute, because the zone has dropped its column.
    private var isIgnoredSQL: String {
        unknownNames == .ignoreDropped ? "former_name.name IS NOT NULL AND former_name.col IS NULL" : "false"
    }

    /// The join with the former name that an attribute uses.
    static let aliasJoin = """
        LEFT JOIN temp.tidemark_alias AS former_name
            ON former_name.tbl = staged.tbl AND former_name.name = attribute.key
        """
    /// The join with an attribute's column, after ``aliasJoin``.
    static let columnJoin = """
        temp.tidemark_column AS known_column
            ON known_column.tbl = staged.tbl AND known_column.col = coalesce(former_name.col, attribute.key)
                AND (former_name.col IS NOT NULL OR substr(attribute.key, 1, 1) <> '\(WireName.escape)')
        """

    /// Returns the fast statement, which fails for an attribute without a column or with a bad value.
    private func strictCellSQL() throws -> String {
        let hasAliases = try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_alias)"))
        // Most tables have no former names.
        let joins =
            hasAliases == true
            ? "\(Self.aliasJoin) LEFT JOIN \(Self.columnJoin) AND known_column.key_position IS NULL"
            : """
            LEFT JOIN temp.tidemark_column AS known_column
                ON known_column.tbl = staged.tbl AND known_column.col = attribute.key
                    AND known_column.key_position IS NULL
            """
        return Self.cellSQL(
            text: textSQL,
            name: "iif(attribute.type = 'integer' AND typeof(attribute.atom) <> 'integer', NULL, known_column.col)",
            joining: joins,
            where: hasAliases == true ? "NOT (\(isIgnoredSQL)) AND \(isValueSQL)" : isValueSQL
        )
    }

    /// Stages the cells, and reports the first error.
    private func stageCellsWithChecks() throws {
        try refuse(
            .unknownColumn,
            message: "The table has no such column, or it is part of the key.",
            fix: "Use the names of columns that are neither generated nor part of the primary key.",
            sql: """
                SELECT staged.ord, staged.tbl, staged.key, attribute.key AS col
                FROM temp.tidemark_staged AS staged, json_each(staged.attributes) AS attribute
                \(Self.aliasJoin)
                LEFT JOIN \(Self.columnJoin)
                WHERE attribute.key NOT IN ('revision', '__oldId__')
                    AND (known_column.col IS NULL OR known_column.key_position IS NOT NULL)
                    AND NOT (\(isIgnoredSQL))
                LIMIT 1
                """
        )
        try mappingInvalidValues(
            .invalidValue,
            place: """
                SELECT staged.ord, staged.tbl, staged.key, attribute.key AS col
                FROM temp.tidemark_staged AS staged, json_each(staged.attributes) AS attribute
                \(Self.aliasJoin)
                LEFT JOIN \(Self.columnJoin)
                WHERE attribute.key NOT IN ('revision', '__oldId__') AND \(isValueSQL) AND (attribute.type = 'array'
                    OR tidemark_refusal(staged.attributes -> attribute.fullkey) IS NOT NULL)
                LIMIT 1
                """
        ) {
            do {
                try db.cachedStatement(
                    sql: Self.cellSQL(
                        text: textSQL,
                        name: "coalesce(former_name.col, attribute.key)",
                        joining: "\(Self.aliasJoin) JOIN \(Self.columnJoin) AND known_column.key_position IS NULL",
                        where: isValueSQL
                    )
                ).execute()
            } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
                try refuseDuplicates(
                    """
                    SELECT staged.ord, staged.tbl, staged.key, attribute.key AS name
                    FROM temp.tidemark_staged AS staged, json_each(staged.attributes) AS attribute
                    GROUP BY staged.rec, attribute.key
                    HAVING count(*) > 1
                    LIMIT 1
                    """
                )
                throw error
            }
        }
        try refuse(
            .invalidValue,
            message: "An integer is beyond 64 bits.",
            fix: "SQLite's integers end at 9223372036854775807; send larger numbers as text.",
            sql: """
                SELECT staged.ord, staged.tbl, staged.key, attribute.key AS col
                FROM temp.tidemark_staged AS staged, json_each(staged.attributes) AS attribute
                WHERE attribute.type = 'integer' AND typeof(attribute.atom) <> 'integer'
                LIMIT 1
                """
        )
    }

    /// Returns a statement that decodes the attributes of staged records into cells.
    ///
    /// `text` is the SQL of a JSON string's value, and `name` the SQL of an attribute's column, which
    /// may need `joins`. `condition` selects attributes.
    static func cellSQL(
        text: String,
        name: String = MemberSQL.name(of: "attribute.key"),
        joining joins: String = "",
        where condition: String = "true"
    ) -> String {
        """
        INSERT INTO temp.tidemark_staged_cell (rec, col, value)
        SELECT staged.rec, \(name), CASE attribute.type
            WHEN 'text' THEN \(text)
            WHEN 'integer' THEN attribute.atom
            WHEN 'null' THEN NULL
            WHEN 'object' THEN tidemark_decode(attribute.value)
            WHEN 'array' THEN tidemark_decode(attribute.value)
            ELSE tidemark_decode(staged.attributes -> attribute.fullkey) END
        FROM temp.tidemark_staged AS staged, json_each(staged.attributes) AS attribute \(joins)
        WHERE \(condition) AND attribute.key NOT IN ('revision', '__oldId__')
        """
    }

    /// Returns a statement that stages key columns as cells; `condition` selects rows `staged`.
    package static func keyCellSQL(where condition: String = "true") -> String {
        """
        INSERT INTO temp.tidemark_staged_cell (rec, col, value)
        SELECT staged.rec, key_column.col, CASE
            WHEN known_table.kind = 'integer' THEN CAST(staged.key AS INTEGER)
            WHEN substr(staged.key, 1, 1) = '[' THEN tidemark_decode(staged.key -> key_column.key_position)
            ELSE tidemark_decode(staged.key) END
        FROM temp.tidemark_staged AS staged
        JOIN temp.tidemark_table AS known_table ON known_table.tbl = staged.tbl
        JOIN temp.tidemark_column AS key_column ON key_column.tbl = staged.tbl AND key_column.key_position >= 0
        WHERE \(condition)
        """
    }
}
