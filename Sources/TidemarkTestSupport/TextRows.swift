import Foundation
import GRDB

extension Database {
    /// The rows of a query, each as text joined by `|`, NULL as nothing.
    func textRows(_ sql: String) throws -> [String] {
        try Row.fetchAll(self, sql: sql).map { row in
            row.databaseValues.map { $0.isNull ? "" : "\($0)".trimmingCharacters(in: ["\""]) }
                .joined(separator: "|")
        }
    }
}
