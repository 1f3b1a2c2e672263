import Foundation

extension SyncEngine.Environment {
    /// The system's clock and random numbers; no other code of the device reads them.
    public static let system = Self(
        now: { Date() }, newID: { UUID() }, process: ProcessInfo.processInfo.processIdentifier,
        // EPERM: the process runs under another user.
        isRunning: { $0 > 0 && (kill($0, 0) == 0 || errno == EPERM) })
}

extension Credentials {
    /// A token that a server with users issues to this device, by the system's clock and random numbers.
    ///
    /// `signIn` returns a sign-in token that the person has given; nil if there is none.
    public static func stored(
        in store: any TokenStore, signIn: @escaping @Sendable (_ need: Need) async throws -> String? = { _ in nil }
    ) -> Credentials { stored(in: store, now: { Date() }, newID: { UUID() }, signIn: signIn) }
}

extension Pace {
    /// Returns a random factor from 0.5 to 1.5.
    package static func systemJitter() -> Double { Double.random(in: 0.5...1.5) }
}
