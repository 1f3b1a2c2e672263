import GRDBSQLite
import TidemarkCore

/// SQLite's authorizer on a scratch database: permits the statements of one kind, and records their effects.
final class StatementWatch {
    /// What the current statement may do.
    enum Mode {
        /// Anything: it is the engine's own.
        case open
        case creating(FileObjects.Object.Kind)
        /// Anything, because SQLite compiles the statement and nobody runs it.
        case compiling
    }

    /// The virtual table modules that a device creates from a server's statements.
    static let modules: Set<String> = ["fts3", "fts4", "fts5", "rtree", "rtree_i32", "geopoly"]
    var mode = Mode.open
    /// The object whose statement runs, for what no trigger and no view does.
    var subject = ""
    /// The tables that compiled triggers write, by trigger.
    private(set) var writes: [String: Set<String>] = [:]
    /// The functions that statements call: by trigger or view, else by the object whose statement it is.
    private(set) var calls: [String: Set<String>] = [:]

    func reset() {
        writes = [:]
        calls = [:]
    }

    func noteCall(of function: String) { calls[subject, default: []].insert(function.lowercased()) }

    /// One action of a statement, as SQLite reports it.
    private struct Event {
        let action: Int32
        /// The table, mostly.
        let first: String
        /// A function, a module or a column.
        let second: String
        /// The trigger that acts; empty for the statement itself.
        let trigger: String
    }

    /// Makes the connection call this object, which must outlive the connection.
    func attach(to connection: OpaquePointer?) {
        let context = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_set_authorizer(
            connection,
            { context, action, first, second, _, trigger in
                guard let context else { return SQLITE_DENY }
                let watch = Unmanaged<StatementWatch>.fromOpaque(context).takeUnretainedValue()
                if case .open = watch.mode { return SQLITE_OK }
                let event = Event(
                    action: action, first: first.map { String(cString: $0) } ?? "",
                    second: second.map { String(cString: $0) } ?? "", trigger: trigger.map { String(cString: $0) } ?? ""
                )
                return watch.permits(event) ? SQLITE_OK : SQLITE_DENY
            },
            context)
        sqlite3_progress_handler(
            connection,
            Self.stepsMax,
            { context in
                guard let context else { return 1 }
                let watch = Unmanaged<StatementWatch>.fromOpaque(context).takeUnretainedValue()
                if case .open = watch.mode { return 0 }
                return 1
            },
            context)
    }

    /// The virtual machine steps after which SQLite stops a statement of an untrusted source.
    private static let stepsMax: Int32 = 100_000

    private func permits(_ event: Event) -> Bool {
        switch mode {
        case .open: return true
        case .compiling:
            record(event)
            return true
        case .creating(.virtual):
            record(event)
            // A module runs statements on its own tables.
            return event.action == SQLITE_CREATE_VTABLE
                ? Self.modules.contains(event.second.lowercased())
                : event.action != SQLITE_ATTACH && event.action != SQLITE_DETACH
        case .creating(let kind):
            record(event)
            return Self.permits(event, creating: kind)
        }
    }

    private func record(_ event: Event) {
        switch event.action {
        case SQLITE_INSERT, SQLITE_UPDATE, SQLITE_DELETE: writes[event.trigger, default: []].insert(event.first)
        case SQLITE_FUNCTION:
            let caller = event.trigger.isEmpty ? subject : event.trigger
            calls[caller, default: []].insert(event.second.lowercased())
        default: return
        }
    }

    private static func permits(_ event: Event, creating kind: FileObjects.Object.Kind) -> Bool {
        switch event.action {
        case SQLITE_READ, SQLITE_REINDEX: true
        case SQLITE_INSERT, SQLITE_UPDATE, SQLITE_DELETE: event.first.hasPrefix("sqlite_")
        case SQLITE_FUNCTION: event.second.lowercased() != "load_extension"
        case SQLITE_CREATE_TABLE: kind == .table
        case SQLITE_CREATE_INDEX: kind == .index || kind == .table
        case SQLITE_CREATE_VIEW: kind == .view
        case SQLITE_CREATE_TRIGGER: kind == .trigger
        // A table must not be made from a query, which could run for ever.
        case SQLITE_SELECT, SQLITE_RECURSIVE: kind == .view || kind == .trigger
        default: false
        }
    }
}
