package import TidemarkCore

/// The operator's commands about users and tokens, in the caller's transaction; each checks all arguments first.
package struct Administration: AccessCell {
    package let session: AccessSession

    /// The longest life of a token that an operator issues, in days.
    package static let daysMax: Int64 = 3_650
    private static let day: Int64 = 86_400_000

    /// A token that the operator passes on.
    package struct Issue: Hashable, Sendable {
        package let token: Token
        package let user: String
        /// The moment when it ends, in milliseconds since 1970; nil for a token without an end.
        package let expires: Int64?
    }

    package init(_ session: AccessSession) { self.session = session }

    /// Adds a user with rights in a zone, and issues the sign-in token; throws `invalidArgument` for a bad name.
    package func addUser(
        _ user: String, role: Role?, in zone: String, using generator: inout some RandomNumberGenerator
    ) throws -> Issue {
        guard try !members.isKnown(user) else {
            throw TidemarkError(
                .invalidArgument, "There is a user \(user) already.",
                fix: "Issue a new sign-in token by `tidemark user sign-in \(user)`, or choose another name.")
        }
        // A provider's user is added as the provider writes it; the operator types these.
        guard !user.contains(where: \.isWhitespace) else {
            throw TidemarkError(
                .invalidArgument, "The name \"\(user)\" has a space; commands and lists could not tell where it ends.",
                fix: "Choose a name such as anna or anna.berg.")
        }
        try members.add(user)
        if let role { try members.set(role, of: user, in: zone) }
        return try issue(.signIn, to: user, duration: Tokens.signInDuration, using: &generator)
    }

    /// Issues another sign-in token; throws `invalidArgument` for an unknown or disabled user.
    package func signIn(_ user: String, using generator: inout some RandomNumberGenerator) throws -> Issue {
        try requireEnabled(user)
        return try issue(.signIn, to: user, duration: Tokens.signInDuration, using: &generator)
    }

    /// Refuses every request of a user from now on, or admits the user again; throws `invalidArgument` if unknown.
    package func set(_ user: String, isDisabled: Bool) throws {
        try members.require(user)
        try members.set(user, isDisabled: isDisabled)
    }

    /// Issues a token to a program of a user, or to one that reads the server's metrics.
    ///
    /// Without `days` a program's token lives as long as a device's, and one for the metrics until it is revoked:
    /// nobody watches the token of a scraper, and its end would end the alerts.
    ///
    /// - Throws: `invalidArgument` for an unknown or disabled user, and for an invalid number of days.
    package func addToken(
        to user: String, days: Int64? = nil, isAdministrator: Bool, using generator: inout some RandomNumberGenerator
    ) throws -> Issue {
        if let days, !(1...Self.daysMax).contains(days) {
            throw TidemarkError(
                .invalidArgument, "A token lives 1 to \(Self.daysMax) days, not \(days).",
                fix: "Choose a number of days in this range.")
        }
        try requireEnabled(user)
        let kind: Token.Kind = isAdministrator ? .administrator : .device
        let standard = isAdministrator ? nil : Tokens.deviceDuration
        return try issue(kind, to: user, duration: days.map { $0 * Self.day } ?? standard, using: &generator)
    }

    /// Revokes a token by its id; throws `invalidArgument` for an unknown one.
    package func revokeToken(_ id: String) throws {
        guard try tokens.revoke(id: id) else {
            throw TidemarkError(
                .invalidArgument, "There is no token \(id).",
                fix: "`tidemark token list` shows the ids; an id is the middle part of a token.")
        }
    }

    private func requireEnabled(_ user: String) throws {
        try members.require(user)
        guard try !members.isDisabled(user) else {
            throw TidemarkError(
                .invalidArgument, "\(user) is disabled, so a new token would be refused.",
                fix: "Admit the user first by `tidemark user enable \(user)`.")
        }
    }

    private func issue(
        _ kind: Token.Kind, to user: String, duration: Int64?, using generator: inout some RandomNumberGenerator
    ) throws -> Issue {
        let token = try tokens.issue(kind, to: user, duration: duration, using: &generator)
        return Issue(token: token, user: user, expires: duration.map { now + $0 })
    }
}

extension Token.Kind {
    /// The name in lists: `sign-in`, `device`, `invitation` or `administrator`.
    package var name: String {
        switch self {
        case .signIn: "sign-in"
        case .device: "device"
        case .invitation: "invitation"
        case .administrator: "administrator"
        }
    }
}
