import GRDB
import TidemarkCore

/// Attributes become cells: a row a value, as SQLite stores it.
extension ChangeSetStaging {
    /// Decodes the attributes of all records, and their keys.
    ///
    /// Where anything is wrong with one of them, the statement fails without saying what; then it
    /// is looked for.
    func stageCells() throws {
        do { try db.cachedStatement(sql: strictCellSQL()).execute() } catch let error as DatabaseError
            where [.SQLITE_CONSTRAINT, .SQLITE_ERROR].contains(error.resultCode)
        { try stageCellsOneByOne() }
        try db.cachedStatement(sql: Self.keyCellSQL()).execute()
    }

    /// How the value of a JSON string is read: SQLite's own reading, unless escapes make that
    /// inexact.
    private var textSQL: String { hasUnicodeEscapes ? "tidemark_decode(a.attributes -> c.fullkey)" : "c.atom" }

    /// Members that the zone has dropped, where these are left out.
    private var isDropped: String { strangers == .dropped ? "n.name IS NOT NULL AND n.col IS NULL" : "false" }

    /// Where the former name of a column is the member's.
    private static let aliases = "LEFT JOIN temp.tidemark_alias AS n ON n.tbl = a.tbl AND n.name = c.key"
    /// The column of a member.
    private static let columns = "temp.tidemark_column AS k ON k.tbl = a.tbl AND k.col = coalesce(n.col, c.key)"

    /// A cell without a column is refused; so a member that is not to be has none.
    private func strictCellSQL() throws -> String {
        let hasAliases = try Bool.fetchOne(db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_alias)"))
        // Most tables never had another name for anything.
        let joins =
            hasAliases == true
            ? "\(Self.aliases) LEFT JOIN \(Self.columns) AND k.key_position IS NULL"
            : """
            LEFT JOIN temp.tidemark_column AS k
                ON k.tbl = a.tbl AND k.col = c.key AND k.key_position IS NULL
            """
        return Self.cellSQL(
            text: textSQL,
            name: "iif(c.type = 'integer' AND typeof(c.atom) <> 'integer', NULL, k.col)",
            joining: joins,
            where: hasAliases == true ? "NOT (\(isDropped))" : "true"
        )
    }

    /// Stages the cells, and names the first thing that is wrong.
    private func stageCellsOneByOne() throws {
        try refuse(
            .unknownColumn,
            "The table has no such column, or it is part of the key.",
            fix: "Use the names of columns that are neither generated nor part of the primary key.",
            """
            SELECT a.ord, a.tbl, a.key, c.key AS col
            FROM temp.tidemark_staged AS a, json_each(a.attributes) AS c
            \(Self.aliases) LEFT JOIN \(Self.columns)
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
                try db.cachedStatement(
                    sql: Self.cellSQL(
                        text: textSQL,
                        name: "coalesce(n.col, c.key)",
                        joining: "\(Self.aliases) JOIN \(Self.columns) AND k.key_position IS NULL"
                    )
                ).execute()
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

    /// Decodes the attributes of staged records into cells.
    ///
    /// `text` is how the value of a JSON string is read, `name` the column of a member `c`, with
    /// what has to be joined for that; `condition` says which to take.
    static func cellSQL(
        text: String,
        name: String = "c.key",
        joining joins: String = "",
        where condition: String = "true"
    ) -> String {
        """
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
