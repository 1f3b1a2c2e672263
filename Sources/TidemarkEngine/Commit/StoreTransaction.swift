package import TidemarkCore

/// One transaction on one zone: the interface between the rules and a database.
///
/// Every function works on sets: its number of statements depends on the number of tables, not of
/// rows. All functions are synchronous and run on the store's own thread. A change set's number
/// (`ord`) identifies its staged rows. A store throws ``TidemarkCore/TidemarkError`` or
/// ``Violation``; any other error is a failure of the database.
package protocol ZoneBooks {
    /// The server's wall clock, in milliseconds since 1970.
    var now: Int64 { get }

    /// Returns the zone's current state.
    func zone() throws -> ZoneState

    /// Returns the last revision of an earlier epoch; nil if the zone never had this epoch.
    func end(of epoch: String) throws -> Int64?

    /// Returns the fingerprint of the zone's rows at a revision; nil when it is no longer stored.
    ///
    /// The fingerprint of the latest revision is always available.
    func fingerprint(at revision: Int64) throws -> Fingerprint?

    /// Ensures that the fingerprint of the latest revision is stored, so each later one is, too.
    func establishFingerprint() throws

    /// Computes the fingerprint of the latest revision from all rows, and stores it.
    func recomputeFingerprint() throws

    /// Compares key ranges of a device with the zone's rows.
    func compare(_ ranges: [KeyRange], limits: Limits) throws -> Comparison

    /// Logs the changes that other programs made in the tables as one revision, if there are any.
    func absorbOutsideChanges() throws

    /// Returns the stored verdict of a change set.
    func verdict(of id: String) throws -> Verdict?

    /// Returns the author's copies of change sets with a verdict: JSON by id.
    ///
    /// With the extent `ids`, a change set committed as sent has only the ids of new records. With
    /// `verdicts`, every accepted change set has only these ids and the overruled values.
    func authorsCopies(of ids: [String], _ extent: SyncRequest.Echo) throws -> [String: String]

    /// Returns the ids of the change sets that have a verdict.
    func idsWithVerdict(_ ids: [String]) throws -> [String]

    /// Returns the last exchange with a device; nil when there was none.
    func lastExchange(with device: String) throws -> Exchange?

    /// Stores an exchange with a device as its last one.
    ///
    /// A device that belongs to a user keeps that user.
    func keep(_ exchange: Exchange, with device: String) throws

    /// Returns the revisions of change sets and of all their ancestors.
    ///
    /// - Throws: `predecessorMissing` when one is unknown.
    func ancestry(of ids: [String]) throws -> Ancestry

    /// Lends ids of tables to a device, which no other device and no server assigns.
    ///
    /// - Returns: The lent ids of each table; none for a table whose ids the server cannot lend.
    func lend(_ tables: [String]) throws -> [String: [LentIDs]]

    /// Runs one of several requests of this transaction in a savepoint.
    ///
    /// If it throws, its effects are undone and its error is returned.
    ///
    /// - Throws: The error if the transaction cannot continue: the database is unreachable, its
    ///   disk is full, or it has rolled back. Then no request of the transaction has an effect.
    func isolated<Success>(_ body: () throws -> Success) throws -> Result<Success, any Error>

    /// Runs `body` in a savepoint; if it throws, its effects are undone.
    func attempt<Result>(_ body: () throws -> Result) throws -> Result

    /// Returns the notes of this device's overruled values up to a revision, oldest first, JSON each.
    ///
    /// Deletes the notes up to the number `cursor`, which the device has applied.
    func overruledNotes(device: String, after cursor: Int64, through revision: Int64, limit: Int) throws -> [String]

    /// Removes the bodies of revisions up to `horizon`, and the data that only they need.
    ///
    /// Older bases can still be judged: the log keeps the last author and time of each column of
    /// each existing record.
    func compact(to horizon: Int64) throws

    /// Whether a change set of a device is among these revisions.
    func hasRevision(by device: String, after revision: Int64, through last: Int64) throws -> Bool

    /// Returns the missed change sets, oldest first, as the device receives them.
    func catchUp(_ missed: MissedRevisions) throws -> CatchUp
}

