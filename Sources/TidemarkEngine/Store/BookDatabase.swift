package import TidemarkCore

/// The books of one zone in a database: its history, verdicts and devices, in SQLite or PostgreSQL.
///
/// The statements are written once, as ``BookStatement``, for both. A store runs them, and implements nothing of what
/// they mean. All functions are synchronous, and run on the store's own thread in the transaction of the caller. They
/// throw an error of the database, or ``TidemarkCore/TidemarkError``.
package protocol BookDatabase {
    /// Runs questions, over a network in one round trip, and returns the rows of each, as far as they are wanted.
    func answers(_ questions: [BookQuestion]) throws -> [[BookRow]]

    /// Runs a statement without a result; over a network it may wait for the next question or the commit.
    ///
    /// - Throws: ``DuplicateRow`` for a row that exists, if it does not wait.
    func write(_ question: BookQuestion) throws
}

extension BookDatabase {
    /// Runs one question, and returns its rows.
    package func rows(_ question: BookQuestion) throws -> [BookRow] {
        question.statement.hasSet && question.count == 0 ? [] : try answers([question])[0]
    }

    /// Runs a statement, and returns its rows.
    package func rows(_ statement: BookStatement, _ values: [Value] = []) throws -> [BookRow] {
        try rows(BookQuestion(statement, values))
    }

    /// Runs a statement without a result.
    package func write(_ statement: BookStatement, _ values: [Value]) throws {
        try write(BookQuestion(statement, values))
    }

    /// Runs a statement without a result; `row` returns the rows of its set.
    package func write(_ statement: BookStatement, count: Int, row: (Int) -> [Value]) throws {
        guard count > 0 else { return }
        try withoutActuallyEscaping(row) { try write(BookQuestion(statement, count: count, row: $0)) }
    }
}

