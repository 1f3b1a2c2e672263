/// A request's envelope.
///
/// Its rows stay with the store, which stages them in sets.
public struct SyncRequest: Hashable, Sendable {
    /// One incoming change set, without its rows.
    public struct Envelope: Hashable, Sendable {
        /// Its index in the request, by which the store knows its staged rows.
        public let ord: Int
        /// The id that makes a retry harmless, in lower case; nil in the short form.
        public let id: String?
        /// The ids of the change sets that this one depends on.
        public let after: [String]
        /// SHA-256 of its JSON, in lower-case hexadecimal.
        public let hash: String
        /// When it was made, by its author's hybrid clock; nil when its author keeps none.
        public let time: Int64?

        /// Makes an envelope.
        public init(ord: Int, id: String?, after: [String], hash: String, time: Int64? = nil) {
            (self.ord, self.id, self.after, self.hash) = (ord, id, after, hash)
            self.time = time
        }
    }

    /// Which exchange of a device a request is: how two files with one identity are told apart.
    public struct Lap: Hashable, Sendable {
        /// What the server may have last from this device: the lap of the last answer, and those of
        /// requests that got none.
        public let previous: [String]
        /// This request's own; a retry has the same.
        public let next: String

        /// Makes a lap.
        public init(previous: [String], next: String) {
            (self.previous, self.next) = (previous, next)
        }
    }

    /// What a device asks about its own change sets before it takes in another history.
    public struct Question: Hashable, Sendable {
        /// Change sets without a verdict on the device: their verdicts are wanted.
        public let recall: [String]
        /// Change sets that have one, which the server may have forgotten.
        public let known: [String]

        /// Makes a question.
        public init(recall: [String], known: [String]) {
            (self.recall, self.known) = (recall, known)
        }
    }

    /// The revision that the device has: the base of every record that names none itself.
    public let maxRevision: Int64
    /// The device, when it says who it is.
    public let device: String?
    /// The history that the device knows.
    public let epoch: String?
    /// The hash of the shape of the device's tables.
    public let schema: String?
    /// The most revisions that the device wants in the answer.
    public let limit: Int?
    /// The number of the last note of overruled values that the device has taken in.
    public let overruled: Int64
    /// Which of the device's exchanges this is, when it keeps count.
    public let lap: Lap?
    /// A question in place of change sets.
    public let question: Question?
    /// The change sets in the device's order.
    public let changeSets: [Envelope]

    /// Makes a request.
    public init(
        maxRevision: Int64,
        device: String?,
        epoch: String?,
        schema: String?,
        limit: Int?,
        overruled: Int64 = 0,
        lap: Lap? = nil,
        question: Question? = nil,
        changeSets: [Envelope]
    ) {
        (self.maxRevision, self.device, self.epoch) = (maxRevision, device, epoch)
        (self.schema, self.limit, self.changeSets) = (schema, limit, changeSets)
        self.overruled = overruled
        (self.lap, self.question) = (lap, question)
    }
}
