import Foundation
import GRDB
import TidemarkCore
import TidemarkSQLite

/// Staged values as PostgreSQL reads them: texts that are cast to the column's type.
///
/// SQLite converts a value to its column's affinity when it is written. Here the same is done
/// before: `5` for a TEXT column is `'5'`, `'5'` for an INTEGER column is 5, 5 for a REAL column is
/// 5.0. A value that SQLite would keep all the same, such as `'abc'` in an INTEGER column, is
/// refused: no column of PostgreSQL holds it.
enum PostgresText {
    /// Adds the functions and the columns' types to a connection.
    static func prepare(_ db: Database, _ served: PostgresSchema) throws {
        let known = try Bool.fetchOne(
            db,
            sql: "SELECT count(*) > 0 FROM temp.sqlite_master WHERE name = 'tidemark_postgres_type'"
        )
        if known != true {
            db.add(function: text)
            db.add(function: misfit)
            try db.execute(
                sql: """
                    CREATE TEMP TABLE tidemark_postgres_type (
                        tbl TEXT, col TEXT, kind TEXT, hash TEXT, PRIMARY KEY (tbl, col)
                    ) WITHOUT ROWID
                    """
            )
        }
        let hash = try String.fetchOne(db.cachedStatement(sql: "SELECT hash FROM temp.tidemark_postgres_type LIMIT 1"))
        guard hash != served.hash else { return }
        try db.execute(sql: "DELETE FROM temp.tidemark_postgres_type")
        for table in served.tables.values {
            for column in table.table.columns {
                try db.execute(
                    sql: "INSERT INTO temp.tidemark_postgres_type VALUES (?, ?, ?, ?)",
                    arguments: [table.table.name, column.name, table.kind(column.name).rawValue, served.hash]
                )
            }
        }
    }

