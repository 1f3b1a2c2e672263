package import GRDB

extension Database {
    /// The rows of a query, each as text joined by `|`, NULL as an empty text.
    package func textRows(_ sql: String) throws -> [String] {
        try Row.fetchAll(self, sql: sql).map { row in
            row.databaseValues.map { value in
                if case .string(let text) = value.storage { return text }
                return value.isNull ? "" : "\(value)"
            }.joined(separator: "|")
        }
    }
}
