/// One of the benchmarks of `tidemark-dev bench`.
///
/// Each measures a job of Tidemark beside the same job of the engine underneath, its ceiling, in
/// turn and in the same run. The ratio holds on any machine, the times on one.
package protocol Benchmark: Sendable {
    /// Its name on the command line.
    static var name: String { get }
    /// Its purpose, in a sentence.
    static var summary: String { get }

    /// Its cases; each is prepared when its turn comes.
    static func cases(_ setting: BenchSetting) -> [BenchCase]
}

/// The settings of a benchmark.
package struct BenchSetting: Sendable {
    /// The number of rows of a large table.
    package var rows: Int
    /// PostgreSQL's address, to measure its store; nil measures the embedded one.
    package let postgres: String?
    /// The folder of all files.
    package let folder: String
    /// The sizes of zones against which growth is measured, in rows.
    package var sizes = [10_000, 100_000, 1_000_000]
    /// The lengths of history against which growth is measured, in revisions.
    package var histories = [100, 1_000, 10_000]
    /// The numbers of simultaneous listeners.
    package var listeners = [100, 1_000, 10_000]
    /// The days of a list that changes every day, the first one included.
    package var days = 31
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

    /// The same settings with another number of rows.
    func with(rows: Int) -> BenchSetting {
        var setting = self
        setting.rows = rows
        return setting
    }
}
