/// One of the benchmarks of `tidemark bench`.
///
/// Each measures a job of ours beside the same job done by the engines underneath alone, its
/// ceiling, in turn and in the same run: the ratio holds on any machine, the times on one.
package protocol Benchmark: Sendable {
    /// By what it is asked for.
    static var name: String { get }
    /// What it does, in a sentence.
    static var summary: String { get }

    /// Makes ready what is to be measured.
    static func cases(_ setting: BenchSetting) async throws -> [BenchCase]
}

/// What a benchmark is run with.
package struct BenchSetting: Sendable {
    /// How many rows a large table has.
    package let rows: Int
    /// PostgreSQL's address, when its store is to be measured; else the embedded one is.
    package let postgres: String?
    /// Where files are made.
    package let folder: String

    /// Makes a setting.
    package init(rows: Int, postgres: String?, folder: String) {
        (self.rows, self.postgres, self.folder) = (rows, postgres, folder)
    }

    /// The name of the store, for people.
    package var store: String { postgres == nil ? "sqlite" : "postgres" }
}

/// A job, and its ceiling.
package struct BenchCase: Sendable {
    /// What the ratio should be.
    package enum Goal: Hashable, Sendable {
        /// Our speed is at least so much of the ceiling's.
        case speed(Double)
        /// Our time is at most so many times the ceiling's.
        case time(Double)
        /// At most so many bytes travel, both ways together.
        case bytes(Int)
    }

    /// What is done.
    package let name: String
    /// What the ceiling does.
    package let ceilingName: String
    package let goal: Goal?
    /// The job, once; what it needs made ready is made outside of the time that it reports.
    package let ours: @Sendable () async throws -> Sample
    /// The ceiling, once; nil when there is none to compare with.
    package let ceiling: (@Sendable () async throws -> Sample)?
    /// Ends what the case has started.
    package let finish: @Sendable () async throws -> Void

    /// Makes a case.
    package init(
        _ name: String,
        goal: Goal? = nil,
        ours: @escaping @Sendable () async throws -> Sample,
        against ceilingName: String = "",
        ceiling: (@Sendable () async throws -> Sample)? = nil,
        finish: @escaping @Sendable () async throws -> Void = {}
    ) {
        (self.name, self.goal, self.ours) = (name, goal, ours)
        (self.ceilingName, self.ceiling, self.finish) = (ceilingName, ceiling, finish)
    }
}
