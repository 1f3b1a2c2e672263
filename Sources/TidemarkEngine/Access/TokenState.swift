/// The life of a token, from its issue to its end.
///
/// An exchange answers a new token while the old one stays valid, because the answer can be lost. The
/// old one retires when the new one is first shown, which proves that it arrived. So a device whose
/// answer is lost exchanges again, and the unused token of the first exchange is never shown.
///
/// A retired device token that is shown again was copied: either the device or the copy rotated it first, and the
/// server cannot tell which. It revokes the chain, and the person signs in again. For ``grace`` after its retirement
/// the token is only refused: a request that the device has cancelled can still be on its way with it. A retired
/// sign-in token is only refused at any time, because people paste a link twice.
package enum TokenState: String, CaseIterable, Sendable {
    /// Nobody has shown it yet.
    case issued
    /// It was shown, and no later token of its chain was.
    case active
    /// A later token of its chain was shown.
    case retired
    /// It was revoked, alone or with its chain.
    case revoked

    /// An event in the life of a token.
    package enum Event: CaseIterable, Sendable {
        case shown
        /// A request shows the token, at most ``TokenState/grace`` after it retired.
        case shownInGrace
        /// A request shows the token that replaced it for the first time.
        case successorShown
        case revoked
    }

    /// The server's reaction to an event.
    package enum Reaction: Hashable, Sendable {
        case none
        case accept
        case acceptAndRetirePredecessor
        case refuse
        case refuseAndRevokeChain
    }

    /// How long a retired token is only refused, in milliseconds: a minute.
    package static let grace: Int64 = 60_000

    /// Returns the event that a request is, by milliseconds since 1970; `retired` is nil if that time is unknown.
    package static func showing(at now: Int64, retired: Int64?) -> Event {
        guard let retired, now - retired <= grace else { return .shown }
        return .shownInGrace
    }

    package func after(_ event: Event, kind: Token.Kind) -> (state: TokenState, reaction: Reaction) {
        switch (self, event) {
        case (.issued, .shown): (.active, .acceptAndRetirePredecessor)
        case (.active, .shown): (.active, .accept)
        case (.retired, .shown): kind == .device ? (.revoked, .refuseAndRevokeChain) : (.retired, .refuse)
        case (.retired, .shownInGrace): (.retired, .refuse)
        // A token that did not retire has no grace.
        case (.issued, .shownInGrace), (.active, .shownInGrace): after(.shown, kind: kind)
        case (.revoked, .shown), (.revoked, .shownInGrace): (.revoked, .refuse)
        case (.issued, .successorShown), (.active, .successorShown): (.retired, .none)
        case (.retired, .successorShown): (.retired, .none)
        case (.revoked, .successorShown): (.revoked, .none)
        case (_, .revoked): (.revoked, .none)
        }
    }
}
