public import Foundation

/// An alert or a log by `localizedDescription` says what happened and what to do.
extension TidemarkError: LocalizedError {
    /// What happened, with the place.
    public var errorDescription: String? {
        let place = place.description
        return place.isEmpty ? message : "\(message) [\(place)]"
    }

    /// The remedy.
    public var recoverySuggestion: String? { fix }
}
