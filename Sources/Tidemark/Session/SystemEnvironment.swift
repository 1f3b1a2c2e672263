import Foundation

extension SyncEngine.Environment {
    /// The system's clock and random numbers; no other code of the device reads them.
    public static let system = Self(
        now: { Date() }, newID: { UUID() }, process: ProcessInfo.processInfo.processIdentifier,
        // EPERM: the process runs under another user.
        isRunning: { $0 > 0 && (kill($0, 0) == 0 || errno == EPERM) })
}

extension Credentials {
    /// A token that a server with users issues to this device, kept in a store.
    ///
    /// The device exchanges the person's sign-in token for a token of its own, and replaces that in the
    /// last third of its life. The new token is in the store before the device sends it, so neither a
    /// lost answer nor a crash ends the sign-in.
    ///
    /// - Parameters:
    ///   - store: The place of the token; one store serves any number of servers, files and processes.
    ///   - environment: The time, and the random id under which the server knows the holder of the token.
    ///   - signIn: Returns a sign-in token that the person has given; nil if there is none. The device
    ///     calls it before each request, and with ``Need/refused`` when the server wants a token; only
    ///     then it may ask the person. A sign-in token that the device has exchanged has no effect.
    /// - Returns: Credentials that send the stored token, over TLS or to this machine only.
    public static func stored(
        in store: any TokenStore, environment: SyncEngine.Environment = .system,
        signIn: @escaping @Sendable (_ need: Need) async throws -> String? = { _ in nil }
    ) -> Credentials {
        Credentials(isAlwaysSent: false) { address, exchange in
            TokenKeeper(
                store, address: address, signIn: { try await token(for: $0, signIn) }, now: environment.now,
                newID: environment.newID, exchange: exchange)
        }
    }
}

extension Pace {
    /// Returns a random factor from 0.5 to 1.5.
    package static func systemJitter() -> Double { Double.random(in: 0.5...1.5) }
}
