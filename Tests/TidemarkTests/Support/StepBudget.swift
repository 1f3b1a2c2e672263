// Apple's SQLite has no hook for connections that are yet to be opened.
#if !canImport(Darwin)
import Foundation
import GRDBSQLite
import Synchronization

/// Counts the steps of SQLite's virtual machine on the files of a folder, and ends the statement
/// that exceeds the budget.
///
/// The number of steps depends on the rows and the plans, not on the machine or its load. So a
/// budget that is linear in the rows fails quadratic work, at once and everywhere.
final class StepBudget: Sendable {
    private struct State {
        var isCounting = false
        var spent = 0
        var most = 0
    }

    private let folder: String
    private let state = Mutex(State())

    /// The interval in steps at which SQLite calls the budget.
    fileprivate static let stride: CInt = 1_000

    /// Registers all connections that are opened from now on.
    init(of folder: URL) {
        self.folder = folder.resolvingSymlinksInPath().path
        budgets.withLock { $0[self.folder] = self }
        sqlite3_auto_extension(unsafeBitCast(onOpen, to: (@convention(c) () -> Void).self))
    }

    /// Runs `body` with a budget of steps.
    func spending(atMost most: Int, _ body: () async throws -> Void) async throws {
        state.withLock { $0 = State(isCounting: true, spent: 0, most: most) }
        defer { state.withLock { $0.isCounting = false } }
        try await body()
    }

    /// Returns the number of steps that `body` takes.
    func count(_ body: () async throws -> Void) async throws -> Int {
        try await spending(atMost: .max, body)
        return state.withLock { $0.spent }
    }

    /// Returns whether a statement may continue after more steps.
    fileprivate func goesOn() -> Bool {
        state.withLock { state in
            guard state.isCounting else { return true }
            state.spent += Int(Self.stride)
            return state.spent <= state.most
        }
    }
}

/// The budgets by folder, for the life of the process: a connection refers to its own.
private let budgets = Mutex<[String: StepBudget]>([:])

private let onOpen: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?, UnsafeRawPointer?) -> CInt = {
    connection,
    _,
    _ in
    guard let connection, let name = sqlite3_db_filename(connection, "main") else { return SQLITE_OK }
    let folder = URL(filePath: String(cString: name)).deletingLastPathComponent().path
    guard let budget = budgets.withLock({ $0[folder] }) else { return SQLITE_OK }
    let pointer = Unmanaged.passUnretained(budget).toOpaque()
    sqlite3_progress_handler(connection, StepBudget.stride, onSteps, pointer)
    return SQLITE_OK
}

private let onSteps: @convention(c) (UnsafeMutableRawPointer?) -> CInt = { pointer in
    guard let pointer else { return 0 }
    return Unmanaged<StepBudget>.fromOpaque(pointer).takeUnretainedValue().goesOn() ? 0 : 1
}
#endif
