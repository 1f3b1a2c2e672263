import GRDB
import GRDBSQLite

/// A delta: `{"$add":n}` in place of a column's value adds `n` to it.
package enum Delta {
    /// The reason why a table refuses a delta, in words.
    package static let failure = "adding gives no integer that fits"
}

/// The SQL functions that add deltas, without a silent overflow.
///
/// | function | result |
/// | --- | --- |
/// | `tidemark_add(value, delta)` | their sum, or `delta` NULL: the value |
/// | `tidemark_sum(delta)` | the sum of all deltas of a group, NULL without any |
///
/// A sum that is no 64-bit integer, and a value that is no integer, fail like a CHECK. SQLite's own
/// `+` would make a REAL of the one, and NULL or a number of the other.
enum Sums {
    static func register(on db: Database) throws {
        try SQLFunctions.add("tidemark_add", count: 2, to: db) { context, _, values in
            Sums.add(values?[0], delta: values?[1], to: context)
        }
        try SQLFunctions.add(
            "tidemark_sum", count: 1, to: db, step: { context, _, values in Sums.step(context, values?[0]) },
            finish: { context in Sums.finish(context) })
    }

    private static func add(_ value: OpaquePointer?, delta: OpaquePointer?, to context: OpaquePointer?) {
        guard sqlite3_value_type(delta) != SQLITE_NULL else { return sqlite3_result_value(context, value) }
        let (sum, isTooLarge) = sqlite3_value_int64(value).addingReportingOverflow(sqlite3_value_int64(delta))
        guard sqlite3_value_type(value) == SQLITE_INTEGER, !isTooLarge else { return fail(context) }
        sqlite3_result_int64(context, sum)
    }

    /// A sum of any number of deltas: its lower 64 bits, and how often it has left their range.
    private struct Total {
        var sum: Int64
        var carry: Int64
    }

    private static func total(_ context: OpaquePointer?) -> UnsafeMutablePointer<Total>? {
        // SQLite fills new memory with zeros.
        sqlite3_aggregate_context(context, Int32(MemoryLayout<Total>.size))?.assumingMemoryBound(to: Total.self)
    }

    private static func step(_ context: OpaquePointer?, _ delta: OpaquePointer?) {
        guard let total = total(context) else { return sqlite3_result_error_nomem(context) }
        let delta = sqlite3_value_int64(delta)
        let (sum, overflow) = total.pointee.sum.addingReportingOverflow(delta)
        total.pointee.sum = sum
        if overflow { total.pointee.carry += delta < 0 ? -1 : 1 }
    }

    private static func finish(_ context: OpaquePointer?) {
        let memory = sqlite3_aggregate_context(context, 0)
        guard let total = memory?.assumingMemoryBound(to: Total.self) else { return sqlite3_result_null(context) }
        guard total.pointee.carry == 0 else { return fail(context) }
        sqlite3_result_int64(context, total.pointee.sum)
    }

    private static func fail(_ context: OpaquePointer?) {
        sqlite3_result_error(context, Delta.failure, -1)
        sqlite3_result_error_code(context, SQLITE_CONSTRAINT)
    }
}
