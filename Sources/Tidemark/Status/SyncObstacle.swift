/// The reason why an engine sends nothing now, for a status bar; edits are kept meanwhile.
public enum SyncObstacle: Hashable, Sendable, Codable {
    /// The server asked the device to send nothing before this time, ISO 8601.
    case pause(until: String)
    /// The server accepts no token that the device has; the user has to sign in.
    case signInNeeded
    /// The user is no longer a member of the zone; unsent changes are among the conflicts.
    case accessEnded
    /// The server has no zone of that name that the user may read; nothing was removed.
    case zoneUnknown
}
