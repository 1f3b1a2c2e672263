public import TidemarkCore

/// A request's envelope.
///
/// Its rows stay with the store, which stages them in sets.
public struct SyncRequest: Hashable, Sendable {
    /// One incoming change set, without its rows.
    public struct Envelope: Hashable, Sendable {
        /// The number by which the store knows its staged rows.
        public let ord: Int
        /// Its index in the request.
        public let index: Int
        /// The id that makes a retry harmless, in lower case; nil in the short form.
        public let id: String?
        /// The ids of the change sets that this one depends on.
        public let after: [String]
        /// SHA-256 of its JSON, in lower-case hexadecimal.
        public let hash: String
        /// When it was made, by its author's hybrid clock; nil when its author keeps none.
        public let time: Int64?

        /// Makes an envelope.
        public init(ord: Int, index: Int, id: String?, after: [String], hash: String, time: Int64? = nil) {
            self.ord = ord
            self.index = index
            self.id = id
            self.after = after
            self.hash = hash
            self.time = time
        }
    }

    /// Which exchange of a device a request is: how two files with one identity are told apart.
    public struct Lap: Hashable, Sendable {
        /// The lap of the last answer that the device took in; nil before the first.
        public let last: String?
        /// The laps of requests since then that got no answer.
        public let open: [String]
        /// This request's own; a retry has the same.
        public let next: String

        /// Makes a lap.
        public init(last: String?, open: [String], next: String) {
            self.last = last
            self.open = open
            self.next = next
        }

        /// Whether a server that saw `seen` last from this device knows what the device knows.
        public func follows(_ seen: String?) -> Bool {
            guard let seen else { return last == nil }
            return seen == next || seen == last || open.contains(seen)
        }
    }

    /// What comes back of the sender's own change sets.
    public enum Echo: String, Hashable, Sendable {
        /// All that they became.
        case all
        /// The new ids alone, where everything else was committed as it was sent.
        case ids
        /// The new ids and what was overruled, whatever the rows became. Not a value of `echo`: a
        /// request says it by `"answer": "verdicts"`.
        case verdicts
    }

    /// What a device asks about its own change sets before it takes in another history.
    public struct Question: Hashable, Sendable {
        /// Change sets without a verdict on the device: their verdicts are wanted.
        public let recall: [String]
        /// Change sets that have one, which the server may have forgotten.
        public let known: [String]

        /// Makes a question.
        public init(recall: [String], known: [String]) {
            self.recall = recall
            self.known = known
        }
    }

    /// The revision that the device has: the base of every record that names none itself.
    public let maxRevision: Int64
    /// The device, when it says who it is.
    public let device: String?
    /// The history that the device knows.
    public let epoch: String?
    /// The hash of the zone's schema as the device knows it; for logs, nothing depends on it.
    public let schema: String?
    /// The most revisions that the device wants in the answer.
    public let limit: Int?
    /// How long to hold the request when there is nothing new, in milliseconds; nil: not at all.
    public let wait: Int?
    /// The number of the last note of overruled values that the device has taken in.
    public let overruled: Int64
    /// Whether every change set of the device has been answered, and the answer taken in.
    public let isSettled: Bool
    /// Whether the device takes a file of what has changed in place of many change sets.
    public let takesDelta: Bool
    /// What is to come back of the change sets.
    ///
    /// With `verdicts` that is the whole answer: the sender keeps no rows, and is told nothing of
    /// other revisions.
    public let echo: Echo
    /// The most related records that the sender wants with a refusal; nil: all that the server
    /// brings.
    public let related: Int?
    /// Which of the device's exchanges this is, when it keeps count.
    public let lap: Lap?
    /// A question in place of change sets.
    public let question: Question?
    /// The fingerprint of the device's rows at `maxRevision`.
    public let fingerprint: Fingerprint?
    /// The change sets in the device's order.
    public let changeSets: [Envelope]

    /// Makes a request.
    public init(
        maxRevision: Int64,
        device: String?,
        epoch: String?,
        schema: String?,
        limit: Int?,
        wait: Int? = nil,
        overruled: Int64 = 0,
        fingerprint: Fingerprint? = nil,
        isSettled: Bool = false,
        takesDelta: Bool = false,
        echo: Echo = .all,
        related: Int? = nil,
        lap: Lap? = nil,
        question: Question? = nil,
        changeSets: [Envelope]
    ) {
        self.maxRevision = maxRevision
        self.device = device
        self.epoch = epoch
        self.schema = schema
        self.limit = limit
        self.changeSets = changeSets
        self.wait = wait
        self.overruled = overruled
        self.isSettled = isSettled
        self.lap = lap
        self.question = question
        self.fingerprint = fingerprint
        self.takesDelta = takesDelta
        self.echo = echo
        self.related = related
    }
}
