/// The JSON form of an error: `{"error": {"code": ..., "message": ..., ...}}`.
package struct WireError: Codable, Hashable, Sendable {
    package let error: Content

    package struct Content: Codable, Hashable, Sendable {
        package let code: String
        package let message: String
        package let fix: String
        /// The receiver's reaction: `retry`, `permanent`, `resync`, `renew`, `repair`, `signIn` or `leave`.
        package let recovery: String
        /// The place of the failure; absent if no part is known.
        package let place: TidemarkError.Place?
    }

    package init(_ error: TidemarkError) {
        self.error = Content(
            code: error.code.rawValue, message: error.message, fix: error.fix, recovery: error.recovery.rawValue,
            place: error.place == TidemarkError.Place() ? nil : error.place)
    }

    /// The error, with its recovery derived from its code; an unknown one counts as `retry`, which does no harm.
    package var tidemarkError: TidemarkError {
        var result = TidemarkError(
            ErrorCode(rawValue: error.code), error.message, fix: error.fix,
            place: error.place ?? TidemarkError.Place())
        let recovery = TidemarkError.Recovery(rawValue: error.recovery) ?? .retry
        if result.recovery != recovery { result.senderRecovery = recovery }
        return result
    }
}
