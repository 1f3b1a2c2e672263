public import GRDB

/// A zone of an account on this device: an ordinary database, and its sync; safe to use from any task.
public struct AccountZone: Sendable {
    /// The zone as the app opened it: ``SyncAccount/privateZone``, `main`, or the name in a ``ZoneSummary``.
    public let zone: String
    /// The app's database, migrated.
    public let database: DatabasePool
    /// The sync of the database.
    public let sync: SyncEngine
    var file: AccountRegistry.File
    let transport: AccountTransport
}
