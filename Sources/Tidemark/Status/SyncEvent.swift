/// Something that a sync did and that an app may want to show.
public enum SyncEvent: Hashable, Sendable {
    /// The server has decided about change sets that this device sent: it accepted or refused them.
    case sent(changeSets: Int)
    /// Changes of others were applied; `records` counts them.
    case remoteChanges(revision: Int64, records: Int)
    /// New records of a table got their permanent ids; `ids` maps temporary to permanent.
    case identitiesAssigned(table: String, ids: [Int64: Int64])
    /// A change set was refused and is parked under its id.
    case conflict(id: String)
    /// A change set was refused, and the app's function has merged it: a new change set goes out.
    case merged(id: String)
    /// Values lost by the policy of their column; they are kept among the conflicts under this id,
    /// and ask for no decision.
    case overruled(id: String)
    /// A record with changes that wait was changed or deleted by somebody else.
    case changedWhileEdited(table: String, key: String, isDeleted: Bool)
    /// Records that were not the server's were replaced by the server's.
    case repaired(records: Int)
    /// The device took a new snapshot; `records` counts all rows of the zone.
    case snapshotTaken(revision: Int64, records: Int)
    /// The server's history is another one now, after a restore or a wipe, or this file was told
    /// from a copy of it; so many change sets that the server had forgotten were offered again.
    case historyChanged(epoch: String, offeredAgain: Int)
    /// A round failed; it is tried again where that can help.
    case failed(code: String, message: String)
}
