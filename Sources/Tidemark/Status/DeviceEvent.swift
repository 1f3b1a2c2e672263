public import TidemarkCore

/// An event of a sync that an app may want to show.
public enum DeviceEvent: Hashable, Sendable {
    /// The server has decided about change sets that this device sent: it accepted or refused them.
    case sent(changeSets: Int)
    /// The device applied changes of other devices.
    case changed(RemoteChanges)
    /// New records of a table got other ids; `ids` maps each former id to the present one.
    ///
    /// Mostly a temporary id became permanent. Where a table is not declared `AUTOINCREMENT`, SQLite may have drawn an
    /// id that another record has at the server. The record then gets a temporary id, and a second event of the same
    /// sync maps that to the permanent one.
    case identitiesAssigned(table: String, ids: [Int64: Int64])
    /// The server refused a change set; the device parked it under this id.
    case conflict(Conflict.ID)
    /// The server refused a change set, and the app's merge function made a new change set of it.
    case merged(Conflict.ID)
    /// Values lost by the policy of their column; they are among the conflicts under this id and need no decision.
    case overruled(Conflict.ID)
    /// Another device changed or deleted a record that has pending changes here.
    case changedWhileEdited(RecordName, isDeleted: Bool)
    /// The device replaced records that differed from the server's.
    case repaired([RecordName])
    /// The device took a new snapshot, so every table may have changed; `records` counts all rows of the zone.
    case snapshotTaken(revision: Int64, records: Int)
    /// The file joined another history of the server, or was recognized as one of two copies.
    ///
    /// The server's history changes with a restore or a wipe. `offeredAgain` is the number of change
    /// sets that the server had lost and the device offered again.
    case historyChanged(epoch: String, offeredAgain: Int)
    /// The server accepts no token that the device has; the user has to sign in.
    case signInNeeded
    /// The user is no longer a member of the zone; unsent changes are among the conflicts.
    ///
    /// `isEmptied` says whether the device removed the zone's rows. It keeps them if they may hold edits
    /// that no trigger captured.
    case accessEnded(zone: String, isEmptied: Bool)
    /// A round failed; the engine retries it if a retry can help.
    case failed(TidemarkError)
}
