import Foundation

extension SyncEngine.Environment {
    /// The system's clock and random numbers; no other code of the device reads them.
    public static let system = Self(
        now: { Date() },
        newID: { UUID() },
        process: ProcessInfo.processInfo.processIdentifier,
        // EPERM: the process runs under another user.
        isRunning: { $0 > 0 && (kill($0, 0) == 0 || errno == EPERM) }
    )
}

extension Pace {
    /// Returns a random factor from 0.5 to 1.5.
    package static func systemJitter() -> Double { Double.random(in: 0.5...1.5) }
}
