import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Converts staged values to texts that PostgreSQL casts to the column's type.
///
/// SQLite converts a written value to its column's affinity. This type does the same before writing:
/// `5` for a TEXT column is `'5'`, `'5'` for an INTEGER column is 5, 5 for a REAL column is 5.0. It
/// refuses values that SQLite stores unconverted, such as `'abc'` in an INTEGER column.
enum PostgresText {
    /// Installs the functions and the columns' types on a connection.
    static func prepare(_ db: Database, _ served: PostgresSchema) throws {
        let isInstalled = try Bool.fetchOne(
            db,
            sql: "SELECT count(*) > 0 FROM temp.sqlite_master WHERE name = 'tidemark_postgres_type'"
        )
        if isInstalled != true {
            db.add(function: text)
            db.add(function: misfit)
            try db.execute(
                sql: """
                    CREATE TEMP TABLE tidemark_postgres_type (
                        tbl TEXT, col TEXT, kind TEXT, hash TEXT, is_generated INTEGER, bits INTEGER, spelled_path TEXT,
                        PRIMARY KEY (tbl, col)
                    ) WITHOUT ROWID;
                    CREATE TEMP TABLE tidemark_spelling (
                        rec INTEGER, col TEXT, json TEXT, PRIMARY KEY (rec, col)
                    ) WITHOUT ROWID;
                    CREATE TEMP TABLE tidemark_replacement (created INTEGER PRIMARY KEY, deleted INTEGER NOT NULL);
                    """
            )
        }
        let hash = try String.fetchOne(db.cachedStatement(sql: "SELECT hash FROM temp.tidemark_postgres_type LIMIT 1"))
        guard hash != served.hash else { return }
        try db.execute(sql: "DELETE FROM temp.tidemark_postgres_type")
        for table in served.tables.values {
            for column in table.table.columns {
                try db.execute(
                    sql: "INSERT INTO temp.tidemark_postgres_type VALUES (?, ?, ?, ?, ?, ?, ?)",
                    arguments: [
                        table.table.name, column.name, table.kind(column.name).rawValue, served.hash,
                        table.generated.contains(column.name), bits[table.type(column.name)],
                        table.hasSpellings(column.name) ? MemberSQL.path(column.name) : nil,
                    ]
                )
            }
        }
    }

