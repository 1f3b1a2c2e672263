// Apple's SQLite has no hook for connections that are yet to be opened.
#if !canImport(Darwin)
import Foundation
import GRDBSQLite
import Synchronization

/// The statements that run on the files of a folder, with SQLite's plan for each.
///
/// SQLite itself reports every new connection and every statement that it runs, those of
/// triggers as well, so the code under test is unchanged. A statement is planned on its own
/// connection, which has its temporary tables and functions.
final class StatementPlans: Sendable {
    /// A statement and its plan.
    struct Statement: Hashable, Sendable {
        /// The name of the file.
        let file: String
        /// The text; in that of a trigger, `NEW` and `OLD` are parameters.
        let sql: String
        /// The lines of the plan, or the reason why there is none.
        let plan: [String]
        /// The temporary tables of the connection, if the plan has a scan.
        let temporary: Set<String>
    }

    private struct State {
        var isRecording = false
        var seen: Set<String> = []
        var statements: [Statement] = []
    }

    private let folder: String
    private let state = Mutex(State())

    /// Registers all connections that are opened from now on.
    init(of folder: URL) {
        self.folder = folder.resolvingSymlinksInPath().path
        recorders.withLock { $0[self.folder] = self }
        sqlite3_auto_extension(unsafeBitCast(onOpen, to: (@convention(c) () -> Void).self))
    }

    /// The statements that run while `body` does.
    func recording(_ body: () async throws -> Void) async throws -> [Statement] {
        state.withLock { $0.isRecording = true }
        try await body()
        recorders.withLock { $0[folder] = nil }
        return state.withLock(\.statements)
    }

    fileprivate func ran(_ text: String, on connection: OpaquePointer, path: String) {
        guard let sql = Self.planned(text) else { return }
        let file = URL(filePath: path).lastPathComponent
        let isNew = state.withLock { state in state.isRecording && state.seen.insert(file + sql).inserted }
        guard isNew else { return }
        let plan = Self.lines("EXPLAIN QUERY PLAN \(sql)", column: 3, on: connection)
        let hasScan = plan.contains(where: Statement.isScan)
        let temporary = hasScan ? Self.lines(Self.temporarySQL, column: 0, on: connection) : []
        let statement = Statement(file: file, sql: sql, plan: plan, temporary: Set(temporary))
        state.withLock { $0.statements.append(statement) }
    }

    /// The text to plan; nil for statements without a plan, such as those that take effect when they are
    /// only prepared.
    private static func planned(_ text: String) -> String? {
        var sql = text
        if sql.hasPrefix("-- ") {
            sql = String(sql.dropFirst(3)).replacing(/\b(NEW|OLD)\.("([^"]|"")+"|\w+)/, with: "?").replacing(
                /RAISE\s*\([^)]*\)/,
                with: "NULL"
            )
        }
        let hasPlan = /\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH|CREATE TEMP TABLE)\b.*/
        let isAsked = sql.prefixMatch(of: hasPlan.ignoresCase().dotMatchesNewlines()) != nil
        return isAsked && sql != temporarySQL ? sql : nil
    }

    private static let temporarySQL = "SELECT name FROM temp.sqlite_master /* of plans */"

    private static func lines(_ sql: String, column: CInt, on connection: OpaquePointer) -> [String] {
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        guard sqlite3_prepare_v2(connection, sql, -1, &statement, nil) == SQLITE_OK else {
            return ["NO PLAN \(String(cString: sqlite3_errmsg(connection)))"]
        }
        var lines: [String] = []
        while sqlite3_step(statement) == SQLITE_ROW {
            lines.append(String(cString: sqlite3_column_text(statement, column)))
        }
        return lines
    }
}

extension StatementPlans.Statement {
    /// The scanned tables of a file; of `histories` also those that are scanned for a whole table
    /// or device.
    ///
    /// An unknown name in the plan is returned with a question mark.
    func scanned(of tables: Set<String>, histories: Set<String>) -> Set<String> {
        var scanned: Set<String> = []
        for line in plan where !line.contains("VIRTUAL TABLE") {
            if line.hasPrefix("NO PLAN") { scanned.insert("?\(line)") }
            let isScan = Self.isScan(line)
            guard isScan || line.contains(/^SEARCH .*\((tbl|device)=\?\)/) else { continue }
            let names = named(String(line.split(separator: " ")[1]))
            scanned.formUnion(names.intersection(isScan ? tables : histories))
            let isKnown = names.contains {
                tables.contains($0) || temporary.contains($0) || isMadeHere($0) || $0.hasPrefix("temp.")
                    || $0.hasPrefix("sqlite_")
            }
            if isScan, !isKnown { scanned.insert("?\(line)") }
        }
        return scanned
    }

    /// Whether a line of a plan is a scan; the building of an automatic index is one.
    static func isScan(_ line: String) -> Bool {
        (line.hasPrefix("SCAN ") || line.contains(" AUTOMATIC ")) && !line.contains("CONSTANT ROW")
    }

    /// The tables with a name or alias in the statement.
    private func named(_ name: String) -> Set<String> {
        let bare = Self.bare(name)
        var tables: Set = [bare]
        for match in sql.matches(of: /([\w."]+)\s+AS\s+"?(\w+)"?/.ignoresCase()) where match.2 == bare {
            tables.insert(Self.bare(String(match.1)))
        }
        return tables
    }

    private static func bare(_ name: String) -> String {
        let text = name.replacing("\"", with: "")
        return text.hasPrefix("main.") ? String(text.dropFirst(5)) : text
    }

    /// Whether a name is that of a subquery.
    private func isMadeHere(_ name: String) -> Bool {
        guard !name.hasPrefix("(") else { return true }
        let flat = sql.replacing(/\s+/, with: " ")
        return flat.contains(") AS \(name)")
            || flat.matches(of: /(\w+) ?(\([^)]*\) ?)?AS (NOT )?(MATERIALIZED )?\(/).contains { $0.1 == name }
    }
}

private let recorders = Mutex<[String: StatementPlans]>([:])

private func recorder(of path: String) -> StatementPlans? {
    recorders.withLock { $0[URL(filePath: path).deletingLastPathComponent().path] }
}

private func path(of connection: OpaquePointer) -> String? {
    sqlite3_db_filename(connection, "main").map { String(cString: $0) }
}

private let onOpen: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?, UnsafeRawPointer?) -> CInt = {
    connection,
    _,
    _ in
    guard let connection, let path = path(of: connection), recorder(of: path) != nil else { return SQLITE_OK }
    return sqlite3_trace_v2(connection, UInt32(SQLITE_TRACE_STMT), onStatement, nil)
}

private let onStatement:
    @convention(c) (UInt32, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?) -> CInt = {
        _,
        _,
        statement,
        text in
        guard let statement, let text, let connection = sqlite3_db_handle(OpaquePointer(statement)),
            let path = path(of: connection)
        else { return 0 }
        recorder(of: path)?.ran(String(cString: text.assumingMemoryBound(to: CChar.self)), on: connection, path: path)
        return 0
    }
#endif
