// Apple's SQLite has no hook for connections that are yet to be opened.
#if !canImport(Darwin)
import Foundation
import GRDBSQLite
import Synchronization

/// Counts the steps of SQLite's virtual machine on the files of a folder, and ends the statement
/// that takes more than there are.
///
/// The number of steps depends on the rows and the plans, not on the machine or its load. So a
/// budget that is linear in the rows fails what is quadratic, at once and everywhere.
final class StepBudget: Sendable {
    private struct State {
        var isCounting = false
        var spent = 0
        var most = 0
    }

    private let folder: String
    private let state = Mutex(State())

    /// SQLite asks after this number of steps whether to go on.
    fileprivate static let stride: CInt = 1_000

    /// Takes hold of the connections that are opened from now on.
    init(of folder: URL) {
        self.folder = folder.resolvingSymlinksInPath().path
        budgets.withLock { $0[self.folder] = self }
        sqlite3_auto_extension(unsafeBitCast(onOpen, to: (@convention(c) () -> Void).self))
    }

    /// Runs `body` with as many steps as there are at most.
    func spending(atMost most: Int, _ body: () async throws -> Void) async throws {
        state.withLock { $0 = State(isCounting: true, spent: 0, most: most) }
        defer { state.withLock { $0.isCounting = false } }
        try await body()
    }

    /// Whether the statement that has taken some more steps goes on.
    fileprivate func goesOn() -> Bool {
        state.withLock { state in
            guard state.isCounting else { return true }
            state.spent += Int(Self.stride)
            return state.spent <= state.most
        }
    }
}

/// The budgets by folder, for as long as the process runs: a connection refers to its own.
private let budgets = Mutex<[String: StepBudget]>([:])

private let onOpen: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?, UnsafeRawPointer?) -> CInt = {
    connection,
    _,
    _ in
    guard let connection, let name = sqlite3_db_filename(connection, "main") else { return SQLITE_OK }
    let folder = URL(filePath: String(cString: name)).deletingLastPathComponent().path
    guard let budget = budgets.withLock({ $0[folder] }) else { return SQLITE_OK }
    let held = Unmanaged.passUnretained(budget).toOpaque()
    sqlite3_progress_handler(connection, StepBudget.stride, onSteps, held)
    return SQLITE_OK
}

private let onSteps: @convention(c) (UnsafeMutableRawPointer?) -> CInt = { held in
    guard let held else { return 0 }
    return Unmanaged<StepBudget>.fromOpaque(held).takeUnretainedValue().goesOn() ? 0 : 1
}
#endif
