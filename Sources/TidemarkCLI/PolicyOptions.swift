import ArgumentParser
import TidemarkCore

/// `--policy`: changes of a zone's conflict policies.
struct PolicyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            Change a table's conflict policy: reject, columns, lastWriter or latest; a column may have its own, \
            as in note.text=latest, or add up, as in item.stock=add; may be repeated.
            """,
            discussion: "The zone keeps the policy until the next change; `tidemark schema` shows it.",
            valueName: "table[.column]=policy")
    ) var policy: [String] = []

    /// Parses the policies by table, and by `table.column`.
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
                        """)
            }
            policies[parts[0]] = policy
        }
    }
}
