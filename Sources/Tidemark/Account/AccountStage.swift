/// The stage of an account on a device.
///
/// `leaving` is stored before anything is removed. So a process that ends in the middle of a sign-out
/// finishes it when it starts again; nobody signs in before.
enum AccountStage: Hashable, Sendable, Codable {
    /// Nobody has signed in; edits wait for the first user.
    case nobody
    /// The user is signed in, and the user's files sync.
    case signedIn(user: String)
    /// The user has signed out and kept the files, which the app can read and edit.
    case signedOut(user: String)
    /// The user is signing out.
    case leaving(user: String, removesFiles: Bool)

    /// The user whose files the app sees; nil for the files that are nobody's yet.
    var user: String? {
        switch self {
        case .nobody: nil
        case .signedIn(let user), .signedOut(let user), .leaving(let user, _): user
        }
    }
}
