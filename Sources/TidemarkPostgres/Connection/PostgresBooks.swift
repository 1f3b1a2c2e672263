import TidemarkCore
import TidemarkEngine

/// Who reads and writes the books of a zone in schema `tidemark`: several questions are one round trip, and sets are
/// arrays.
protocol PostgresBooks: BookDatabase {
    var pg: PostgresConnection { get }
    var zone: String { get }
}

/// A zone on a connection, outside a transaction that writes.
final class ZoneConnection: PostgresBooks {
    let pg: PostgresConnection
    let zone: String
    private var opening: [PostgresStatement]
    private let check: ([PostgresRows]) throws -> Void

    /// Wraps a connection; the first question takes along the statements of `opening`, and `check` reads their results.
    init(
        _ pg: PostgresConnection, zone: String, opening: [PostgresStatement] = [],
        _ check: @escaping ([PostgresRows]) throws -> Void = { _ in }
    ) throws {
        guard !zone.utf8.contains(0) else { throw TidemarkError.unknownZone }
        self.pg = pg
        self.zone = zone
        self.opening = opening
        self.check = check
    }

    /// Wraps a connection; the first question throws ``TablesAltered`` if the tables are not as served.
    convenience init(_ pg: PostgresConnection, zone: String, of served: PostgresSchema, begin: [PostgresStatement] = [])
        throws
    {
        let position = CataloguePosition.statement(of: served.namespace, zone: zone)
        try self.init(pg, zone: zone, opening: begin + [position]) { results in
            let position = CataloguePosition(results[begin.count])
            guard position == served.position else { throw TablesAltered() }
            if !begin.isEmpty { try pg.deallocateStatements(ifAlteredAt: position) }
        }
    }

    func answers(_ questions: [BookQuestion]) throws -> [[BookRow]] {
        let first = opening
        opening = []
        let results = try pg.run(first + questions.map(statement))
        if !first.isEmpty { try check(Array(results.prefix(first.count))) }
        return try Self.rows(results.dropFirst(first.count), of: questions)
    }
}

extension PostgresBooks {
    func answers(_ questions: [BookQuestion]) throws -> [[BookRow]] {
        try Self.rows(pg.run(questions.map(statement))[...], of: questions)
    }

    /// Queues a statement; an insertion of many long rows becomes several.
    func write(_ question: BookQuestion) throws {
        guard question.statement.insertion != nil else {
            return try queue(question, (0..<question.count).map(question.row))
        }
        var rows: [[Value]] = []
        var bytes = 0
        for index in 0..<question.count {
            rows.append(question.row(index))
            bytes += rows[rows.count - 1].reduce(0) { $0 + MemoryLayout<Value>.stride + ($1.text?.utf8.count ?? 8) }
            guard bytes > Self.writtenBytesMax || index == question.count - 1 else { continue }
            try queue(question, rows)
            rows = []
            bytes = 0
        }
    }

    /// The bytes of rows in memory after which an insertion ends.
    private static var writtenBytesMax: Int { 1 << 20 }

    private func queue(_ question: BookQuestion, _ rows: [[Value]]) throws {
        let statement = statement(question, rows)
        try pg.queue(statement.sql, statement.parameters)
    }

    /// Results as rows of the books, as far as they are wanted.
    static func rows(_ results: ArraySlice<PostgresRows>, of questions: [BookQuestion]) throws -> [[BookRow]] {
        try zip(results, questions).map { rows, question in
            try rows.map { BookRow($0) }.prefix { try question.isWanted($0) }.map { $0 }
        }
    }

    func statement(_ question: BookQuestion) -> PostgresStatement {
        statement(question, (0..<question.count).map(question.row))
    }

    private func statement(_ question: BookQuestion, _ rows: [[Value]]) -> PostgresStatement {
        let arrays = Self.arrays(rows, columns: question.statement.setColumns)
        return PostgresStatement(question.statement.postgres, [zone] + question.values.map(\.postgresText) + arrays)
    }

    /// Rows as one array literal a column.
    private static func arrays(_ rows: [[Value]], columns: Int) -> [String?] {
        (0..<columns).map { column in PostgresArray.nullable(rows.map { $0[column].postgresText }) }
    }
}

extension BookRow {
    fileprivate init(_ row: PostgresRows.Row) { self.init((0..<row.count).map { row[$0].map(Value.text) ?? .null }) }
}

extension Value {
    /// The value as a parameter of a statement; the books have only numbers and texts.
    fileprivate var postgresText: String? {
        switch self {
        case .integer(let number): String(number)
        case .text(let text): text
        case .null, .real, .rawText, .blob: nil
        }
    }
}
