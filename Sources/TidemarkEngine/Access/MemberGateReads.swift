import TidemarkCore

/// What users learn and decide about their own accounts.
extension MemberGate {
    /// Returns a user's account.
    public func account(of user: String) async throws -> Account {
        let now = now()
        return try await database.read { try Account(of: user, from: $0, now: now) }
    }

    /// Revokes the tokens of a user's device, with their chains.
    ///
    /// - Returns: The zones that can have notes for the device: those of the user, now or before, and those
    ///   of everybody.
    public func signOut(device: String, of user: String) async throws -> [String] {
        let now = now()
        let own = try await database.transaction { statements in
            let tokens = Tokens(statements, now: now)
            if try tokens.revoke(device: device, of: user) {
                try Audit(statements, now: now).append(.deviceForgotten, by: user, subject: device)
            }
            return try Zones(statements, now: now).names(everOf: user)
        }
        return own + namesOfEverybodysZones
    }

    /// Returns whether the server still accepts a token and admits its user; the server does not count it as a use.
    public func isSignedIn(_ user: String, token: String?) async throws -> Bool {
        do { return try await self.user(holding: token) == user } catch let error as TidemarkError
            where error.code == .signInNeeded
        { return false }
    }
}

/// The questions about requests that last, such as a listener's.
extension MemberGate {
    /// Returns the time, and the number of changes of the database and the policy.
    public func moment() async throws -> AccessMoment {
        AccessMoment(time: now(), version: try await database.version() + policyChanges)
    }

    /// Checks that the token is still good, its user admitted, and the rights in the zone are no fewer.
    public func confirm(_ access: ZoneAccess, token: String?) async throws {
        let moment = try await moment()
        if case .user(let user) = access.caller, access.version == moment.version, user.expires ?? .max > moment.time {
            return
        }
        guard try await user(holding: token) == access.caller.userID else { throw Self.signInNeeded }
        let present =
            if case .user(let user) = access.caller {
                try await self.access(of: user, to: access.zone, at: try await database.version())
            } else { try anonymousAccess(to: access.zone) }
        guard present.role < access.role else { return }
        throw TidemarkError(
            .notAllowed,
            "Your rights in this zone changed during the request: you are \(present.role.withArticle) now.",
            fix: "Ask an owner of the zone for the role.")
    }

    /// Returns the admitted user who holds a token, which does not count as shown; nil for an anonymous sender.
    private func user(holding text: String?) async throws -> String? {
        guard let text else { return nil }
        guard Token.isOwn(text) else {
            guard case .user(let user) = try await caller(token: text) else { throw Self.signInNeeded }
            return user.id
        }
        guard let hash = Token(text)?.hash else { throw Self.signInNeeded }
        let now = now()
        return try await database.read { statements in
            guard let entry = try TokenRegister(statements).entry(hash: hash), entry.canAct(at: now),
                try !Members(statements, now: now).isDisabled(entry.user)
            else { throw Self.signInNeeded }
            return entry.user
        }
    }
}
