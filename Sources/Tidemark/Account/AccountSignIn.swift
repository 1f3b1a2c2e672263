internal import GRDB
internal import TidemarkCore

/// Signing in and out.
///
/// Each function decides first, stores the new stage, and then acts. What a process does not finish, the next
/// start of the app does.
extension SyncAccount {
    /// Signs the person of the credentials in.
    ///
    /// It asks the server who that is. The private zone of nobody becomes the user's; ``EarlierEdits`` says
    /// what happens with edits if the user has a private zone here already. Files of a former user stay.
    ///
    /// - Parameters:
    ///   - earlierEdits: What happens with edits from before the sign-in, if the user has a file already.
    ///   - despiteWaitingChanges: Whether another user may be signed out although edits of that user wait.
    /// - Returns: The user's id.
    /// - Throws: ``TidemarkCore/ErrorCode/accountHasFile``, ``TidemarkCore/ErrorCode/changesWait``, or an
    ///   error of the request; nothing was changed.
    @discardableResult public func signIn(earlierEdits: EarlierEdits = .refused, despiteWaitingChanges: Bool = false)
        async throws -> String
    {
        try await alone {
            let user = try await transport(of: nil).signedInUser()
            if case .leaving = registry.stage { throw signInNeeded }
            let nobodys = registry.file(of: nil, zone: Self.privateZone)
            let own = registry.file(of: user, zone: Self.privateZone)
            let facts = SignInPlan.Facts(
                nobodysEdits: try await edits(of: nobodys), ownEdits: try await edits(of: own),
                formerUsersEdits: try await editsOfFormerUser(than: user))
            let plan = try SignInPlan(facts, earlierEdits: earlierEdits, despiteWaitingChanges: despiteWaitingChanges)
            var changed = registry
            changed.stage = .signedIn(user: user)
            let obsolete = plan == .discard ? nobodys : plan == .replace ? own : nil
            if let obsolete {
                try await close(obsolete)
                // The app may have edited it meanwhile.
                try await refuseEdits(of: [obsolete], unless: false)
                changed.discard(obsolete)
            }
            if let nobodys, plan == .adopt || plan == .replace { changed.give(nobodys, to: user) }
            try store(changed)
            try await beginSession(of: user)
            try removeDiscarded()
            return user
        }
    }

    /// Connects the open files of the user, and disconnects all others.
    private func beginSession(of user: String) async throws {
        let session = try transport(of: user)
        self.session = session
        list = ([], nil)
        for file in registry.files {
            guard let zone = zones[file.name] else { continue }
            if file.user == user, zone.file.user == nil {
                try await zone.database.write { try DeviceFile.bind(to: user, in: $0) }
                zones[file.name]?.file = file
            }
            zone.transport.connect(file.user == user ? session : nil)
            await zone.sync.credentialsChanged()
        }
        restartListening()
    }

    private func editsOfFormerUser(than user: String) async throws -> Int {
        guard let former = registry.stage.user, former != user else { return 0 }
        return try await edits(of: registry.files.filter { $0.user == former })
    }

    // MARK: Sign-out

    /// Signs the user out: ends the stored token at the server if it can be reached, and forgets it here.
    ///
    /// Credentials that the app provides are the app's to forget.
    ///
    /// - Parameters:
    ///   - files: What happens with the user's files.
    ///   - despiteWaitingChanges: Whether to go on although the server lacks edits, or conflicts wait. With
    ///     ``FilesAtSignOut/remove`` they are lost.
    /// - Throws: ``TidemarkCore/ErrorCode/changesWait``; nothing was changed.
    public func signOut(_ files: FilesAtSignOut, despiteWaitingChanges: Bool = false) async throws {
        try await alone {
            guard let user = registry.stage.user else { throw signInNeeded }
            var removesFiles = files == .remove
            // A sign-out that failed in the middle has promised to remove them.
            if case .leaving(_, true) = registry.stage { removesFiles = true }
            let own = registry.files.filter { $0.user == user }
            try await refuseEdits(of: own, unless: despiteWaitingChanges)
            if removesFiles {
                for file in own { try await close(file) }
                // The app may have edited a file meanwhile.
                try await refuseEdits(of: own, unless: despiteWaitingChanges)
            }
            var changed = registry
            changed.stage = .leaving(user: user, removesFiles: removesFiles)
            try store(changed)
            session = nil
            list = ([], nil)
            restartListening()
            for zone in zones.values { zone.transport.connect(nil) }
            try await finishLeaving(tellsServer: true)
        }
    }

    func finishLeaving(tellsServer: Bool) async throws {
        guard case .leaving(let user, let removesFiles) = registry.stage else { return }
        try await transport(of: nil).forgetToken(tellsServer: tellsServer)
        try environment.checkpoint()
        var changed = registry
        changed.stage = removesFiles ? .nobody : .signedOut(user: user)
        if removesFiles { for file in changed.files where file.user == user { changed.discard(file) } }
        try store(changed)
        try removeDiscarded()
    }
}
