public import TidemarkCore

/// One transaction on one zone, as the engine sees it.
///
/// The seam between the rules and a database.
///
/// Every function works on sets: its cost in statements depends on the number of tables, not of
/// rows. All are synchronous and run on the store's own thread. The staged rows of a request are
/// known by the change set's number. What a store throws besides ``TidemarkCore/TidemarkError`` and
/// ``Violation`` is a failure of the database.
public protocol StoreTransaction {
    /// The server's wall clock, in milliseconds since 1970.
    var now: Int64 { get }

    /// What the zone is at now.
    func zone() throws -> ZoneState

    /// The revision at which the zone left an earlier history, or nil when it never was in it.
    func end(of epoch: String) throws -> Int64?

    /// The fingerprint of the zone's rows at a revision; nil when it is not known any more.
    ///
    /// That of the latest revision is always known.
    func fingerprint(at revision: Int64) throws -> Fingerprint?

    /// Makes the fingerprint of the latest revision known, and so that of each one from then on.
    func establishFingerprint() throws

    /// Computes the fingerprint of the latest revision from all rows, and keeps it.
    func recomputeFingerprint() throws

    /// Compares ranges of keys with the rows that are here.
    func compare(_ ranges: [KeyRange], limits: Limits) throws -> Comparison

    /// Parses a body, checks every name, key and value in it, and stages its rows.
    func stage(_ body: [UInt8], limits: Limits) throws -> SyncRequest

    /// Does the same for several bodies in one go, for as many statements as one takes.
    ///
    /// - Returns: Nil when something is wrong with one of them, which staging each by itself will
    ///   tell.
    func stage(together bodies: [[UInt8]], limits: Limits) throws -> [SyncRequest]?

    /// Begins with a staged request.
    func turn(to request: SyncRequest) throws

    /// Takes changes that other programs made in the tables into the log, as one revision if there
    /// are any.
    func absorbOutsideChanges() throws

    /// What was answered to a change set before.
    func verdict(of id: String) throws -> Verdict?

    /// Change sets that have a verdict as their author receives them, JSON, by their ids.
    ///
    /// With `extent` `ids`, those that became what was sent have the ids of new records and nothing
    /// else; with `verdicts` all accepted ones have these, and the values that were overruled.
    func authorsCopies(of ids: [String], _ extent: SyncRequest.Echo) throws -> [String: String]

    /// Those of the change sets named that have a verdict.
    func known(_ ids: [String]) throws -> [String]

    /// The last exchange with a device, or nil when there was none.
    func lastExchange(with device: String) throws -> Exchange?

    /// Keeps an exchange with a device as the last one.
    func keep(_ exchange: Exchange, with device: String) throws

    /// The revisions of the change sets named, and of all that they depended on.
    ///
    /// - Throws: `predecessorMissing` when one is unknown.
    func ancestry(of ids: [String]) throws -> Ancestry

    /// Makes temporary ids known that the request names, and that its device's earlier change sets
    /// were given permanent ones for.
    func recallIdentities(_ request: SyncRequest) throws

    /// Runs one of several requests that share this transaction; when it throws, everything it did
    /// is undone, and its error returned.
    ///
    /// - Throws: The error instead when the transaction cannot go on after it: the database is
    ///   gone, its disk is full, or it has rolled everything back. No request of the transaction
    ///   counts then.
    func isolated<Success>(_ body: () throws -> Success) throws -> Result<Success, any Error>

    /// Runs `body`; when it throws, everything it did is undone.
    func attempt<Result>(_ body: () throws -> Result) throws -> Result

    /// Takes the next revision, gives permanent ids to created records and rewrites all references
    /// to them.
    func begin(_ ord: Int, device: String?) throws -> Int64

    /// The conflict policy of a table, and those of its columns that have one of their own.
    func policy(of table: String) throws -> (table: ConflictPolicy, columns: [String: ConflictPolicy])

    /// The records of a change set that somebody else changed after `base`, except in revisions
    /// `seen`.
    ///
    /// `stamp` says who made the change set, and when.
    func contentions(_ ord: Int, base: Int64, seen: [Int64], stamp: Stamp) throws -> [Contention]

    /// Takes the columns that are overruled out of the staged rows, and keeps the values that are
    /// not going to stand for ``log(_:revision:stamp:)``.
    func overrule(_ overrulings: [Overruling], in ord: Int) throws

    /// Writes the staged rows into the tables.
    ///
    /// - Throws: ``Violation`` when a constraint refuses, or a reference is left pointing at
    ///   nothing.
    func apply(_ ord: Int) throws

    /// The records that the database changed along with the change set just applied, by
    /// `ON DELETE` and `ON UPDATE`, and that somebody else changed after `base`, except in
    /// revisions `seen`.
    func cascades(_ ord: Int, base: Int64, seen: [Int64]) throws -> [Contention]

