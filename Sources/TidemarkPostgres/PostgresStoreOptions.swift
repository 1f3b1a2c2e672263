public import Foundation
public import Logging
public import TidemarkCore
package import TidemarkEngine

/// Options for opening a ``PostgresStore``.
public struct PostgresStoreOptions: Sendable {
    /// The database: a URL or a `key=value` list, by libpq's rules.
    public var address: String
    /// SQL statements in SQLite's dialect that declare the tables; the store creates what the database lacks.
    public var schemaSQL: String?
    /// An SQLite file whose tables and rows a first store copies; later it adds only missing tables and columns.
    public var filePath: String?
    /// Whether to adopt existing tables, if no store has served the database yet.
    public var adopts = false
    /// With ``adopts``, the zone column, the first in every key; nil: all rows belong to the zone `main`.
    public var zoneColumn: String?
    /// With ``adopts``, devices' types of columns that SQLite lacks, which the database keeps; nil: those that it has.
    public var deviceTypes: DeviceTypes?
    /// Tables to leave alone.
    public var excluding: Set<String> = []
    /// The columns that identify a record, for tables without a primary key; the store keeps them.
    public var keys: [String: [String]] = [:]
    /// The PostgreSQL schema that contains the tables.
    public var namespace = "public"
    /// The zones to create if they do not exist.
    public var zones = ["main"]
    /// A random id for new histories.
    public var newEpoch: UUID
    /// Whether the database comes from a backup: devices may know later revisions, so the zones start new histories.
    public var isRestored = false
    /// Conflict policies to change, by table and by `table.column`; the database keeps all, which begin as `reject`.
    public var policies: [String: ConflictPolicy] = [:]
    /// The bounds on requests and answers.
    public var limits = Limits.standard
    /// How long a request waits for a row that another program holds, in milliseconds.
    public var rowPatience = 1_000
    /// The maximum number of connections.
    public var connectionsMax = 8
    /// The local folder in which the store builds snapshots.
    public var folder = NSTemporaryDirectory()
    /// Logs the database's error messages, which clients never see.
    public var logger = Logger(label: "tidemark.postgres")
    /// The wall clock, in milliseconds since 1970; nil for the system's.
    public var now: (@Sendable () -> Int64)?
    /// A cache of change sets that the nodes share.
    package var shared: (any SharedChangeSets)?

    /// Creates options with the standard values.
    public init(address: String, newEpoch: UUID) {
        self.address = address
        self.newEpoch = newEpoch
    }
}
