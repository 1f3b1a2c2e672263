package import TidemarkCore

extension TidemarkError {
    /// Refuses tables to leave out that are none of a database's.
    ///
    /// - Throws: `invalidArgument`, which names the tables that there are.
    package static func requireKnown(_ excluded: Set<String>, among names: [String]) throws(TidemarkError) {
        guard let unknown = excluded.subtracting(names).min() else { return }
        throw TidemarkError(
            .invalidArgument,
            "--exclude names \(unknown), which is no table there.",
            fix: "The tables are \(names.sorted().joined(separator: ", "))."
        )
    }
}