    /// Logs what the transaction changed since `begin`, at the revision, and keeps the verdict.
    func log(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> LoggedChangeSet

    /// The change set just logged as its author receives it, JSON.
    func authorsCopy(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> String

    /// The truth for a refused change set: every record it touched and those related to them, JSON.
    ///
    /// Keeps the verdict. At most `relatedMax` related records come along.
    func refuse(_ envelope: SyncRequest.Envelope, device: String?, reasons: [ConflictReason], relatedMax: Int) throws
        -> String

    /// The notes of values of this device that others overruled, oldest first, JSON each, up to a
    /// revision; those numbered up to `taken` have arrived and are forgotten.
    func overruled(device: String, taken: Int64, through revision: Int64, limit: Int) throws -> [String]

    /// Takes the bodies of revisions up to `horizon` out of the log, and what else only they need.
    ///
    /// Judging an older base stays right: of each record that exists, it stays known who set each
    /// column last, and when.
    func compact(to horizon: Int64) throws

    /// Whether a change set of a device is among these revisions.
    func hasRevision(by device: String, after revision: Int64, through last: Int64) throws -> Bool

    /// The change sets that are missed, oldest first, as the device may see them.
    func catchUp(_ missed: MissedRevisions) throws -> CatchUp
}

extension StoreTransaction {
    /// Asks for the fingerprint.
    public func establishFingerprint() throws { _ = try fingerprint(at: zone().revision) }

    /// Where each change set is written in its turn, nothing.
    public func turn(to request: SyncRequest) throws {}
}

/// Where a zone stands.
public struct ZoneState: Hashable, Sendable {
    /// The random id of this history.
    public let epoch: String
    /// The latest revision.
    public let revision: Int64
    /// The revision from which on the log is complete; a device behind it needs a snapshot.
    public let horizon: Int64
    /// The hash of the zone's schema as it is sent.
    public let schema: String
    /// The last time of the zone's hybrid clock.
    public let time: Int64

    /// Makes a state.
    public init(epoch: String, revision: Int64, horizon: Int64, schema: String, time: Int64 = 0) {
        self.epoch = epoch
        self.revision = revision
        self.horizon = horizon
        self.schema = schema
        self.time = time
    }
}

/// What a server knows of the last request of a device that it answered.
public struct Exchange: Hashable, Sendable {
    /// The request's own lap.
    public let lap: String
    /// The revision to which the answer brought the device.
    public let revision: Int64

    /// Makes an exchange.
    public init(lap: String, revision: Int64) { (self.lap, self.revision) = (lap, revision) }
}

/// What was answered to a change set.
public struct Verdict: Hashable, Sendable {
    /// The device that sent it.
    public let device: String?
    /// The hash of its content.
    public let hash: String
    /// The revision it became, or nil when it was refused as a conflict.
    public let revision: Int64?
    /// Whether it became what was sent: then its ids are all that its author does not know.
    public let isAsSent: Bool

    /// Makes a verdict.
    public init(device: String?, hash: String, revision: Int64?, isAsSent: Bool) {
        self.device = device
        self.hash = hash
        self.revision = revision
        self.isAsSent = isAsSent
    }
}

/// What the log made of a change set.
public struct LoggedChangeSet: Hashable, Sendable {
    /// The change set with the ids of its new records and nothing else, JSON.
    public let ids: String
    /// The author's copy, where values in it were overruled.
    public let whole: String?
    /// Whether it became what was sent, as far as the store can tell yet.
    public let isAsSent: Bool

    /// Makes one.
    public init(ids: String, whole: String? = nil, isAsSent: Bool) {
        self.ids = ids
        self.whole = whole
        self.isAsSent = isAsSent
    }
}

/// What a change set builds on.
public struct Ancestry: Hashable, Sendable {
    /// The revisions of its ancestors: changes that its author had seen, being their own.
    public let revisions: [Int64]
    /// Whether one of those that it names directly was refused.
    public let isRefused: Bool

    /// Makes an ancestry.
    public init(revisions: [Int64], isRefused: Bool) {
        self.revisions = revisions
        self.isRefused = isRefused
    }
}

/// Change sets for a device that is behind.
public struct CatchUp: Hashable, Sendable {
    /// The change sets, JSON each.
    public let bodies: [String]
    /// The last revision among them, or the one asked after when there are none.
    public let revision: Int64
    /// Whether there are more.
    public let hasMore: Bool

    /// Whether nothing is missed.
    public var isEmpty: Bool { bodies.isEmpty && !hasMore }

    /// Makes a catch-up.
    public init(bodies: [String], revision: Int64, hasMore: Bool) {
        self.bodies = bodies
        self.revision = revision
        self.hasMore = hasMore
    }
}
