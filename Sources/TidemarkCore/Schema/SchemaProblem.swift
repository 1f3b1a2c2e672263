/// A reason why a table cannot be synced as it is, with the SQL that cures it.
public struct SchemaProblem: Hashable, Sendable {
    /// The table.
    public let table: String
    /// The column, when it is about one.
    public let column: String?
    /// Why the table cannot be synced.
    public let reason: String
    /// The SQL that cures it.
    public let cure: String

    /// Makes a problem.
    public init(table: String, column: String? = nil, reason: String, cure: String) {
        self.table = table
        self.column = column
        self.reason = reason
        self.cure = cure
    }

    /// A new column that is called as another one was, which old apps still mean by the name.
    public static func formerName(_ column: String, of now: String, in table: String) -> Self {
        SchemaProblem(
            table: table,
            column: column,
            reason: "has the name that \(now) had before, and old apps would write into it what is meant for that",
            cure: "ALTER TABLE \(table) RENAME COLUMN \(column) TO another_name;"
        )
    }
}

/// All the reasons why a schema cannot be synced, at once.
public struct UnsyncableSchema: Error, Hashable, Sendable, CustomStringConvertible {
    /// The problems, in the order in which their cures work; never empty.
    public let problems: [SchemaProblem]

    /// Makes the error from its problems.
    public init(problems: [SchemaProblem]) { self.problems = problems }

    /// One block a problem: the place, the reason, and the cure indented.
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