/// A transaction of a store that stages change sets in temporary tables.
package protocol StoreTransaction: ZoneBooks {
    /// Returns the conflict policies of a table and of its columns that have their own.
    func policy(of table: String) throws -> (table: ConflictPolicy, columns: [String: ConflictPolicy])

    /// Parses a body, checks every name, key and value in it, and stages its rows.
    func stage(_ body: [UInt8], limits: Limits) throws -> SyncRequest

    /// Stages several bodies together, with as many statements as for one.
    ///
    /// - Returns: Nil when one of them is faulty. The caller then stages each by itself, which
    ///   throws the error.
    func stage(together bodies: [[UInt8]], limits: Limits) throws -> [SyncRequest]?

    /// Begins a staged request.
    func beginRequest(_ request: SyncRequest) throws

    /// Loads the permanent ids for temporary ids of the device's earlier change sets.
    func recallIdentities(_ request: SyncRequest) throws

    /// Takes the next revision, assigns permanent ids to new records, and rewrites references to
    /// them.
    func begin(_ ord: Int, device: String?) throws -> Int64

    /// Returns the change set's records that another author changed after `base`.
    ///
    /// Changes in `seenRevisions` do not count. `stamp` has the change set's author and time.
    func contentions(_ ord: Int, base: Int64, seenRevisions: [Int64], stamp: Stamp) throws -> [Contention]

    /// Removes overruled columns from the staged rows, and keeps the losing values for
    /// ``log(_:revision:stamp:)``.
    func overrule(_ overrulings: [Overruling], in ord: Int) throws

    /// Writes the staged rows into the tables.
    ///
    /// - Throws: ``Violation`` when a constraint fails or a reference dangles.
    func apply(_ ord: Int) throws

    /// Returns the records that `ON DELETE` and `ON UPDATE` actions of the applied change set
    /// changed, and that another author changed after `base`.
    ///
    /// Changes in `seenRevisions` do not count.
    func cascades(_ ord: Int, base: Int64, seenRevisions: [Int64]) throws -> [Contention]

    /// Logs the changes since `begin` at the revision, and stores the verdict.
    func log(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> LoggedChangeSet

    /// Returns the author's copy of the change set that was logged last, JSON.
    func authorsCopy(_ envelope: SyncRequest.Envelope, revision: Int64, stamp: Stamp) throws -> String

    /// Stores the verdict of a refused change set, and returns its current records as JSON.
    ///
    /// The records are those that the change set touched, and at most `relatedMax` related ones.
    /// It also keeps what the author sent, for people who look at conflicts.
    func refuse(
        _ envelope: SyncRequest.Envelope,
        of request: SyncRequest,
        reasons: [ConflictReason],
        relatedMax: Int
    ) throws -> String
}

extension ZoneBooks {
    /// Reads the fingerprint, which computes it if it is missing.
    package func establishFingerprint() throws { _ = try fingerprint(at: zone().revision) }
}

extension StoreTransaction {
    /// Does nothing: only a planned transaction prepares a request.
    package func beginRequest(_ request: SyncRequest) throws {}
}

/// The state of a zone.
public struct ZoneState: Hashable, Sendable {
    /// The random id of this history.
    package let epoch: String
    /// The latest revision.
    package let revision: Int64
    /// The compaction horizon: a device at an earlier revision needs a snapshot.
    package let horizon: Int64
    /// The hash of the zone's schema.
    package let schema: String
    /// The last time of the zone's hybrid clock.
    package let time: Int64

    /// Makes a state.
    package init(epoch: String, revision: Int64, horizon: Int64, schema: String, time: Int64 = 0) {
        self.epoch = epoch
        self.revision = revision
        self.horizon = horizon
        self.schema = schema
        self.time = time
    }

    /// The same zone after more revisions.
    package func with(revision: Int64, time: Int64) -> ZoneState {
        ZoneState(epoch: epoch, revision: revision, horizon: horizon, schema: schema, time: time)
    }
}

/// The last request of a device that the server answered.
package struct Exchange: Hashable, Sendable {
    /// The request's session nonce; empty for a device that sends none.
    package let lap: String
    /// The device's revision after the answer.
    package let revision: Int64
    /// The user to whom the device belongs; nil for a device that only requests without identity named.
    package let user: String?

    /// The nonce of a device that the server has forgotten: none of its requests follows it.
    package static let forgottenLap = "forgotten"

    /// Makes an exchange.
    package init(lap: String, revision: Int64, user: String?) {
        self.lap = lap
        self.revision = revision
        self.user = user
    }
}

/// The stored verdict of a change set.
package struct Verdict: Hashable, Sendable {
    /// The device that sent it.
    package let device: String?
    /// The hash of its content.
    package let hash: String
    /// The revision it became, or nil when it was refused as a conflict.
    package let revision: Int64?
    /// Whether it was committed as sent, so its author only needs the new ids.
    package let isAsSent: Bool

    /// Makes a verdict.
    package init(device: String?, hash: String, revision: Int64?, isAsSent: Bool) {
        self.device = device
        self.hash = hash
        self.revision = revision
        self.isAsSent = isAsSent
    }
}

/// The author's copy of a change set, as the log stores it.
package struct LoggedChangeSet: Hashable, Sendable {
    /// The change set with only the ids of its new records, JSON.
    package let ids: String
    /// The whole author's copy; only for a change set with overruled values.
    package let whole: String?
    /// Whether it was committed as sent, as far as the store knows yet.
    package let isAsSent: Bool

    /// Makes a logged change set.
    package init(ids: String, whole: String? = nil, isAsSent: Bool) {
        self.ids = ids
        self.whole = whole
        self.isAsSent = isAsSent
    }
}

/// The ancestors of a change set.
package struct Ancestry: Hashable, Sendable {
    /// The revisions of its ancestors, which are the author's own changes.
    package let revisions: [Int64]
    /// Whether a direct predecessor was refused.
    package let isRefused: Bool

    /// Makes an ancestry.
    package init(revisions: [Int64], isRefused: Bool) {
        self.revisions = revisions
        self.isRefused = isRefused
    }
}

/// Change sets for a device that is behind.
package struct CatchUp: Hashable, Sendable {
    /// The change sets, JSON each.
    package let bodies: [String]
    /// The revision of the last change set, or the device's revision when there is none.
    package let revision: Int64
    /// Whether later revisions remain.
    package let hasMore: Bool

    /// Whether the device misses nothing.
    package var isEmpty: Bool { bodies.isEmpty && !hasMore }

    /// Makes a catch-up.
    package init(bodies: [String], revision: Int64, hasMore: Bool) {
        self.bodies = bodies
        self.revision = revision
        self.hasMore = hasMore
    }
}
