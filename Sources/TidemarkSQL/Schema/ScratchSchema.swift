import Foundation
package import GRDB
import GRDBSQLite
package import TidemarkCore

/// A database in memory in which SQLite reads and compiles statements of an untrusted source.
///
/// It can create tables, indexes, virtual tables, views and triggers, one statement each, and nothing
/// else: no statement attaches a file, reads rows or changes a setting. Functions and collations that
/// this process does not have get stand-ins, and are reported.
package final class ScratchSchema {
    /// The functions that a statement called and this process does not have, in lower case.
    package private(set) var unknownFunctions: Set<String> = []
    /// The collations that a statement named and this process does not have.
    package var unknownCollations: Set<String> { collations.names }
    private let queue: DatabaseQueue
    private let watch = StatementWatch()
    private let collations = UnknownCollations()
    /// The most functions of the program's own in one statement.
    private static let functionsMax = 64

    package init() throws {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        queue = try DatabaseQueue(configuration: configuration)
        queue.inDatabase { db in
            sqlite3_limit(db.sqliteConnection, SQLITE_LIMIT_ATTACHED, 0)
            watch.attach(to: db.sqliteConnection)
            collations.attach(to: db.sqliteConnection)
        }
    }

    package func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        watch.mode = .open
        return try queue.inDatabase { db in
            db.clearSchemaCache()
            return try body(db)
        }
    }

    /// Creates an object; returns the reason why the statement is not acceptable, or nil.
    package func create(_ object: FileObjects.Object) -> String? {
        guard object.sql.hasPrefix(Self.beginning(of: object)), Self.isFree(object.name) else {
            return "is no statement that creates a \(object.kind.rawValue)"
        }
        watch.mode = .creating(object.kind)
        watch.subject = object.name
        defer { watch.mode = .open }
        if let problem = run(object.sql, steps: true) { return problem }
        watch.mode = .open
        guard object.kind != .index else { return nil }
        let type = object.kind == .virtual ? "table" : object.kind.rawValue
        let sql = "SELECT 1 FROM sqlite_master WHERE type = '\(type)' AND name = \(SQLText.literal(object.name))"
        return run("SELECT 1 FROM (\(sql)) LIMIT 1", finds: true)
    }

    /// Compiles a statement without running it; returns SQLite's reason why it cannot run, or nil.
    ///
    /// The effects of the triggers that it fires are recorded, and as those of `subject` what no trigger and no view
    /// does.
    package func compile(_ sql: String, of subject: String = "") -> String? {
        watch.mode = .compiling
        watch.subject = subject
        defer { watch.mode = .open }
        return run(sql, steps: false)
    }

    /// The statements that insert, update and delete a row of a table or view, for ``compile(_:)``.
    package func writes(to table: String) throws -> [String] {
        let columns = try read { db in
            try String.fetchAll(db, sql: "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", arguments: [table])
        }
        return Self.writes(to: table, columns)
    }

    /// The statements that insert, update and delete a row with some columns.
    package static func writes(to table: String, _ columns: [String]) -> [String] {
        let name = SQLText.name(table)
        let values = columns.map { "\(SQLText.name($0)) = NULL" }.joined(separator: ", ")
        let row = Array(repeating: "NULL", count: columns.count).joined(separator: ", ")
        return [
            "INSERT INTO main.\(name) (\(SQLText.names(columns))) VALUES (\(row))",
            "UPDATE main.\(name) SET \(values)", "DELETE FROM main.\(name)",
        ]
    }

    package func resetEffects() { watch.reset() }
    /// The tables that compiled triggers write, by trigger.
    package var tablesWritten: [String: Set<String>] { watch.writes }
    /// The functions that statements call, by trigger, view or table; "" is none of these.
    package var calls: [String: Set<String>] { watch.calls }
    /// The unknown functions among these.
    package var unknownCalls: [String: Set<String>] {
        watch.calls.mapValues { $0.intersection(unknownFunctions) }.filter { !$0.value.isEmpty }
    }

    private static func beginning(of object: FileObjects.Object) -> String {
        switch object.kind {
        case .table: "CREATE TABLE "
        case .index: object.sql.hasPrefix("CREATE UNIQUE ") ? "CREATE UNIQUE INDEX " : "CREATE INDEX "
        case .virtual: "CREATE VIRTUAL TABLE "
        case .view: "CREATE VIEW "
        case .trigger: "CREATE TRIGGER "
        }
    }

    /// Whether a name is not one of the engine's or of SQLite's.
    package static func isFree(_ name: String) -> Bool {
        let lower = name.lowercased()
        return !lower.hasPrefix("tidemark_") && !lower.hasPrefix("sqlite_")
    }

    /// Prepares one statement, and runs it if `steps`; with `finds` it must return a row.
    private func run(_ sql: String, steps: Bool = true, finds: Bool = false) -> String? {
        queue.inDatabase { db in
            for _ in 0...Self.functionsMax {
                let problem = Self.attempt(sql, steps: steps, finds: finds, on: db.sqliteConnection)
                guard let problem, let name = Self.functionName(in: problem) else { return problem }
                // SQLite does not report the functions of a default to the authorizer.
                if problem.hasPrefix(Self.unknownInDefault) { watch.noteCall(of: name) }
                guard unknownFunctions.insert(name.lowercased()).inserted else { return problem }
                let flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS
                sqlite3_create_function_v2(
                    db.sqliteConnection, name, -1, flags, nil, { context, _, _ in sqlite3_result_null(context) }, nil,
                    nil, nil)
            }
            return "it calls too many functions of the program's own"
        }
    }

    private static func attempt(_ sql: String, steps: Bool, finds: Bool, on connection: OpaquePointer?) -> String? {
        var statement: OpaquePointer?
        defer { sqlite3_finalize(statement) }
        var isSingle = true
        let prepared = sql.withCString { text in
            var tail: UnsafePointer<CChar>?
            let code = sqlite3_prepare_v2(connection, text, -1, &statement, &tail)
            isSingle = tail.map { String(cString: $0).allSatisfy { $0.isWhitespace || $0 == ";" } } ?? true
            return code
        }
        guard prepared == SQLITE_OK, statement != nil else { return String(cString: sqlite3_errmsg(connection)) }
        guard isSingle else { return "is more than one statement" }
        guard steps else { return nil }
        let code = sqlite3_step(statement)
        if finds { return code == SQLITE_ROW ? nil : "creates an object of another name or kind" }
        return code == SQLITE_DONE ? nil : String(cString: sqlite3_errmsg(connection))
    }

    private static let unknownInDefault = "unknown function: "

    private static func functionName(in problem: String) -> String? {
        for beginning in ["no such function: ", unknownInDefault] where problem.contains(beginning) {
            return problem.components(separatedBy: beginning).last?.replacing("()", with: "")
        }
        return nil
    }
}

/// Gives a connection stand-ins for collations that it lacks, and records their names.
private final class UnknownCollations {
    var names: Set<String> = []

    func attach(to connection: OpaquePointer?) {
        sqlite3_collation_needed(connection, Unmanaged.passUnretained(self).toOpaque()) {
            context, connection, _, name in
            guard let context, let name else { return }
            let unknown = Unmanaged<UnknownCollations>.fromOpaque(context).takeUnretainedValue()
            unknown.names.insert(String(cString: name))
            StandInCollation.binary.register(as: name, on: connection)
        }
    }
}