/// A statement on the books of a zone, for SQLite and PostgreSQL.
///
/// It is written once, with these signs:
///
/// | sign | SQLite | PostgreSQL |
/// | --- | --- | --- |
/// | `{revision}` | `main.tidemark_revision` | `tidemark.revision` |
/// | `{here}`, `{here entry}` | `true`: a file has one zone | `zone = $1`, `entry.zone = $1` |
/// | `$2` | `?2`: the first value | `$2`: `$1` is the zone |
/// | `{asked}` | one row of values | a table of the values of all rows |
/// | `{each log AS entry: CONDITION}` | `{asked}` with the rows for it | the same, row after row of the set |
/// | `{a|b}` | `a` | `b` |
///
/// `{asked}` stands for a set, whose columns the statement names with their types; its column `n` counts from 1.
/// PostgreSQL gets the whole set as arrays in one statement. SQLite runs the statement once a row, which in one process
/// is the fastest.
///
/// A set joins a table by `{each}` only. PostgreSQL plans a statement once, perhaps while the table is small, and would
/// then read all of it and look for each row in the set: its time would grow with the product.
package struct BookStatement: Sendable {
    package let sqlite: String
    /// The text for PostgreSQL.
    package let postgres: String
    /// The number of values beside those of the set.
    package let count: Int
    /// The number of the columns of its set; 0 if it has none.
    package let setColumns: Int
    /// Whether it asks about a set.
    package var hasSet: Bool { setColumns > 0 }
    /// Of an insertion of rows, the parts of the text for SQLite: before and after the values of some rows.
    package private(set) var insertion: (target: String, conflict: String)?

    /// Translates a text with signs; `set` are the names and types of its columns.
    package init(_ text: String, about set: KeyValuePairs<String, String> = [:]) {
        self.init(sqlite: text, postgres: text, about: set)
    }

    /// Translates two texts with signs, where the databases differ too much for one.
    package init(sqlite: String, postgres: String, about set: KeyValuePairs<String, String> = [:]) {
        self.init(sqlite: sqlite, postgres: postgres, columns: set.map { ($0.key, $0.value) })
    }

    private init(sqlite: String, postgres: String, columns set: [(name: String, type: String)]) {
        let names = set.map(\.name)
        let count = max(Self.valueCount(sqlite), Self.valueCount(postgres))
        self.count = count
        setColumns = names.count
        let columns = (names + ["n"]).enumerated().map { "?\(count + 2 + $0) AS \($1)" }
        let arrays = set.enumerated().map { "$\(count + 2 + $0)::\($1.type)[]" }
        let row = "(SELECT \(columns.joined(separator: ", "))) AS asked"
        let rows = """
            unnest(\(arrays.joined(separator: ", "))) WITH ORDINALITY
                AS asked (\((names + ["n"]).joined(separator: ", ")))
            """
        self.sqlite = Self.translate(sqlite.replacing(#/\$(\d+)/#) { "?\($0.output.1)" }) { sign in
            switch sign {
            case "asked": return row
            case _ where sign.hasPrefix("each "):
                let (table, condition) = Self.each(sign)
                return "\(row) JOIN main.tidemark_\(table) ON \(condition)"
            case _ where sign.hasPrefix("here"): return "true"
            case _ where sign.contains("|"): return String(sign.prefix { $0 != "|" })
            default: return "main.tidemark_\(sign)"
            }
        }
        self.postgres = Self.translate(postgres) { sign in
            switch sign {
            case "asked": return rows
            case _ where sign.hasPrefix("each "):
                let (table, condition) = Self.each(sign)
                let parts = table.split(separator: " ")
                // PostgreSQL does not flatten a query with OFFSET.
                return """
                    \(rows) CROSS JOIN LATERAL (
                        SELECT \(parts[2]).*, \(parts[2]).ctid AS row_place
                        FROM tidemark.\(parts[0]) AS \(parts[2])
                        WHERE \(parts[2]).zone = $1 AND \(condition)
                        OFFSET 0) AS \(parts[2])
                    """
            case "here": return "zone = $1"
            case _ where sign.hasPrefix("here "): return "\(sign.dropFirst(5)).zone = $1"
            case _ where sign.contains("|"): return String(sign.drop { $0 != "|" }.dropFirst())
            default: return "tidemark.\(sign)"
            }
        }
    }

    /// The parts of a sign `{each TABLE AS ALIAS: CONDITION}`.
    private static func each(_ sign: Substring) -> (table: Substring, condition: Substring) {
        let table = sign.dropFirst(5).prefix { $0 != ":" }
        return (table, sign[table.endIndex...].dropFirst(2))
    }

    /// An insertion of the rows of a set.
    ///
    /// `table` and `update` are texts with signs. A row whose `key` exists is updated: `stored` is the row that exists,
    /// and `excluded` the new one. A list of texts, `text[]`, is a value in JSON.
    package init(into table: String, _ columns: KeyValuePairs<String, String>, key: String = "", update: String? = nil)
    {
        let names = columns.map(\.key).joined(separator: ", ")
        let target = "\(table) AS stored ({|zone, }\(names))"
        let conflict = update.map { "ON CONFLICT ({|zone, }\(key)) DO UPDATE SET \($0)" } ?? ""
        let values = columns.map { column in
            column.value == "text[]" ? "translate(asked.\(column.key), '[]', '{}')::text[]" : "asked.\(column.key)"
        }
        let texts = columns.map { ($0.key, $0.value == "text[]" ? "text" : $0.value) }
        self.init(
            sqlite: "INSERT INTO \(target) \(conflict)",
            postgres: "INSERT INTO \(target) SELECT $1, \(values.joined(separator: ", ")) FROM {asked} \(conflict)",
            columns: texts)
        insertion = (BookStatement(target).sqlite, BookStatement(conflict).sqlite)
    }

    /// The number of values of a text: the highest of its parameters, without the zone.
    private static func valueCount(_ text: String) -> Int {
        text.matches(of: #/\$(\d+)/#).compactMap { Int($0.output.1) }.max().map { max(0, $0 - 1) } ?? 0
    }

    private static func translate(_ text: String, _ meaning: (Substring) -> String) -> String {
        text.replacing(#/\{(each [^{}]+|[a-z_ ]+|[^{}'"]*\|[^{}'"]*)\}/#) { meaning($0.output.1) }
    }
}

/// A statement with its values.
package struct BookQuestion {
    package let statement: BookStatement
    /// The values of the parameters from `$2` on.
    package let values: [Value]
    /// The number of rows of the set.
    package let count: Int
    /// Returns a row of the set by its index.
    package let row: (Int) -> [Value]
    /// Whether a row of the answer is wanted; the answer ends before the first that is not.
    package var isWanted: (BookRow) throws -> Bool = { _ in true }

    /// Makes a question; `row` returns the rows of the set.
    package init(_ statement: BookStatement, _ values: [Value] = [], count: Int, row: @escaping (Int) -> [Value]) {
        precondition(statement.count == values.count, "\(values.count) values for: \(statement.postgres)")
        self.statement = statement
        self.values = values
        self.count = count
        self.row = row
    }

    /// Makes a question.
    package init(_ statement: BookStatement, _ values: [Value] = [], about set: [[Value]] = []) {
        self.init(statement, values, count: set.count) { set[$0] }
    }
}

/// A row with the key of a new one exists already.
package struct DuplicateRow: Error {
    /// Makes the error.
    package init() {}
}

/// A row of an answer.
package struct BookRow: Sendable {
    private let values: [Value]

    /// Makes a row; PostgreSQL has only texts.
    package init(_ values: [Value]) { self.values = values }

    /// The text of a column; nil for NULL.
    package subscript(column: Int) -> String? { values[column].text }

    /// The number of a column; nil for NULL.
    package func integer(_ column: Int) -> Int64? {
        switch values[column] {
        case .integer(let number): number
        case .text(let text): Int64(text)
        default: nil
        }
    }

    /// Whether a column is true; NULL is false.
    package func isTrue(_ column: Int) -> Bool {
        switch values[column] {
        case .integer(let number): number != 0
        case .text(let text): text == "t"
        default: false
        }
    }

    /// The text of a column that has one.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/fileDamaged`` for NULL.
    package func text(_ column: Int) throws(TidemarkError) -> String {
        guard let text = self[column] else { throw Self.damaged }
        return text
    }

    /// The number of a column that has one.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/fileDamaged`` for NULL.
    package func number(_ column: Int) throws(TidemarkError) -> Int64 {
        guard let number = integer(column) else { throw Self.damaged }
        return number
    }

    private static var damaged: TidemarkError {
        TidemarkError(
            .fileDamaged, "A row of the zone's books cannot be read.", fix: "Put a backup of the database back.")
    }
}
