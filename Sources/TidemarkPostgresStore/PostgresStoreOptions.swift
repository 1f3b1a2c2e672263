public import Foundation
public import Logging
public import TidemarkCore
package import TidemarkStore

/// What a store is opened with.
public struct PostgresStoreOptions: Sendable {
    /// The database: a URL or a `key=value` list, by libpq's rules.
    public var address: String
    /// Statements in SQLite's words that make the tables, and those tables and columns that the
    /// database does not have yet.
    public var schemaSQL: String?
    /// An SQLite file whose tables and rows are copied when the database is not served yet;
    /// later, those tables and columns that it has more.
    public var filePath: String?
    /// Whether the tables that are there are taken, when the database is not served yet.
    public var adopts = false
    /// With ``adopts``, the column that holds the zone, first in every key; nil: all rows are
    /// of the zone `main`.
    public var zoneColumn: String?
    /// Tables to leave alone.
    public var excluding: Set<String> = []
    /// PostgreSQL's schema in which the tables are.
    public var namespace = "public"
    /// The zones that are to be there.
    public var zones = ["main"]
    /// A random id for new histories.
    public var newEpoch: UUID
    /// The database came back from a backup, so what devices know of its later revisions is
    /// void: the zones go on as other histories.
    public var isRestored = false
    /// Conflict policies to change, by table and by `table.column`.
    ///
    /// The database keeps them, and all others stay as they are. They begin as `reject`.
    public var policies: [String: ConflictPolicy] = [:]
    /// The bounds on requests and answers.
    public var limits = Limits.standard
    /// How long a request waits for a row that another program holds, in milliseconds.
    public var rowPatience = 1_000
    /// The most connections.
    public var connectionsMax = 8
    /// Where snapshots are built: a folder of this process's machine.
    public var folder = NSTemporaryDirectory()
    /// Told what the database says when it fails, which clients are not.
    public var logger = Logger(label: "tidemark.postgres")
    /// The wall clock, in milliseconds since 1970; nil for the system's.
    public var now: (@Sendable () -> Int64)?
    /// A cache that the nodes share.
    package var shared: (any SharedChangeSets)?
    /// How the nodes tell each other what they commit; nil: by PostgreSQL's notifications.
    package var bus: (any NodeBus)?

    /// Options with the standard values.
    public init(address: String, newEpoch: UUID) {
        self.address = address
        self.newEpoch = newEpoch
    }
}
