import Foundation

/// The system's wall clock, the server's only source of time.
package enum SystemClock {
    /// Milliseconds since 1970.
    @Sendable package static func milliseconds() -> Int64 { Int64(Date().timeIntervalSince1970 * 1_000) }
}
