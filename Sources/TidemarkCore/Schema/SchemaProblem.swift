/// A reason why a table cannot be synced, with the SQL that cures it.
public struct SchemaProblem: Hashable, Sendable {
    /// The table.
    public let table: String
    /// The column, if the problem concerns one.
    public let column: String?
    /// The reason why the table cannot be synced.
    public let reason: String
    /// The SQL that cures it.
    public let cure: String

    /// Creates a problem.
    public init(table: String, column: String? = nil, reason: String, cure: String) {
        self.table = table
        self.column = column
        self.reason = reason
        self.cure = cure
    }

    /// Creates the problem of a new column with the former name, which old apps still use, of the column `now`.
    public static func formerName(_ column: String, of now: String, in table: String) -> Self {
        SchemaProblem(
            table: table, column: column,
            reason: "has the former name of \(now), and old apps would write the values of \(now) into it",
            cure: "ALTER TABLE \(table) RENAME COLUMN \(column) TO another_name;")
    }
}

/// All reasons why a schema cannot be synced.
public struct UnsyncableSchema: Error, Hashable, Sendable, CustomStringConvertible {
    /// The problems, in the order in which their cures work; never empty.
    public let problems: [SchemaProblem]

    /// Creates the error from its problems.
    public init(problems: [SchemaProblem]) { self.problems = problems }

    /// One block per problem: the place, the reason and the indented cure.
    public var description: String {
        let blocks = problems.map { problem in
            let place = problem.column.map { "\(problem.table).\($0)" } ?? problem.table
            let cure = problem.cure.split(separator: "\n").map { "      \($0)" }
            return "  \(place): \(problem.reason)\n    cure:\n\(cure.joined(separator: "\n"))"
        }
        let count = problems.count == 1 ? "1 problem" : "\(problems.count) problems"
        return "This schema cannot be synced as it is (\(count)).\n\(blocks.joined(separator: "\n"))"
    }
}
