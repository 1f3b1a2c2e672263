import ArgumentParser
import TidemarkTerminal
import UnixSignals

/// Work that SIGINT and SIGTERM end in order.
enum Interruption {
    /// Does work to its end, or until the process is told to stop: then the work is cancelled, so
    /// that it takes away what it has begun.
    ///
    /// - Throws: What the work throws; for work that was cut short, the exit code that a shell
    ///   expects, 128 and the signal's number.
    static func ending(_ work: @escaping @Sendable () async throws -> Void) async throws {
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        try await withThrowingTaskGroup(of: UnixSignal?.self) { tasks in
            tasks.addTask {
                try await work()
                return nil
            }
            tasks.addTask {
                for await signal in signals { return signal }
                return nil
            }
            let first: UnixSignal? = try await tasks.next() ?? nil
            tasks.cancelAll()
            // Work that was done all the same has done well.
            if let first, case .failure? = await tasks.nextResult() { throw ExitCode(128 + first.rawValue) }
        }
    }
}

extension Terminal {
    /// Runs work that has files to take away, and cancels it when SIGINT or SIGTERM comes.
    static func runInOrder(_ work: @escaping @Sendable () async throws -> Void) async throws {
        try await run { try await Interruption.ending(work) }
    }
}
