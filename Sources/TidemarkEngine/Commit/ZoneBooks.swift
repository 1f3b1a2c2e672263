package import TidemarkCore

/// What a transaction on a zone knows from its books: verdicts, exchanges, fingerprints and the log.
///
/// All functions are synchronous and run on the store's own thread. A store throws ``TidemarkCore/TidemarkError``; any
/// other error is a failure of the database.
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
