public import TidemarkCore

/// What a device shows the server, or a proxy before it, to say who asks: a bearer token.
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
        /// The token that the request had was refused with 401.
        case refused
    }

    private let provide: (@Sendable (Need) async throws -> String?)?

    /// No token is sent.
    public static let none = Credentials(provide: nil)

    /// The same token with every request.
    ///
    /// - Returns: Credentials that never change.
    /// - Throws: ``TidemarkCore/ErrorCode/invalidArgument`` for what cannot be a bearer token.
    public static func token(_ token: String) throws(TidemarkError) -> Credentials {
        try check(token)
        return Credentials { _ in token }
    }

    /// A token that the app knows, or fetches.
    ///
    /// - Parameter provide: Asked before each request, so it should remember the token, and once
    ///   more when that was refused: the request is sent again, once, if another token comes back.
    ///   Without a token, nil, the request has none. May be called by several tasks at a time.
    ///   What it throws ends the request, and the sync, with
    ///   ``TidemarkCore/ErrorCode/signInNeeded``; a ``TidemarkCore/TidemarkError`` is thrown as it
    ///   is.
    /// - Returns: Credentials that ask the app.
    public static func provider(_ provide: @escaping @Sendable (_ need: Need) async throws -> String?) -> Credentials {
        Credentials(provide: provide)
    }

    private init(provide: (@Sendable (Need) async throws -> String?)?) { self.provide = provide }

    /// Whether no token is ever sent.
    var isNone: Bool { provide == nil }

    /// The token to send; nil if there is none.
    func token(for need: Need) async throws -> String? {
        guard let provide else { return nil }
        let token: String?
        do { token = try await provide(need) } catch let error as TidemarkError { throw error } catch {
            guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
            // Its words may hold a secret.
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

    /// Checks that a text can stand in a header behind `Bearer`, without repeating it.
    private static func check(_ token: String) throws(TidemarkError) {
        let visible = UInt8(ascii: "!")...UInt8(ascii: "~")
        let reason: String
        if token.isEmpty {
            reason = "is empty"
        } else if token.utf8.count > bytesMax {
            reason = "is longer than \(bytesMax) bytes"
        } else if let index = token.utf8.enumerated().first(where: { !visible.contains($0.element) }) {
            reason =
                "has a space, a line break or another character that cannot stand in a header, at byte \(index.offset + 1)"
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
