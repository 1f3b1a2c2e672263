public import Foundation

/// The server has these changes: they are durable there, and other devices get them.
public struct Receipt: Hashable, Sendable, Codable {
    /// The zone.
    public let zone: String
    /// A revision of the zone that has all of the changes.
    public let revision: Int64
    /// The ids of the change sets that the wait was for, oldest first; empty if the server had everything already.
    public let changeSets: [UUID]
    /// When this device learned of it.
    public let at: Date
}

/// Why a wait for the server ended without a ``Receipt``.
///
/// Nothing is undone. A change stays in the outbox, or among the conflicts.
public enum WaitError: Error, Hashable, Sendable {
    /// The time is over, and so many of the awaited change sets are still in the outbox.
    case notYet(pending: Int)
    /// The server refused a change set, which waits among the conflicts under this id.
    case refused(conflict: Conflict.ID)
}

extension WaitError: LocalizedError, CustomStringConvertible {
    /// The error in words.
    public var description: String {
        switch self {
        case .notYet(pending: 0): "The server has not answered yet."
        case .notYet(let pending):
            "The server does not have \(pending == 1 ? "a change set" : "\(pending) change sets") yet."
        case .refused(let conflict): "The server refused the change set \(conflict)."
        }
    }

    /// The error in words, for an alert.
    public var errorDescription: String? { description }

    /// What a person can do.
    public var recoverySuggestion: String? {
        switch self {
        case .notYet: "The changes are kept, and sent when the server can be reached."
        case .refused: "The change set is among the conflicts; decide between its versions."
        }
    }
}
