import TidemarkCore

/// Decides who sends a request, and what the sender may do.
///
/// The server asks it on every route but those of health checks, before it reads a request's body.
public protocol AccessGate: Sendable {
    /// Returns the sender of a request.
    ///
    /// - Parameter token: The bearer token of the request; nil for a request without one.
    /// - Throws: ``TidemarkCore/ErrorCode/signInNeeded`` for a token that is not valid.
    func caller(token: String?) async throws -> Caller

    /// Returns the access of a sender to a zone.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unknownZone`` for a zone that does not exist or that the
    ///   sender may not read, with the same text; ``TidemarkCore/ErrorCode/signInNeeded`` for a sender
    ///   without a token; ``TidemarkCore/ErrorCode/accessRevoked`` for a former member.
    func access(of caller: Caller, to zone: String) async throws -> ZoneAccess
}

/// The gate of a server without identity: each request acts as the owner.
public struct LocalGate: AccessGate {
    /// Makes a gate.
    public init() {}

    /// Returns the local caller; a token is ignored.
    public func caller(token: String?) async throws -> Caller { .local }

    /// Returns the owner's access.
    public func access(of caller: Caller, to zone: String) async throws -> ZoneAccess { .local(zone) }
}
