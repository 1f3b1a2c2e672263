import Foundation

/// The form in which the bookkeeping keeps times.
enum Timestamp {
    /// ISO 8601 in UTC, to the second.
    static func text(_ date: Date) -> String { date.ISO8601Format() }
}
