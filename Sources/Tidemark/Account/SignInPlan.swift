internal import TidemarkCore

/// What an app wants with edits that were made while nobody was signed in, if the user has a file already.
public enum EarlierEdits: Hashable, Sendable {
    /// The sign-in is refused with ``TidemarkCore/ErrorCode/accountHasFile``, so that the app can ask.
    case refused
    /// They become the user's: the file with them takes the place of the user's file, whose rows come
    /// again from the server.
    case adopted
    /// They stay nobody's. The app sees them again when nobody is signed in.
    case setAside
}

/// What a sign-in does with the files of a device.
///
/// | edits of nobody | the user has a private file | what follows |
/// | --- | --- | --- |
/// | no file | either | `goOn` |
/// | a file | no | `adopt`: the file becomes the user's, with or without edits |
/// | a file without edits | yes | `discard` |
/// | a file with edits | yes | refused, `replace` or `setAside`, as the app says |
///
/// `replace` is refused while the user's own file has edits, because they would be lost with it. A sign-in as another
/// user is refused while edits of the former one wait, unless the app permits it; they stay in the former user's files.
enum SignInPlan: Hashable, Sendable {
    case goOn, adopt, discard, replace, setAside

    struct Facts: Hashable, Sendable {
        /// The edits of nobody's file; nil without such a file.
        var nobodysEdits: Int?
        /// The edits of the user's private file; nil without such a file.
        var ownEdits: Int?
        /// The edits in the files of the last user, if another user signs in.
        var formerUsersEdits = 0
    }

    /// Throws ``TidemarkCore/ErrorCode/changesWait`` or ``TidemarkCore/ErrorCode/accountHasFile``.
    init(_ facts: Facts, earlierEdits: EarlierEdits, despiteWaitingChanges: Bool) throws(TidemarkError) {
        guard facts.formerUsersEdits == 0 || despiteWaitingChanges else {
            throw Self.changesWait(
                facts.formerUsersEdits, fix: "They are another user's. Sync first, or say despiteWaitingChanges: true.")
        }
        switch (facts.nobodysEdits, facts.ownEdits) {
        case (nil, _): self = .goOn
        case (_?, nil): self = .adopt
        case (0, _?): self = .discard
        case (_?, let own?):
            switch earlierEdits {
            case .refused:
                throw TidemarkError(
                    .accountHasFile, "This device has edits from before the sign-in, and a file of the user as well.",
                    fix: "Ask the user, and sign in with earlierEdits: .adopted or .setAside. Nothing was changed.")
            case .setAside: self = .setAside
            case .adopted:
                guard own == 0 else {
                    throw Self.changesWait(own, fix: "Sign in with earlierEdits: .setAside, sync, and adopt them then.")
                }
                self = .replace
            }
        }
    }

    static func changesWait(_ count: Int, fix: String) -> TidemarkError {
        TidemarkError(
            .changesWait,
            "\(count == 1 ? "1 change waits" : "\(count) changes wait") here that the server does not have.", fix: fix)
    }
}
