public import TidemarkCore

/// The bearer token that a device sends to the server, or to a proxy before it.
///
/// ```swift
/// let sync = try await SyncEngine(database, server: "https://sync.example.org",
///     credentials: .provider { need in try await identity.token(refreshing: need == .refused) })
/// ```
///
/// A token travels in `Authorization` to the server's own scheme, host and port, over TLS or to
/// this machine. It is in no file of the device, no log and no error.
public struct Credentials: Sendable {
    /// Why a token is needed.
    public enum Need: Sendable {
        /// A request is about to be sent.
        case request
        /// The server refused the request's token with 401.
        case refused
    }

    private let provide: (@Sendable (Need) async throws -> String?)?

    /// No token is sent.
    public static let none = Credentials(provide: nil)

    /// The same token with every request.
    ///
    /// - Returns: Credentials that never change.
    /// - Throws: ``TidemarkCore/ErrorCode/invalidArgument`` if the text cannot be a bearer token.
    public static func token(_ token: String) throws(TidemarkError) -> Credentials {
        try check(token)
        return Credentials { _ in token }
    }

    /// A token that the app stores or fetches.
    ///
    /// - Parameter provide: Returns the token. The device calls it before each request, so it should
    ///   cache the token, and once more after the server refuses the token: if it then returns
    ///   another token, the device sends the request again, once. If it returns nil, the request has
    ///   no token. Several tasks may call it concurrently. An error that it throws ends the request
    ///   and the sync with ``TidemarkCore/ErrorCode/signInNeeded``; a ``TidemarkCore/TidemarkError``
    ///   is rethrown unchanged.
    /// - Returns: Credentials that call `provide`.
    public static func provider(_ provide: @escaping @Sendable (_ need: Need) async throws -> String?) -> Credentials {
        Credentials(provide: provide)
    }

    private init(provide: (@Sendable (Need) async throws -> String?)?) { self.provide = provide }

    /// Whether no token is ever sent.
    var isNone: Bool { provide == nil }

    /// Returns the token to send; nil if there is none.
    func token(for need: Need) async throws -> String? {
        guard let provide else { return nil }
        let token: String?
        do { token = try await provide(need) } catch let error as TidemarkError { throw error } catch {
            guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
            // The error's text may hold a secret, so only its type is reported.
            throw TidemarkError(
                .signInNeeded,
                "The app's credentials gave no token, but an error of type \(type(of: error)).",
                fix: "Sign in again. Changes made here are kept, and sent later."
            )
        }
        if let token { try Self.check(token) }
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
            .invalidArgument,
            "The bearer token \(reason).",
            fix: "Give the token alone, as one line of visible ASCII characters."
        )
    }
}
