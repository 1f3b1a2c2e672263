import TidemarkCore

/// Decides who sends a request, and what the sender may do.
///
/// The server asks it on every route but those of health checks, before it reads a request's body.
public protocol AccessGate: Sendable {
    /// Returns the sender of a request.
    ///
    /// - Parameter token: The bearer token of the request; nil for a request without one.
    /// - Returns: The sender; ``Caller/anonymous`` for a request without a token.
    /// - Throws: ``TidemarkCore/ErrorCode/signInNeeded`` for a token that is not valid.
    func caller(token: String?) async throws -> Caller

    /// Returns the access of a request to a zone; sender and rights are decided on one state of the database.
    ///
    /// - Parameters:
    ///   - zone: The zone.
    ///   - token: The bearer token of the request; nil for a request without one.
    ///   - admit: Called once with the sender, before the gate looks at the zone; its error refuses the request.
    /// - Returns: The sender with the rights in the zone.
    /// - Throws: ``TidemarkCore/ErrorCode/unknownZone`` for a zone that does not exist or that the
    ///   sender may not read, with the same text; ``TidemarkCore/ErrorCode/signInNeeded`` for a token that is
    ///   not valid, or for a sender without one; ``TidemarkCore/ErrorCode/accessRevoked`` for a former member;
    ///   the error of `admit`.
    func access(
        to zone: String,
        token: String?,
        admitting admit: @Sendable (Caller) throws -> Void
    ) async throws -> ZoneAccess

    /// Whether the gate remembers a token as valid, without a look at a database or a signature.
    ///
    /// A request with such a token passes although too many other tokens of its address were refused.
    func remembers(token: String) -> Bool

    /// Returns the present state of the decisions.
    ///
    /// Cheap enough for several calls a second.
    func moment() async throws -> AccessMoment

    /// Checks that the gate would still admit the request with this decision and this bearer token.
    ///
    /// It does not count as a use of the token: a device may have replaced the token of a request that
    /// lasts.
    ///
    /// - Throws: The refusal, or the failure of the database.
    func confirm(_ access: ZoneAccess, token: String?) async throws
}

extension AccessGate {
    /// Returns whether the gate would still admit the request; see ``confirm(_:token:)``.
    ///
    /// - Throws: The failure of the database.
    package func stillAdmits(_ access: ZoneAccess, token: String?) async throws -> Bool {
        do {
            try await confirm(access, token: token)
            return true
        } catch let error as TidemarkError where error.code != .unavailable && error.code != .storageFailed {
            return false
        }
    }
}

extension AccessGate {
    /// Returns false: the gate remembers no tokens.
    public func remembers(token: String) -> Bool { false }
}

/// The gate of a server without identity: each request acts as the owner.
public struct LocalGate: AccessGate {
    /// Makes a gate.
    public init() {}

    /// Returns the local caller; a token is ignored.
    public func caller(token: String?) async throws -> Caller { .local }

    /// Returns the owner's access.
    public func access(
        to zone: String,
        token: String?,
        admitting admit: @Sendable (Caller) throws -> Void
    ) async throws -> ZoneAccess {
        try admit(.local)
        return .local(zone)
    }

    /// Returns a moment that never changes.
    public func moment() async throws -> AccessMoment { AccessMoment(time: 0, version: 0) }

    /// Admits every request.
    public func confirm(_ access: ZoneAccess, token: String?) async throws {}
}
