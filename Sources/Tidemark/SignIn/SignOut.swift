internal import AsyncHTTPClient
internal import NIOHTTP1
internal import TidemarkCore

/// The user of a stored token, and the token's end.
extension HTTPTransport {
    /// Returns the user whose token is stored for this server; nil without one, and for other credentials.
    public func storedUser() throws -> String? { try (exchange.tokens as? TokenKeeper)?.user() }

    /// Ends the stored token of this server, there and in its store.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invalidArgument`` if the credentials are not stored ones, or
    ///   store no token of this server; the errors of a request if the server cannot be told.
    @concurrent public func signOut() async throws {
        guard let keeper = exchange.tokens as? TokenKeeper, try keeper.isSignedIn() else {
            throw TidemarkError(
                .invalidArgument, "No token of \(address.hostAndPort) is stored here.",
                fix: "There is nothing to sign out of; a token given by other means is ended at its source.")
        }
        var request = HTTPClientRequest(url: address.url(path: "token"))
        request.method = .DELETE
        do { try await exchange.answer(to: request, orStatus: .noContent) { _ in } } catch let error as TidemarkError {
            // A dead token needs no end.
            guard [.signInNeeded, .unknownPath].contains(error.code) else { throw error }
        }
        try await keeper.forget()
    }

    /// Removes the stored token of this server; with `tellsServer`, it ends there as well if the server can be reached.
    func forgetToken(tellsServer: Bool) async throws {
        guard let keeper = exchange.tokens as? TokenKeeper, try keeper.isSignedIn() else { return }
        guard tellsServer else { return try await keeper.forget() }
        do { try await signOut() } catch let error as TidemarkError where error.recovery != .permanent {
            // People sign out without a network, too. The token is lost here, and ends there with its time.
            try await keeper.forget()
        }
    }
}
