public import Foundation
public import TidemarkCore

/// The bearer token that a device sends to the server, or to a proxy before it.
///
/// ```swift
/// let sync = try await SyncEngine(database, server: "https://sync.example.org",
///     credentials: .provider { need in try await identity.token(refreshing: need == .refused) })
/// ```
///
/// A token travels in `Authorization` to the server's own scheme, host and port, over TLS or to
/// this machine. It is in no SQLite file, no log and no error.
public struct Credentials: Sendable {
    /// Why a token is needed.
    public enum Need: Sendable {
        /// A request is about to be sent.
        case request
        /// The server refused the request's token with 401.
        case refused
    }

    private enum Source: Sendable {
        case none
        case provided(@Sendable (Need) async throws -> String?)
        case stored(Stored)
    }

    private struct Stored: Sendable {
        let store: any TokenStore
        let now: @Sendable () -> Date
        let newID: @Sendable () -> UUID
        let signIn: @Sendable (Need) async throws -> String?
    }

    private let source: Source
    /// No token is sent.
    public static let none = Credentials(source: .none)

    /// The same token with every request; throws `invalidArgument` if the text cannot be a bearer token.
    public static func token(_ token: String) throws(TidemarkError) -> Credentials {
        try check(token)
        return Credentials(source: .provided { _ in token })
    }

    /// A token that the app stores or fetches.
    ///
    /// - Parameter provide: Returns the token. The device calls it before each request, and every 10 s
    ///   while the background sync waits for another token; so it should cache the token. The device
    ///   calls it once more after the server refuses the token: if it then returns another token, the
    ///   device sends the request again, once. If it returns nil, the request has no token. Several tasks
    ///   may call it concurrently. An error that it throws ends the request and the sync with
    ///   ``TidemarkCore/ErrorCode/signInNeeded``; a ``TidemarkCore/TidemarkError`` is rethrown unchanged.
    /// - Returns: Credentials that call `provide`.
    public static func provider(_ provide: @escaping @Sendable (_ need: Need) async throws -> String?) -> Credentials {
        Credentials(source: .provided(provide))
    }

    /// A token that a server with users issues to this device, kept in a store.
    ///
    /// The device exchanges the person's sign-in token for a token of its own, and replaces that in the
    /// last third of its life. The new token is in the store before the device sends it, so neither a
    /// lost answer nor a crash ends the sign-in.
    ///
    /// - Parameters:
    ///   - store: The place of the token; one store serves any number of servers, files and processes.
    ///   - now: Returns the current time.
    ///   - newID: Returns a random id, under which the server knows the holder of the token.
    ///   - signIn: Returns a sign-in token that the person has given; nil if there is none. The device
    ///     calls it before each request, and with ``Need/refused`` when the server wants a token; only
    ///     then it may ask the person. A sign-in token that the device has exchanged has no effect.
    /// - Returns: Credentials that send the stored token, over TLS or to this machine only.
    public static func stored(
        in store: any TokenStore, now: @escaping @Sendable () -> Date, newID: @escaping @Sendable () -> UUID,
        signIn: @escaping @Sendable (_ need: Need) async throws -> String? = { _ in nil }
    ) -> Credentials { Credentials(source: .stored(Stored(store: store, now: now, newID: newID, signIn: signIn))) }

    private init(source: Source) { self.source = source }

    /// Whether each request has a token, so that the device refuses an unsafe address at once.
    var isAlwaysSent: Bool { if case .provided = source { true } else { false } }

    func source(for address: ServerAddress, exchange: @escaping TokenKeeper.Exchange) -> any TokenSource {
        switch source {
        case .none: NoTokens()
        case .provided(let provide):
            ProvidedTokens { isRefused in try await Self.token(for: isRefused ? .refused : .request, provide) }
        case .stored(let stored):
            TokenKeeper(
                stored.store, address: address,
                signIn: { isRefused in try await Self.token(for: isRefused ? .refused : .request, stored.signIn) },
                now: stored.now, newID: stored.newID, exchange: exchange)
        }
    }

    private static func token(for need: Need, _ provide: @Sendable (Need) async throws -> String?) async throws
        -> String?
    {
        let token: String?
        do { token = try await provide(need) } catch let error as TidemarkError { throw error } catch {
            guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
            // The error's text may hold a secret, so only its type is reported.
            throw TidemarkError(
                .signInNeeded, "The app's credentials gave no token, but an error of type \(type(of: error)).",
                fix: "Sign in again. Changes made here are kept, and sent later.")
        }
        if let token { try check(token) }
        return token
    }

    /// The longest token that is sent, in bytes.
    private static let bytesMax = 8 << 10

    /// Checks that a text can follow `Bearer` in a header; the error never contains the text.
    private static func check(_ token: String) throws(TidemarkError) {
        let visible = UInt8(ascii: "!")...UInt8(ascii: "~")
        let reason: String
        if token.isEmpty {
            reason = "is empty"
        } else if token.utf8.count > bytesMax {
            reason = "is longer than \(bytesMax) bytes"
        } else if let index = token.utf8.enumerated().first(where: { !visible.contains($0.element) }) {
            reason =
                "has a space, a line break or another character that cannot stand in a header, "
                + "at byte \(index.offset + 1)"
        } else {
            return
        }
        throw TidemarkError(
            .invalidArgument, "The bearer token \(reason).",
            fix: "Give the token alone, as one line of visible ASCII characters.")
    }
}
