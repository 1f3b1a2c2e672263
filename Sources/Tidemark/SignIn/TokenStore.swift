import Synchronization

/// The place where a device keeps its tokens, apart from the SQLite files that people copy and back up.
///
/// ``FileTokenStore`` is one. An app can keep its tokens in the store of its system.
public protocol TokenStore: Sendable {
    /// Returns the token of a server; nil if there is none.
    ///
    /// - Parameter origin: The server's scheme, host and port: `https://sync.example.org:443`.
    /// - Returns: The token, as the device last stored it.
    /// - Throws: ``TidemarkCore/TidemarkError`` for a store that cannot be read, or that others can read.
    func token(of origin: String) throws -> StoredToken?

    /// Stores the token of a server durably, or removes it with nil.
    ///
    /// After a crash the store has the old token or the new one.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError``; the store then has the old token.
    func store(_ token: StoredToken?, of origin: String) throws

    /// Takes a lock on all tokens of the store, among all processes that use it.
    ///
    /// A server revokes all tokens of a device that shows a replaced one, because a thief would do so.
    /// The lock prevents that one process replaces a token while another one sends it.
    ///
    /// - Returns: The lock; nil if another process has one and the purpose does not permit waiting.
    func lock(_ purpose: TokenLock.Purpose) async throws -> TokenLock?
}

/// A lock on the tokens of a store, until ``release()`` or the end of its last reference.
public final class TokenLock: Sendable {
    /// The use of the tokens during the lock.
    public enum Purpose: Hashable, Sendable {
        /// A request sends a token; any number of requests may do so at the same time.
        case sending
        /// The device replaces a token, and nobody sends it meanwhile.
        case replacing(waits: Bool)
    }

    private let unlock: Mutex<(@Sendable () -> Void)?>

    /// Makes a lock that `unlock` ends.
    public init(unlock: @escaping @Sendable () -> Void) { self.unlock = Mutex(unlock) }

    deinit { release() }

    /// Ends the lock; later calls have no effect.
    public func release() {
        let last = unlock.withLock { unlock in
            defer { unlock = nil }
            return unlock
        }
        last?()
    }
}
