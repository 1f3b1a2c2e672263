import Foundation

/// The form in which the bookkeeping keeps times.
enum Timestamp {
    /// ISO 8601 in UTC, to the second.
    static func text(_ date: Date) -> String { date.ISO8601Format() }

    /// Milliseconds since 1970; at most as many as the year 9999 has.
    static func milliseconds(_ date: Date) -> Int64 { Int64(min(max(date.timeIntervalSince1970 * 1_000, 0), 1e15)) }
}
