import ArgumentParser
import TidemarkCore

/// `--policy`: the conflict policies with which a zone is served.
struct PolicyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            A table's conflict policy: reject, columns, lastWriter or latest; a column may have its own, \
            as in note.text=latest; may be repeated.
            """,
            valueName: "table[.column]=policy"
        )
    )
    var policy: [String] = []

    /// The policies by table, and by `table.column`.
    func read() throws -> [String: ConflictPolicy] {
        try policy.reduce(into: [String: ConflictPolicy]()) { policies, text in
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            guard parts.count == 2, let policy = ConflictPolicy(rawValue: parts[1]) else {
                throw TidemarkError(
                    .invalidArgument,
                    "\(text) is no policy of a table.",
                    fix: """
                        Write table=policy or table.column=policy, with \
                        \(ConflictPolicy.allCases.map(\.rawValue).joined(separator: ", ")).
                        """
                )
            }
            policies[parts[0]] = policy
        }
    }

    /// Refuses policies of what a schema does not have.
    func requireKnown(in schema: SyncSchema) throws {
        let known = schema.tables.flatMap { table in
            [table.name] + table.valueColumns.map { "\(table.name).\($0.name)" }
        }
        guard let unknown = try read().keys.sorted().first(where: { !known.contains($0) }) else {
            return
        }
        let tables = schema.tables.map(\.name).sorted().joined(separator: ", ")
        throw TidemarkError(
            .invalidArgument,
            "--policy names \(unknown), which is no synced table, nor a column apart from its key.",
            fix: "The synced tables are \(tables)."
        )
    }
}
