import Foundation

/// The formats of times in the bookkeeping.
enum Timestamp {
    /// Returns ISO 8601 in UTC, to the second.
    static func text(_ date: Date) -> String { date.ISO8601Format() }

    /// Returns milliseconds since 1970, clamped to 0...1e15.
    static func milliseconds(_ date: Date) -> Int64 { Int64(min(max(date.timeIntervalSince1970 * 1_000, 0), 1e15)) }
}
