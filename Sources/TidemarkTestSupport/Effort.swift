import Foundation

/// The amount of work of a test that can run for minutes or for hours.
///
/// `make test` and `make verify` use the short counts. `make campaigns` sets `TIDEMARK_LONG=1` and uses the long ones.
/// A variable of its own sets one count alone, for instance `TIDEMARK_KILLS=10000`.
public enum Effort {
    /// Whether the long tests run.
    public static let isLong = number("TIDEMARK_LONG") == 1

    /// Returns the number of repetitions.
    ///
    /// - Parameters:
    ///   - variable: The environment variable that sets this count alone, if it has one.
    ///   - short: The count of `make test`.
    ///   - long: The count of `make campaigns`.
    /// - Returns: A number from 1.
    public static func count(_ variable: String? = nil, short: Int, long: Int) -> Int {
        max(1, variable.flatMap(number) ?? (isLong ? long : short))
    }

    private static func number(_ variable: String) -> Int? {
        ProcessInfo.processInfo.environment[variable].flatMap { Int($0) }
    }
}