    /// Refuses values that the columns cannot hold.
    static func refuseMisfits(in db: Database) throws {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT s.ord, s.tbl, s.key, c.col, \(reason(against: "c.value", "t.kind")) AS reason
                    FROM temp.tidemark_staged AS s JOIN temp.tidemark_staged_cell AS c USING (rec)
                    JOIN temp.tidemark_postgres_type AS t ON t.tbl = s.tbl AND t.col = c.col
                    WHERE reason IS NOT NULL LIMIT 1
                    """
            )
        )
        guard let row else { return }
        throw refusal(
            row["reason"],
            .init(changeSet: row["ord"], table: row["tbl"], key: row["key"], column: row["col"])
        )
    }

    /// The error about a value, for a reason that ``reason(against:_:)`` gives.
    static func refusal(_ reason: String, _ place: TidemarkError.Place) -> TidemarkError {
        TidemarkError(
            .invalidValue,
            "A value \(reason).",
            fix: "Write a value of the column's type; the server keeps it in PostgreSQL.",
            place: place
        )
    }

    /// How many records go to the database at a time.
    private static let recordsMax = 2_000

    /// Hands over the staged records of a table as JSON arrays: one, unless they are many.
    ///
    /// With `operation`, only those of which that is done; with `isWhole`, in one array, however
    /// many they are.
    static func eachRecords(
        _ table: SyncedTable,
        _ ord: Int,
        _ operation: TidemarkCore.Operation? = nil,
        isWhole: Bool = false,
        in db: Database,
        _ body: (String) throws -> Void
    ) throws {
        var last: Int64? = -1
        while let after = last {
            let row = try Row.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT json_group_array(json_object('rec', s.rec, 'tbl', s.tbl, 'key', s.key,
                                'operation', s.operation, 'base', s.base, 'v', json((\(Self.values))))),
                            iif(count(*) = ?5, max(s.rec), NULL), count(*)
                        FROM (SELECT * FROM temp.tidemark_staged WHERE ord = ?2 AND tbl = ?1
                            AND operation = coalesce(?3, operation) AND rec > ?4
                            ORDER BY rec LIMIT ?5) AS s
                        """
                ),
                arguments: [table.name, ord, operation?.rawValue, after, isWhole ? Int.max : recordsMax]
            )
            guard let row, row[2] as Int > 0 else { return }
            try body(row[0])
            last = row[1]
        }
    }

    /// The staged records of a table as one JSON array.
    static func records(_ table: SyncedTable, _ ord: Int, in db: Database) throws -> String {
        var all = "[]"
        try eachRecords(table, ord, isWhole: true, in: db) { all = $0 }
        return all
    }

    /// The records of a segment of which an operation is done as one JSON array, each with its base
    /// and with the revisions after it that its author knows.
    static func records(
        _ table: SyncedTable,
        _ segment: StagedSets,
        _ operation: TidemarkCore.Operation,
        in db: Database
    ) throws -> String {
        try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(json_object('key', s.key, 'base', s.since, 'seen', json(s.seen),
                        'v', json((\(Self.values)))))
                    FROM (SELECT s.rec, s.key, min(coalesce(s.base, p.base), p.base) AS since, p.seen
                        FROM temp.tidemark_planned AS p JOIN temp.tidemark_staged AS s USING (ord)
                        WHERE p.segment = ?2 AND s.tbl = ?1 AND s.operation = ?3 ORDER BY s.rec) AS s
                    """
            ),
            arguments: [table.name, segment.number, operation.rawValue]
        ) ?? "[]"
    }

    private static let values = """
        SELECT json_group_object(c.col, tidemark_postgres_text(\(written("c.value", "t.kind")), t.kind))
        FROM temp.tidemark_staged_cell AS c
        JOIN temp.tidemark_postgres_type AS t ON t.tbl = ?1 AND t.col = c.col
        WHERE c.rec = s.rec
        """

    /// A value as SQLite would write it: how it spells a number in a column of text is its own.
    static func written(_ value: String, _ kind: String) -> String {
        "iif(\(kind) = 'text' AND typeof(\(value)) = 'real', CAST(\(value) AS TEXT), \(value))"
    }

    /// Why a column of a kind cannot hold a value; NULL if it can.
    static func reason(against value: String, _ kind: String) -> String {
        "tidemark_postgres_misfit(\(value), \(Self.kind(kind, holding: value)))"
    }

    /// A value that may be a misfit as text for a column of a kind; the statement fails if it is.
    static func strictText(_ value: String, _ kind: String) -> String {
        "tidemark_postgres_text(\(written(value, kind)), \(Self.kind(kind, holding: value)))"
    }

    /// The kind of a column, or NULL where a text is none that GRDB's functions see as it is.
    ///
    /// They are given what stands before a NUL, and U+FFFD for what is not UTF-8. In canonical JSON
    /// such a text is an object.
    private static func kind(_ kind: String, holding value: String) -> String {
        let isOtherwise = #"substr(tidemark_key(\#(value)), 1, 1) <> '"'"#
        return "iif(typeof(\(value)) = 'text' AND \(isOtherwise), NULL, \(kind))"
    }

    private static let text = DatabaseFunction("tidemark_postgres_text", argumentCount: 2, pure: true) { values in
        try converted(values[0], String.fromDatabaseValue(values[1])).get()
    }

    private static let misfit = DatabaseFunction("tidemark_postgres_misfit", argumentCount: 2, pure: true) { values in
        switch converted(values[0], String.fromDatabaseValue(values[1])) {
        case .success: nil
        case .failure(let misfit): misfit.reason
        }
    }

    struct Misfit: Error { let reason: String }

    /// A value as text for a column of a kind; nil is NULL.
    static func converted(_ value: DatabaseValue, _ name: String?) -> Result<String?, Misfit> {
        guard let name else {
            return .failure(Misfit(reason: "is text with NUL or not in UTF-8, which PostgreSQL does not keep"))
        }
        let kind = PostgresType(rawValue: name) ?? .text
        switch (value.storage, kind) {
        case (.null, _): return .success(nil)
        case (.int64(let number), .text), (.int64(let number), .integer), (.int64(let number), .mixed):
            return .success(String(number))
        case (.int64(let number), .real): return .success(real(Double(number)))
        case (.int64(let number), .boolean) where number == 0 || number == 1: return .success(String(number))
        case (.double(let number), .integer), (.double(let number), .boolean):
            guard let whole = Int64(exactly: number), kind == .integer || [0, 1].contains(whole) else {
                return .failure(Misfit(reason: "is a fraction in a column of integers"))
            }
            return .success(String(whole))
        case (.double(let number), .real): return .success(real(number))
        case (.double(let number), .text): return .success(number.description)
        case (.double(let number), .mixed): return .success(numeric(number))
        case (.string(let text), _): return converted(text, kind)
        case (.blob(let data), .bytes):
            return .success("\\x" + data.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined())
        case (.blob, _): return .failure(Misfit(reason: "is a blob in a column of another type"))
        default: return .failure(Misfit(reason: "is a number in a column of another type"))
        }
    }

    private static func converted(_ text: String, _ kind: PostgresType) -> Result<String?, Misfit> {
        switch kind {
        case .text: return .success(text)
        case .mixed:
            let isNumber = /[ \t\n\v\f\r]*[+\-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+\-]?[0-9]+)?[ \t\n\v\f\r]*/
            guard text.wholeMatch(of: isNumber) != nil else { return converted(text, .text) }
            let trimmed = text.trimmingCharacters(in: .whitespacesAndNewlines)
            if let number = Int64(trimmed) { return .success(String(number)) }
            return .success(Double(trimmed).map(numeric) ?? text)
        case .integer, .boolean:
            guard let number = Int64(text), kind == .integer || [0, 1].contains(number) else {
                return .failure(Misfit(reason: "is text in a column of another type"))
            }
            return .success(String(number))
        case .real:
            guard let number = Double(text) else { return .failure(Misfit(reason: "is text in a column of numbers")) }
            return .success(real(number))
        case .bytes: return .failure(Misfit(reason: "is text in a column of blobs"))
        }
    }

    /// A number in a column where texts may be, too: an integer if it is one.
    private static func numeric(_ number: Double) -> String {
        if number.isInfinite { return number < 0 ? "-1e999" : "1e999" }
        let isSmall = abs(number) < 9_223_372_036_854_775_808
        return (isSmall ? Int64(exactly: number).map(String.init) : nil) ?? number.description
    }

    private static func real(_ number: Double) -> String {
        number.isInfinite ? (number < 0 ? "-Infinity" : "Infinity") : number.description
    }
}
