/// The state of the decisions about access: its time, and the number of changes so far.
public struct AccessMoment: Hashable, Sendable {
    /// The time, in milliseconds since 1970.
    public let time: Int64
    /// The number of changes: equal numbers mean equal decisions, but for tokens that have ended since.
    public let version: Int64

    /// Makes a moment.
    public init(time: Int64, version: Int64) {
        self.time = time
        self.version = version
    }
}

/// Decides how long a listener stays: until its token ends, or its access does.
///
/// A listener's request lasts for days, and its admission is one decision at the start. The server asks
/// this value at each look at the database of access.
package struct ListenerRights: Hashable, Sendable {
    /// The next step of a listener's connection.
    package enum Step: Hashable, Sendable {
        case stays
        /// The database has changed since the last decision, so the gate decides again.
        case decidesAgain
        case ends
    }

    private let expires: Int64?
    /// The version of the last decision; nil before the first look.
    private var version: Int64?

    /// Makes the rights of a sender whom the gate has admitted a moment ago.
    package init(of caller: Caller) {
        guard case .user(let user) = caller else {
            expires = nil
            return
        }
        expires = user.expires
    }

    package func step(at moment: AccessMoment) -> Step {
        if let expires, expires <= moment.time { return .ends }
        return version == moment.version ? .stays : .decidesAgain
    }

    /// Records that the gate has admitted the listener again, after it had this version.
    package mutating func admit(at moment: AccessMoment) { version = moment.version }
}
