import GRDB
import GRDBSQLite
import TidemarkCore

/// Adds `tidemark_like(value, pattern)`: whether a value's text fits a ``TidemarkCore/TextPattern``; of NULL, NULL.
///
/// SQLite looks for the end of a statement's time between the calls of functions only, so the function looks itself.
enum MatchPatterns {
    static func register(on db: Database) throws {
        try SQLFunctions.add("tidemark_like", count: 2, to: db) { context, _, values in
            MatchPatterns.match(context, values)
        }
    }

    private struct Ended: Error {}

    /// A pattern that SQLite keeps for as long as a statement runs with it.
    private final class PatternHolder {
        let pattern: TextPattern

        init(_ pattern: TextPattern) { self.pattern = pattern }
    }

    private static func match(_ context: OpaquePointer?, _ values: UnsafeMutablePointer<OpaquePointer?>?) {
        guard let value = values?[0], sqlite3_value_type(value) != SQLITE_NULL,
            let holder = holder(context, values?[1])
        else { return sqlite3_result_null(context) }
        guard let text = sqlite3_value_text(value) else { return sqlite3_result_error_nomem(context) }
        do throws(Ended) {
            let fits = try holder.pattern.matches(CanonicalJSON.bytes(text, of: value)) { () throws(Ended) in
                if StatementTime.isOver() { throw Ended() }
            }
            sqlite3_result_int(context, fits ? 1 : 0)
        } catch { sqlite3_result_error_code(context, SQLITE_INTERRUPT) }
    }

    private static func holder(_ context: OpaquePointer?, _ value: OpaquePointer?) -> PatternHolder? {
        if let known = sqlite3_get_auxdata(context, 1) {
            return Unmanaged<PatternHolder>.fromOpaque(known).takeUnretainedValue()
        }
        guard let text = sqlite3_value_text(value) else { return nil }
        let holder = PatternHolder(TextPattern(String(decoding: CanonicalJSON.bytes(text, of: value), as: UTF8.self)))
        sqlite3_set_auxdata(context, 1, Unmanaged.passRetained(holder).toOpaque()) { pointer in
            if let pointer { Unmanaged<PatternHolder>.fromOpaque(pointer).release() }
        }
        return holder
    }
}

/// The time of the statements that this thread runs.
package enum StatementTime {
    /// Returns whether it is over, so that a function ends its statement with `SQLITE_INTERRUPT`.
    @TaskLocal package static var isOver: @Sendable () -> Bool = { false }
}