    /// Refuses values that the columns cannot hold.
    static func refuseMisfits(in db: Database) throws {
        let row = try Row.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT staged.ord, staged.tbl, staged.key, cell.col,
                        \(reason(against: "cell.value", "type.kind")) AS reason
                    FROM temp.tidemark_staged AS staged
                    JOIN temp.tidemark_staged_cell AS cell USING (rec)
                    JOIN temp.tidemark_postgres_type AS type
                        ON type.tbl = staged.tbl AND type.col = cell.col
                    WHERE reason IS NOT NULL
                    LIMIT 1
                    """
            )
        )
        guard let row else { return }
        throw refusal(
            row["reason"],
            .init(changeSet: row["ord"], table: row["tbl"], key: row["key"], column: row["col"])
        )
    }

    /// The error for a value with a reason of ``reason(against:_:)``.
    static func refusal(_ reason: String, _ place: TidemarkError.Place) -> TidemarkError {
        TidemarkError(
            .invalidValue,
            "A value \(reason).",
            fix: "Write a value of the column's type; the server keeps it in PostgreSQL.",
            place: place
        )
    }

    /// The maximum number of records in a batch.
    private static let recordsMax = 2_000

    /// Passes the staged records of a table to `body` as JSON arrays, in batches.
    ///
    /// With `operation`, only records with that operation; with `isWhole`, all in one array.
    static func eachRecords(
        _ table: SyncedTable,
        ord: Int,
        operation: TidemarkCore.Operation? = nil,
        isWhole: Bool = false,
        in db: Database,
        body: (String) throws -> Void
    ) throws {
        var last: Int64? = -1
        while let after = last {
            let row = try Row.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT json_group_array(json_object('rec', staged.rec, 'tbl', staged.tbl,
                                'key', staged.key, 'operation', staged.operation, 'base', staged.base,
                                'v', json((\(Self.values))), 'd', json((\(Self.deltas))))),
                            iif(count(*) = ?5, max(staged.rec), NULL), count(*)
                        FROM (
                            SELECT *
                            FROM temp.tidemark_staged
                            WHERE ord = ?2 AND tbl = ?1 AND operation = coalesce(?3, operation) AND rec > ?4
                            ORDER BY rec
                            LIMIT ?5
                        ) AS staged
                        """
                ),
                arguments: [table.name, ord, operation?.rawValue, after, isWhole ? Int.max : recordsMax]
            )
            guard let row, row[2] as Int > 0 else { return }
            try body(row[0])
            last = row[1]
        }
    }

    /// Returns the staged records of a table as one JSON array.
    static func records(_ table: SyncedTable, _ ord: Int, in db: Database) throws -> String {
        var all = "[]"
        try eachRecords(table, ord: ord, isWhole: true, in: db) { all = $0 }
        return all
    }

    /// Returns the records of a segment with an operation as one JSON array.
    ///
    /// Each has its base, and the later revisions that its author has seen.
    static func records(
        _ table: SyncedTable,
        segment: StagedSets,
        operation: TidemarkCore.Operation,
        in db: Database
    ) throws -> String {
        try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT json_group_array(json_object('key', staged.key, 'base', staged.since,
                        'seen', json(staged.seen), 'v', json((\(Self.values))), 'd', json((\(Self.deltas)))))
                    FROM (
                        SELECT staged.rec, staged.key,
                            min(coalesce(staged.base, planned.base), planned.base) AS since, planned.seen
                        FROM temp.tidemark_planned AS planned
                        JOIN temp.tidemark_staged AS staged USING (ord)
                        WHERE planned.segment = ?2 AND staged.tbl = ?1 AND staged.operation = ?3
                        ORDER BY staged.rec
                    ) AS staged
                    """
            ),
            arguments: [table.name, segment.number, operation.rawValue]
        ) ?? "[]"
    }

    /// The values of the record `staged`, a JSON object of texts.
    static let values = """
        SELECT json_group_object(cell.col, tidemark_postgres_text(\(storedValue("cell.value", "type.kind")), type.kind))
        FROM temp.tidemark_staged_cell AS cell
        JOIN temp.tidemark_postgres_type AS type ON type.tbl = ?1 AND type.col = cell.col
        WHERE cell.rec = staged.rec
        """

    /// The deltas of the record `staged`, a JSON object of integers; NULL without any.
    private static let deltas = """
        SELECT nullif(json_group_object(delta.col, delta.delta), '{}')
        FROM temp.tidemark_staged_delta AS delta
        WHERE delta.rec = staged.rec
        """

    /// A value as SQLite stores it: it spells a real number in a TEXT column in its own way.
    static func storedValue(_ value: String, _ kind: String) -> String {
        "iif(\(kind) = 'text' AND typeof(\(value)) = 'real', CAST(\(value) AS TEXT), \(value))"
    }

    /// The reason why a column of a kind cannot hold a value; NULL if it can.
    static func reason(against value: String, _ kind: String) -> String {
        "tidemark_postgres_misfit(\(value), \(Self.kind(kind, holding: value)))"
    }

    /// An unchecked value as text for a column of a kind; the statement fails for a misfit.
    static func strictText(_ value: String, _ kind: String) -> String {
        "tidemark_postgres_text(\(storedValue(value, kind)), \(Self.kind(kind, holding: value)))"
    }

    /// The kind of a column, or NULL for a text that GRDB does not pass on unchanged.
    ///
    /// GRDB cuts a text at NUL, and replaces invalid UTF-8 by U+FFFD. Canonical JSON has an object for
    /// such a text.
    private static func kind(_ kind: String, holding value: String) -> String {
        let isObject = #"substr(tidemark_key(\#(value)), 1, 1) <> '"'"#
        return "iif(typeof(\(value)) = 'text' AND \(isObject), NULL, \(kind))"
    }

    private static let text = DatabaseFunction("tidemark_postgres_text", argumentCount: 2, pure: true) { values in
        try convert(values[0], String.fromDatabaseValue(values[1])).get()
    }

    private static let misfit = DatabaseFunction("tidemark_postgres_misfit", argumentCount: 2, pure: true) { values in
        switch convert(values[0], String.fromDatabaseValue(values[1])) {
        case .success: nil
        case .failure(let misfit): misfit.reason
        }
    }

    /// A value that its column cannot hold.
    struct Misfit: Error { let reason: String }

    /// Converts a value to text for a column of a kind; nil is NULL.
    static func convert(_ value: DatabaseValue, _ name: String?) -> Result<String?, Misfit> {
        guard let name else {
            return .failure(Misfit(reason: "is text with NUL or not in UTF-8, which PostgreSQL does not keep"))
        }
        let kind = PostgresType(rawValue: name) ?? .text
        switch (value.storage, kind) {
        case (.null, _): return .success(nil)
        case (.int64(let number), .number): return .success(String(number))
        case (.double(let number), .number): return .success(real(number))
        case (.int64(let number), .microseconds): return .success(interval(number))
        case (.double(let number), .microseconds):
            guard let whole = Int64(exactly: number) else {
                return .failure(Misfit(reason: "is a fraction in a column of microseconds"))
            }
            return .success(interval(whole))
        case (.int64, .interval), (.double, .interval): return .failure(bareInterval)
        case (.int64(let number), .hexadecimal): return .success(String(number))
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
        case (.string(let text), _): return convert(text, kind)
        case (.blob(let data), .bytes):
            return .success("\\x" + data.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined())
        case (.blob, _): return .failure(Misfit(reason: "is a blob in a column of another type"))
        default: return .failure(Misfit(reason: "is a number in a column of another type"))
        }
    }

    private static func convert(_ text: String, _ kind: PostgresType) -> Result<String?, Misfit> {
        switch kind {
        case .text, .address, .hexadecimal, .moment, .longMoment: return .success(text)
        case .number:
            let suffix = "::numeric"
            return .success(text.hasSuffix(suffix) ? String(text.dropLast(suffix.count)) : text)
        case .interval: return isNumber(text) ? .failure(bareInterval) : .success(text)
        case .microseconds:
            guard isNumber(text) else { return .success(text) }
            guard let whole = Int64(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
                return .failure(Misfit(reason: "is a fraction in a column of microseconds"))
            }
            return .success(interval(whole))
        case .mixed:
            guard isNumber(text) else { return convert(text, .text) }
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

    /// Whether SQLite reads a whole text as a number.
    private static func isNumber(_ text: String) -> Bool {
        let number = /[ \t\n\v\f\r]*[+\-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+\-]?[0-9]+)?[ \t\n\v\f\r]*/
        return text.wholeMatch(of: number) != nil
    }

    /// PostgreSQL would read any number as seconds, but programs mean microseconds or days as well.
    private static let bareInterval = Misfit(
        reason: "is a number without a unit in a column of intervals; write for instance '90 seconds'"
    )

    /// An interval of microseconds in days and the rest, as Python's drivers write it.
    private static func interval(_ microseconds: Int64) -> String {
        let day: Int64 = 86_400_000_000
        let rest = (microseconds % day + day) % day
        let days = microseconds / day - (microseconds % day < 0 ? 1 : 0)
        return "\(days) days \(rest) microseconds"
    }

    /// A number in a column that may also hold texts: an integral one is an integer.
    private static func numeric(_ number: Double) -> String {
        if number.isInfinite { return number < 0 ? "-1e999" : "1e999" }
        let isSmall = abs(number) < 9_223_372_036_854_775_808
        return (isSmall ? Int64(exactly: number).map(String.init) : nil) ?? number.description
    }

    private static func real(_ number: Double) -> String {
        number.isInfinite ? (number < 0 ? "-Infinity" : "Infinity") : number.description
    }
}
