/// One of the benchmarks of `tidemark bench`.
///
/// Each measures a job of ours beside the same job done by the engines underneath alone, its
/// ceiling, in turn and in the same run: the ratio holds on any machine, the times on one.
package protocol Benchmark: Sendable {
    /// By what it is asked for.
    static var name: String { get }
    /// What it does, in a sentence.
    static var summary: String { get }

    /// What is measured; each case is made ready when its turn comes.
    static func cases(_ setting: BenchSetting) -> [BenchCase]
}

/// What a benchmark is run with.
package struct BenchSetting: Sendable {
    /// How many rows a large table has.
    package var rows: Int
    /// PostgreSQL's address, when its store is to be measured; else the embedded one is.
    package let postgres: String?
    /// Where files are made.
    package let folder: String
    /// The sizes of zones against which growth is measured, in rows.
    package var sizes = [10_000, 100_000, 1_000_000]
    /// The lengths of history against which growth is measured, in revisions.
    package var histories = [100, 1_000, 10_000]
    /// How many listen at a time.
    package var listeners = [100, 1_000, 10_000]
    /// Whether this only shows that everything works: pauses are short, and times mean nothing.
    package var isTrial = false

    /// Makes a setting.
    package init(rows: Int, postgres: String?, folder: String) {
        self.rows = rows
        self.postgres = postgres
        self.folder = folder
    }

    /// The name of the store, for people.
    package var store: String { postgres == nil ? "sqlite" : "postgres" }

    /// The same with other rows.
    func with(rows: Int) -> BenchSetting {
        var setting = self
        setting.rows = rows
        return setting
    }
}
