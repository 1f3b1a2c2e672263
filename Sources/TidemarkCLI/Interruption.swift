import ArgumentParser
import Foundation
import TidemarkTerminal
import UnixSignals

/// Runs work that SIGINT and SIGTERM cancel.
enum Interruption {
    /// Runs work to its end, or cancels it on a signal, so that it removes its unfinished files.
    ///
    /// - Throws: The error of the work; after a signal, the exit code that shells expect, 128 plus its number.
    static func runUntilSignal(_ work: @escaping @Sendable () async throws -> Void) async throws {
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
            // Work that finished in spite of the signal counts as a success.
            if let first, case .failure? = await tasks.nextResult() { throw ExitCode(128 + first.rawValue) }
        }
    }

    /// Has the process ignore SIGHUP, until it traps it.
    static func ignoreHangUp() { signal(SIGHUP, SIG_IGN) }
}

extension Terminal {
    static func runInterruptibly(_ work: @escaping @Sendable () async throws -> Void) async throws {
        try await run { try await Interruption.runUntilSignal(work) }
    }
}
