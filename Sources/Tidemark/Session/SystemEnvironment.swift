import Foundation

extension SyncEngine.Environment {
    /// The system's clock and random numbers: the only place where the device takes them.
    public static let system = Self(now: { Date() }, newID: { UUID() })
}

extension Pace {
    /// A random factor from the system, from 0.5 to 1.5.
    static func systemJitter() -> Double { Double.random(in: 0.5...1.5) }
}
