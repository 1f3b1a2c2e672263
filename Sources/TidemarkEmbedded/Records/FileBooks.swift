package import GRDB
import TidemarkCore
package import TidemarkEngine
import TidemarkSQL

/// Who reads and writes the books of a zone in its file: by cached statements on one connection.
package protocol FileBooks: BookDatabase { var db: Database { get } }

package struct FileConnection: FileBooks {
    package let db: Database

    package init(_ db: Database) { self.db = db }
}

extension FileBooks {
    package func answers(_ questions: [BookQuestion]) throws -> [[BookRow]] {
        try questions.map { question in
            var rows: [BookRow] = []
            try run(question) { pointer in
                let row = BookRow(RowValues.values(in: pointer))
                guard try question.isWanted(row) else { return false }
                rows.append(row)
                return true
            }
            return rows
        }
    }

    package func write(_ question: BookQuestion) throws {
        guard let insertion = question.statement.insertion else { return try run(question) { _ in true } }
        let columns = question.statement.setColumns
        let marks = "(\(Array(repeating: "?", count: columns).joined(separator: ", ")))"
        do {
            // Few statements, which are compiled once.
            for start in stride(from: 0, to: question.count, by: 32) {
                let size = min(32, question.count - start)
                let rows = Array(repeating: marks, count: size).joined(separator: ", ")
                let sql = "INSERT INTO \(insertion.target) VALUES \(rows) \(insertion.conflict)"
                try BoundStatement(sql, in: db).run { statement in
                    for place in 0..<size {
                        for (column, value) in question.row(start + place).enumerated() {
                            statement.bind(value, at: Int32(place * columns + column + 1))
                        }
                    }
                }
            }
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_PRIMARYKEY {
            throw DuplicateRow()
        }
    }

    private func run(_ question: BookQuestion, row: (OpaquePointer) throws -> Bool) throws {
        let statement = try BoundStatement(question.statement.sqlite, in: db)
        let first = Int32(question.values.count + 2)
        var isWanted = true
        for number in 0..<(question.statement.hasSet ? question.count : 1) where isWanted {
            try statement.run { statement in
                for (index, value) in question.values.enumerated() { statement.bind(value, at: Int32(index + 2)) }
                guard question.statement.hasSet else { return }
                let set = question.row(number)
                for (index, value) in set.enumerated() { statement.bind(value, at: first + Int32(index)) }
                statement.bind(number + 1, at: first + Int32(set.count))
            } while: { pointer in
                isWanted = try row(pointer)
                return isWanted
            }
        }
    }
}
