package import GRDB
package import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// Who reads and writes the books of a zone in its file: by cached statements on one connection.
package protocol FileBooks: BookDatabase {
    /// The connection.
    var db: Database { get }
}

/// A connection to a zone's file.
package struct FileConnection: FileBooks {
    package let db: Database

    /// Wraps a connection.
    package init(_ db: Database) { self.db = db }
}

extension FileBooks {
    package var isLocal: Bool { true }

    package func answers(_ questions: [BookQuestion]) throws -> [[BookRow]] {
        try questions.map { question in
            var rows: [BookRow] = []
            try each(question) { row in
                rows.append(row)
                return true
            }
            return rows
        }
    }

    package func each(_ question: BookQuestion, _ row: (BookRow) throws -> Bool) throws {
        try run(question) { try row(BookRow(RowValues.values(in: $0))) }
    }

    package func write(_ question: BookQuestion) throws { try run(question) { _ in true } }

    private func run(_ question: BookQuestion, row: (OpaquePointer) throws -> Bool) throws {
        let statement = try BoundStatement(question.statement.sqlite, in: db)
        let first = Int32(question.values.count + 2)
        var isWanted = true
        for (number, set) in (question.statement.hasSet ? question.set : [[]]).enumerated() where isWanted {
            try statement.run { statement in
                for (index, value) in question.values.enumerated() { statement.bind(value, at: Int32(index + 2)) }
                guard question.statement.hasSet else { return }
                for (index, value) in set.enumerated() { statement.bind(value, at: first + Int32(index)) }
                statement.bind(number + 1, at: first + Int32(set.count))
            } while: { pointer in
                isWanted = try row(pointer)
                return isWanted
            }
        }
    }

    package func insert(_ rows: BookInsert, count: Int, _ values: (Int) -> [Value]) throws {
        let insert = InsertRows(rows.sqlite.target, columns: rows.columns, rows.sqlite.conflict, in: db)
        do {
            try insert.run(count) { index, row in
                for (column, value) in values(index).enumerated() { row.bind(value, at: Int32(column)) }
            }
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_PRIMARYKEY {
            throw DuplicateRow()
        }
    }
}
