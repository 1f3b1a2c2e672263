import CLibPQ

/// A statement with its parameters.
struct PostgresStatement {
    let sql: String
    let parameters: [String?]

    init(_ sql: String, _ parameters: [String?] = []) {
        self.sql = sql
        self.parameters = parameters
    }
}
