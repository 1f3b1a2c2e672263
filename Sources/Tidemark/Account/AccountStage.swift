internal import TidemarkCore

/// The stage of an account on a device, and its reactions to events.
///
/// | stage | signedIn(same user) | signedIn(other user) | signOut | ended |
/// | --- | --- | --- | --- | --- |
/// | nobody | signedIn | signedIn | refuse | |
/// | signedIn | signedIn | signedIn | leaving | |
/// | signedOut | signedIn | signedIn | leaving | |
/// | leaving | refuse | refuse | leaving | nobody if it removes the files, else signedOut |
///
/// `leaving` is stored before anything is removed. So a process that ends in the middle of a sign-out
/// finishes it when it starts again.
enum AccountStage: Hashable, Sendable, Codable {
    /// Nobody has signed in; edits wait for the first user.
    case nobody
    /// The user is signed in, and the user's files sync.
    case signedIn(user: String)
    /// The user has signed out and kept the files, which the app can read and edit.
    case signedOut(user: String)
    /// The user is signing out.
    case leaving(user: String, removesFiles: Bool)

    enum Event: Hashable, Sendable {
        /// The server has named the user of the credentials.
        case signedIn(user: String)
        /// The app signs the user out.
        case signOut(removesFiles: Bool)
        /// The sign-out has forgotten the token and removed what it had to.
        case ended
    }

    /// Returns the stage after an event; nil if the event is not possible now.
    func after(_ event: Event) -> AccountStage? {
        switch (self, event) {
        case (.nobody, .signedIn(let user)), (.signedIn, .signedIn(let user)), (.signedOut, .signedIn(let user)):
            .signedIn(user: user)
        case (.signedIn(let user), .signOut(let removes)), (.signedOut(let user), .signOut(let removes)):
            .leaving(user: user, removesFiles: removes)
        case (.leaving(let user, let former), .signOut(let removes)):
            .leaving(user: user, removesFiles: former || removes)
        case (.leaving(let user, let removes), .ended): removes ? .nobody : .signedOut(user: user)
        case (.nobody, .signOut), (.leaving, .signedIn), (.nobody, .ended), (.signedIn, .ended), (.signedOut, .ended):
            nil
        }
    }

    /// The user whose files the app sees; nil for the files that are nobody's yet.
    var user: String? {
        switch self {
        case .nobody: nil
        case .signedIn(let user), .signedOut(let user), .leaving(let user, _): user
        }
    }
}
