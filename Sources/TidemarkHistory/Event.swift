/// Something that happened in a run, as somebody beside the code under test has seen it.
public struct Event: Sendable {
    /// When, in virtual seconds since the run began.
    public let time: Double
    /// What.
    public let kind: Kind

    /// Makes an event.
    public init(at time: Double, _ kind: Kind) { (self.time, self.kind) = (time, kind) }

    /// What can happen.
    ///
    /// `device` is a name that the recorder gives a *file*, not the UUID in it: a copy of a file is
    /// another device here, whatever it calls itself.
    public enum Kind: Sendable {
        /// Somebody altered the tables of a file, `server` or a device: they have these columns
        /// from now on. A new column has its default in every row. Told first before there are any
        /// rows; never told when no table ever changes.
        case altered(actor: String, Layout)
        /// A device's file is there, with these rows at this revision: the first event of a device.
        case joined(device: String, identity: String, epoch: String?, cursor: Int64, rows: [RowChange])
        /// A transaction of the app, or of any other program, in a device's file: what it did to
        /// the synced tables, with all cascades. Also what an app does to resolve a conflict.
        case edited(device: String, [RowChange])
        /// A transaction of the engine in a device's file.
        case stepped(DeviceStep)
        /// A request left a device.
        case sent(Request)
        /// The server ran a transaction.
        case served(ServerStep)
        /// The answer to a request reached the device, whether or not it is taken in afterwards.
        case delivered(device: String, request: Int)
        /// The server made a snapshot; all rows that are in the file.
        case snapshot(epoch: String, revision: Int64, rows: [RecordID: Cells])
        /// A process ended between two steps, or in one; what was not committed is gone.
        case crashed(actor: String)
        /// A process began again with the file as it was.
        case reopened(actor: String)
        /// A copy of a device's file was made: a backup, or a clone. The copy may act as a device
        /// of its own, or come back in the original's place.
        case copied(from: String, as: String)
        /// A device's file was replaced with a copy made earlier.
        case replaced(device: String, by: String)
        /// The server's file was replaced with a copy as of that revision; what it committed
        /// afterwards is forgotten, and said to be. The history goes on under `epoch`.
        case restored(epoch: String, revision: Int64)
        /// All rows of a file, read by plain `SELECT`: `server`, or a device.
        case dumped(actor: String, rows: [RecordID: Cells])
        /// The content hash that a product's own command prints; equal rows must have equal ones.
        case digested(actor: String, hash: String)
        /// Rows whose values the actor may never receive, by text that occurs in them only.
        case hidden(from: String, canaries: [String])
        /// Bytes that reached an actor.
        case received(actor: String, bytes: String)
        /// A size that has a cap in ``Rules/caps``: entries of a queue, bytes of an answer.
        case measured(actor: String, name: String, value: Int)
        /// Something that no honest peer sends reached an actor, which answered with that status,
        /// or threw that code; 5xx and `crash` are defects.
        case abused(actor: String, input: String, outcome: String)
        /// All faults have stopped; from now on everything must drain.
        case healed
        /// A device has nothing to send and nothing to fetch, after so many requests since
        /// `healed`.
        case drained(device: String, requests: Int)
        /// The run is over: what must be equal, is.
        case finished
    }
}

/// What a transaction of the engine left in a device's file.
///
/// The recorder compares the file before and after with plain `SELECT`s; `nil` means that a table
/// is as it was.
public struct DeviceStep: Sendable {
    /// The file.
    public let device: String
    /// What the engine did: `prepare`, `apply`, `snapshot`, `park`, `resolve`, for the reader.
    public let step: String
    /// The UUID that the file says it is.
    public let identity: String
    /// The history that the file knows.
    public let epoch: String?
    /// The revision that the file says it is at.
    public let cursor: Int64
    /// What became of the synced tables' rows.
    public let rows: [RowChange]
    /// The whole outbox, oldest first.
    public let outbox: [OutboxSet]?
    /// The whole conflict inbox.
    public let conflicts: [ParkedSet]?
    /// The pairs that the map of ids has gained.
    public let identities: [IdentityPair]
    /// How many captured changes are not in the outbox yet.
    public let captured: Int
    /// The conflicts, by change set id, that an app resolved in this step, which may leave the
    /// inbox therefore.
    public let resolved: [String]
    /// The layouts that the file's bookkeeping is fitted to since this step; nil: as before.
    public let fit: Fit?
    /// The device's wall clock, in milliseconds since 1970; nil: no policy asks it.
    public let wall: Int64?

    /// Layouts, each by its place, from 0, among those that were told of its side.
    public struct Fit: Sendable, Equatable {
        /// The file's own.
        public let own: Int
        /// The zone's, as the file knows it.
        public let zone: Int

        /// Makes a fit.
        public init(own: Int, zone: Int) { (self.own, self.zone) = (own, zone) }
    }

    /// Makes a step.
    public init(
        device: String,
        step: String,
        identity: String,
        epoch: String?,
        cursor: Int64,
        rows: [RowChange] = [],
        outbox: [OutboxSet]? = nil,
        conflicts: [ParkedSet]? = nil,
        identities: [IdentityPair] = [],
        captured: Int = 0,
        resolved: [String] = [],
        fit: Fit? = nil,
        wall: Int64? = nil
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
        self.captured = captured
        self.resolved = resolved
        self.fit = fit
        self.wall = wall
    }
}

/// A request as it left a device.
public struct Request: Sendable {
    /// The file that sent it.
    public let device: String
    /// Its number in the run; a request that is delivered twice keeps it.
    public let number: Int
    /// The revision that the device says it is at.
    public let maxRevision: Int64
    /// The history that it says it knows.
    public let epoch: String?
    /// The change sets in it, by id and as sent.
    public let changeSets: [(id: String, wire: String)]
    /// Whether it only asks for verdicts.
    public let isQuestion: Bool
    /// Whether a refusal is to bring the records that refer to those that it wanted to delete.
    public let wantsRelated: Bool

    /// Makes a request.
    public init(
        device: String,
        number: Int,
        maxRevision: Int64,
        epoch: String?,
        changeSets: [(id: String, wire: String)],
        isQuestion: Bool = false,
        wantsRelated: Bool = true
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
