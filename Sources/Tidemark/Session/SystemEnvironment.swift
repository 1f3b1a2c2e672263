import Foundation

extension SyncEngine.Environment {
    /// The system's clock and random numbers: the only place where the device takes them.
    public static let system = Self(now: { Date() }, newID: { UUID() })
}
