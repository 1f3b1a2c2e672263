import Foundation

extension SyncEngine.Environment {
    /// The system's clock and random numbers: the only place where the device takes them.
    public static let system = Self(
        now: { Date() },
        newID: { UUID() },
        process: ProcessInfo.processInfo.processIdentifier,
        // Also when it belongs to somebody else.
        isRunning: { $0 > 0 && (kill($0, 0) == 0 || errno == EPERM) }
    )
}

extension Pace {
    /// A random factor from the system, from 0.5 to 1.5.
    package static func systemJitter() -> Double { Double.random(in: 0.5...1.5) }
}
