/// An event of a run, as a recorder beside the code under test reads it.
package struct Event: Sendable {
    /// The time, in virtual seconds since the run began.
    package let time: Double
    /// The kind of event.
    package let kind: Kind

    /// Makes an event.
    package init(at time: Double, _ kind: Kind) {
        self.time = time
        self.kind = kind
    }

    /// The kinds of events.
    ///
    /// `device` is a name that the recorder gives a *file*, not the UUID in it: a copy of a file is
    /// another device here, whatever it calls itself.
    package enum Kind: Sendable {
        /// The tables of a file, `server` or a device, were altered and have these columns from now
        /// on.
        ///
        /// A new column has its default in every row. The first one comes before any rows. There is
        /// none if no table ever changes.
        case altered(actor: String, Layout)
        /// A device's file is there, with these rows at this revision: the first event of a device.
        case joined(device: String, identity: String, epoch: String?, cursor: Int64, rows: [RowChange])
        /// The app, or any other program, ran a transaction in a device's file.
        ///
        /// The rows are its effect on the synced tables, with all cascades. An app resolves a
        /// conflict in such a transaction, too.
        case edited(device: String, [RowChange])
        /// The engine ran a transaction in a device's file.
        case stepped(DeviceStep)
        /// A request left a device.
        case sent(Request)
        /// The server ran a transaction.
        case served(ServerStep)
        /// The answer to a request reached the device, whether or not the device applies it
        /// afterwards.
        case delivered(device: String, request: Int)
        /// The server made a snapshot; the rows are all rows of its file.
        case snapshot(epoch: String, revision: Int64, rows: [RecordID: Cells])
        /// A process ended between two steps, or in one, and lost its uncommitted work.
        case crashed(actor: String)
        /// A process began again with the file as it was.
        case reopened(actor: String)
        /// A copy of a file was made, of `server` or of a device: a backup, or a clone.
        ///
        /// The copy may act as a device of its own, or come back in the original's place.
        case copied(from: String, as: String)
        /// A device's file was replaced with a copy made earlier.
        case replaced(device: String, by: String)
        /// The server's file was replaced with a copy as of that revision, and the server was told
        /// so.
        ///
        /// It has forgotten its later commits. The history goes on under `epoch`. A `copy` may be of an
        /// earlier history, so that it brings commits back; nil: it is of the present one.
        case restored(epoch: String, revision: Int64, copy: String? = nil)
        /// All rows of a file, read by plain `SELECT`: `server`, or a device.
        case dumped(actor: String, rows: [RecordID: Cells])
        /// The content hash that a product's own command prints; equal rows must have equal ones.
        case digested(actor: String, hash: String)
        /// A size that has a cap in ``Rules/caps``: entries of a queue, bytes of an answer.
        case measured(actor: String, name: String, value: Int)
        /// An actor got a message that no honest peer sends.
        ///
        /// It answered with that status, or threw that code; 5xx and `crash` are defects.
        case abused(actor: String, input: String, outcome: String)
        /// A client without rows sent writes, for the first time.
        case offered(Offer)
        /// The server has a verdict on a client's change set since its last transaction.
        case judged(changeSet: String)
        /// The server answered a client's writes.
        case answered(OfferAnswer)
        /// The server answered a client's question.
        case shown(Sight)
        /// A client has made a copy of all rows at a revision, from a list and the feed after it.
        case mirrored(client: String, revision: Int64, rows: [RecordID: Cells])
        /// All faults have stopped; from now on everything must drain.
        case healed
        /// A device has nothing to send and nothing to fetch, after so many requests since
        /// `healed`.
        case drained(device: String, requests: Int)
        /// The run is over, and all files must be equal.
        case finished
    }
}

/// The result of a transaction of the engine in a device's file.
///
/// The recorder compares the file before and after with plain `SELECT`s; `nil` means that a table
/// did not change.
package struct DeviceStep: Sendable {
    /// The file.
    package let device: String
    /// The engine's action: `prepare`, `apply`, `snapshot`, `park`, `resolve`, for the reader.
    package let step: String
    /// The device's UUID in the file.
    package let identity: String
    /// The epoch in the file.
    package let epoch: String?
    /// The revision in the file.
    package let cursor: Int64
    /// The changes of the synced tables' rows.
    package let rows: [RowChange]
    /// The whole outbox, oldest first.
    package let outbox: [OutboxSet]?
    /// The whole conflict inbox.
    package let conflicts: [ParkedSet]?
    /// The new pairs of the map of ids.
    package let identities: [IdentityPair]
    /// The new id of each record whose drawn id another record has, as the app hears of it.
    ///
    /// `temporary` is the drawn id.
    package let renumbered: [IdentityPair]
    /// How many captured changes are not in the outbox yet.
    package let captured: Int
    /// The ids of the conflicts that an app resolved in this step.
    ///
    /// They may leave the inbox therefore.
    package let resolved: [String]
    /// The layouts that the file's bookkeeping is fitted to since this step; nil if they did not
    /// change.
    package let fit: Fit?
    /// The device's wall clock, in milliseconds since 1970; nil if no policy needs it.
    package let wall: Int64?

    /// Layouts, each by its place, from 0, among the layouts of its side.
    package struct Fit: Sendable, Equatable {
        /// The file's own.
        package let own: Int
        /// The zone's, as the file has it.
        package let zone: Int

        /// Makes a fit.
        package init(own: Int, zone: Int) {
            self.own = own
            self.zone = zone
        }
    }

    /// Makes a step.
    package init(
        device: String, step: String, identity: String, epoch: String?, cursor: Int64, rows: [RowChange] = [],
        outbox: [OutboxSet]? = nil, conflicts: [ParkedSet]? = nil, identities: [IdentityPair] = [],
        renumbered: [IdentityPair] = [], captured: Int = 0, resolved: [String] = [], fit: Fit? = nil, wall: Int64? = nil
    ) {
        self.device = device
        self.step = step
        self.identity = identity
        self.epoch = epoch
        self.cursor = cursor
        self.rows = rows
        self.outbox = outbox
        self.conflicts = conflicts
        self.identities = identities
        self.renumbered = renumbered
        self.captured = captured
        self.resolved = resolved
        self.fit = fit
        self.wall = wall
    }
}

/// A request as it left a device.
package struct Request: Sendable {
    /// The file that sent it.
    package let device: String
    /// Its number in the run; a request that is delivered twice keeps it.
    package let number: Int
    /// The device's revision in the request.
    package let maxRevision: Int64
    /// The device's epoch in the request.
    package let epoch: String?
    /// The change sets in it, by id and as sent.
    package let changeSets: [(id: String, wire: String)]
    /// Whether it only requests verdicts.
    package let isQuestion: Bool
    /// Whether a refusal is to bring the records that refer to the deleted ones.
    package let wantsRelated: Bool

    /// Makes a request.
    package init(
        device: String, number: Int, maxRevision: Int64, epoch: String?, changeSets: [(id: String, wire: String)],
        isQuestion: Bool = false, wantsRelated: Bool = true
    ) {
        self.device = device
        self.number = number
        self.maxRevision = maxRevision
        self.epoch = epoch
        self.changeSets = changeSets
        self.isQuestion = isQuestion
        self.wantsRelated = wantsRelated
    }
}
