import ArgumentParser
import TidemarkCore

/// `--key`: the keys of tables without a primary key.
struct KeyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The columns that identify a row of a table without a primary key; may be repeated.",
            discussion: """
                Without it, these are the columns of a UNIQUE constraint that are NOT NULL, or else SQLite's rowid. The \
                zone keeps the key.
                """,
            valueName: "table=column,...")
    ) var key: [String] = []

    func read() throws -> [String: [String]] {
        try key.reduce(into: [:]) { keys, text in
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            let columns = parts.count == 2 ? parts[1].split(separator: ",").map(String.init) : []
            guard !columns.isEmpty, keys[parts[0]] == nil else {
                throw TidemarkError(
                    .invalidArgument, "\(text) is no key of a table, or the table's second one.",
                    fix: "Write table=column,column once for each table.")
            }
            keys[parts[0]] = columns
        }
    }
}
