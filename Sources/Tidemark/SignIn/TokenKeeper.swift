internal import Foundation
internal import Synchronization
internal import TidemarkCore

/// Keeps the token of a device at one server: signs in, rotates the token, and hands it to requests.
///
/// A rotation asks the server for a new token while the old one stays valid until the server first sees
/// the new one. So the device stores the new token before it sends it. A lost answer, a full disk or a
/// crash leaves the old token, which is still valid.
final class TokenKeeper: TokenSource {
    /// Exchanges a sign-in token or a device token for a new one.
    typealias Exchange = @Sendable (_ token: String, _ device: String) async throws -> NewToken
    /// Returns a sign-in token that a person has given; nil if there is none.
    typealias SignIn = @Sendable (Credentials.Need) async throws -> String?

    struct NewToken: Hashable, Sendable, Decodable {
        let token: String
        /// The time when it ends, in milliseconds since 1970.
        let expires: Int64
        let user: String
    }

    private struct Memory {
        var lastRefused: String?
        /// The public parts of the sign-in tokens that the device has exchanged.
        var exchangedOffers: Set<String> = []
        /// The time of the last rotation that failed, in milliseconds since 1970.
        var lastFailure: Int64?
    }

    private let store: any TokenStore
    private let address: ServerAddress
    private let signIn: SignIn
    private let now: @Sendable () -> Date
    private let newID: @Sendable () -> UUID
    private let exchange: Exchange
    private let memory = Mutex(Memory())
    /// The pause after a failed rotation, in milliseconds: ten minutes.
    static let rotationPause: Int64 = 600_000

    init(
        _ store: any TokenStore, address: ServerAddress, signIn: @escaping SignIn, now: @escaping @Sendable () -> Date,
        newID: @escaping @Sendable () -> UUID, exchange: @escaping Exchange
    ) {
        self.store = store
        self.address = address
        self.signIn = signIn
        self.now = now
        self.newID = newID
        self.exchange = exchange
    }

    // MARK: Requests

    func lease() async throws -> TokenLease {
        let offer = try await signIn(.request)
        let lock = try await store.lock(.sending)
        let stored = try store.token(of: address.origin)
        if let offer, try isNew(offer, beside: stored) {
            lock?.release()
            try await exchangeOffer(offer)
        } else if isDue(stored) {
            lock?.release()
            try await rotate()
        } else {
            return try checkedLease(stored, lock)
        }
        return try await storedLease()
    }

    func lease(afterRefusalOf token: String?) async throws -> TokenLease? {
        memory.withLock { $0.lastRefused = token }
        let lock = try await store.lock(.sending)
        let stored = try store.token(of: address.origin)
        // Another process has signed in or rotated the token meanwhile.
        if let stored, stored.token != token { return try checkedLease(stored, lock) }
        lock?.release()
        guard let offer = try await signIn(.refused), try isNew(offer, beside: stored) else { return nil }
        try await exchangeOffer(offer)
        return try await storedLease()
    }

    func mark() async -> Int? {
        // A store that cannot be read has no token; the next request reports its error.
        (try? store.token(of: address.origin))?.token.hashValue
    }

    private func storedLease() async throws -> TokenLease {
        let lock = try await store.lock(.sending)
        return try checkedLease(store.token(of: address.origin), lock)
    }

    private func checkedLease(_ stored: StoredToken?, _ lock: TokenLock?) throws -> TokenLease {
        if stored != nil { try address.requireSecrecy() }
        return TokenLease(token: stored?.token, lock: lock)
    }

    // MARK: Sign-out

    func user() throws -> String? { try store.token(of: address.origin)?.user }
    func isSignedIn() throws -> Bool { try store.token(of: address.origin) != nil }

    func forget() async throws {
        let lock = try await store.lock(.replacing(waits: true))
        defer { lock?.release() }
        try store.store(nil, of: address.origin)
    }

    // MARK: Exchange

    /// Whether a token is to be rotated: near its end, neither refused nor just after a rotation that failed.
    private func isDue(_ stored: StoredToken?) -> Bool {
        guard let stored else { return false }
        let memory = memory.withLock { $0 }
        let time = milliseconds
        // A clock that was set back does not prolong the pause.
        let isPausing = memory.lastFailure.map { (0..<Self.rotationPause).contains(time - $0) } ?? false
        return memory.lastRefused != stored.token && !isPausing && stored.isAgeing(at: time)
    }

    private var milliseconds: Int64 { Timestamp.milliseconds(now()) }

    /// Whether the device has yet to exchange a sign-in token; throws `invalidArgument` for another text.
    private func isNew(_ offer: String, beside stored: StoredToken?) throws -> Bool {
        guard let id = SignInToken.id(of: offer) else {
            throw TidemarkError(
                .invalidArgument, "The text is no sign-in token, which begins with tmu_.",
                fix: "Give the sign-in token of the server's operator; give another kind of token by --token-file.")
        }
        return memory.withLock { memory in
            // A later sign-in may replace the token while this process still has the old offer.
            if stored?.signIn == id { memory.exchangedOffers.insert(id) }
            return !memory.exchangedOffers.contains(id)
        }
    }

    private func exchangeOffer(_ offer: String) async throws {
        try address.requireSecrecy()
        let lock = try await store.lock(.replacing(waits: true))
        defer { lock?.release() }
        let stored = try store.token(of: address.origin)
        // Another process was faster.
        guard try isNew(offer, beside: stored) else { return }
        do {
            try await replace(offer, device: stored?.device, signIn: SignInToken.id(of: offer) ?? "")
        } catch let error as TidemarkError where error.code == .signInNeeded {
            let other = stored.map { ", or go on as \($0.user) without it" } ?? ""
            throw TidemarkError(
                .signInNeeded, "\(address.hostAndPort) does not accept this sign-in token.",
                fix: "It works once, and for a limited time: have the server's operator issue another one\(other).")
        }
    }

    /// Replaces an ageing token, unless another process is sending it.
    private func rotate() async throws {
        guard let lock = try await store.lock(.replacing(waits: false)) else { return noteFailure() }
        defer { lock.release() }
        guard let stored = try store.token(of: address.origin), isDue(stored) else { return }
        do {
            try address.requireSecrecy()
            try await replace(stored.token, device: stored.device, signIn: stored.signIn)
        } catch {
            guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
            noteFailure()
        }
    }

    private func noteFailure() {
        let time = milliseconds
        memory.withLock { $0.lastFailure = time }
    }

    private func replace(_ token: String, device: String?, signIn: String) async throws {
        let device = device ?? newID().uuidString.lowercased()
        let new = try await exchange(token, device)
        _ = try Credentials.token(new.token)
        let stored = StoredToken(
            token: new.token, user: new.user, issued: milliseconds, expires: new.expires, device: device, signIn: signIn
        )
        try store.store(stored, of: address.origin)
    }
}
