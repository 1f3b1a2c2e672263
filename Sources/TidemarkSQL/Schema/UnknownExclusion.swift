package import TidemarkCore

extension TidemarkError {
    /// Checks that the database has all tables to exclude; throws `invalidArgument` with the existing ones.
    package static func requireKnown(_ excluded: Set<String>, among names: [String]) throws(TidemarkError) {
        guard let unknown = excluded.subtracting(names).min() else { return }
        throw TidemarkError(
            .invalidArgument, "--exclude names \(unknown), which is not a table of this database.",
            fix: "The tables are \(names.sorted().joined(separator: ", ")).")
    }
}
