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

    /// Whether each request has a token, so that the device refuses an unsafe address at once.
    let isAlwaysSent: Bool
    let source: @Sendable (ServerAddress, @escaping TokenKeeper.Exchange) -> any TokenSource
    /// No token is sent.
    public static let none = Credentials(isAlwaysSent: false) { _, _ in ProvidedTokens { _ in nil } }

    /// The same token with every request; throws `invalidArgument` if the text cannot be a bearer token.
    public static func token(_ token: String) throws(TidemarkError) -> Credentials {
        try check(token)
        return provider { _ in token }
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
        Credentials(isAlwaysSent: true) { _, _ in ProvidedTokens { try await token(for: $0, provide) } }
    }

    /// Asks the app for a token, and checks it.
    static func token(for need: Need, _ provide: @Sendable (Need) async throws -> String?) async throws
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
