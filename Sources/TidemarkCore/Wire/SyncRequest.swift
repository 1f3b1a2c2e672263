/// A request without the records of its change sets.
package struct SyncRequest: Hashable, Sendable {
    /// One incoming change set, without its rows.
    package struct Envelope: Hashable, Sendable {
        /// Its index in the request.
        package let index: Int
        /// The id that makes a retry harmless, in lower case; nil in the short form.
        package let id: String?
        /// The ids of the change sets that this one depends on.
        package let after: [String]
        /// SHA-256 of its JSON, in lower-case hexadecimal.
        package let hash: String
        /// The time by its author's hybrid clock; nil when the author has no such clock.
        package let time: Int64?

        /// Makes an envelope.
        package init(index: Int, id: String?, after: [String], hash: String, time: Int64? = nil) {
            self.index = index
            self.id = id
            self.after = after
            self.hash = hash
            self.time = time
        }
    }

    /// The session nonces of a request, by which the server detects two files with one identity.
    package struct Lap: Hashable, Sendable {
        /// The nonce of the last answer that the device applied; nil before the first.
        package let last: String?
        /// The nonces of later requests that got no answer.
        package let open: [String]
        /// The nonce of this request; a retry has the same.
        package let next: String

        /// Makes a lap.
        package init(last: String?, open: [String], next: String) {
            self.last = last
            self.open = open
            self.next = next
        }

        /// Whether this request follows the last nonce that the server has from this device.
        package func follows(_ serverLast: String?) -> Bool {
            guard let serverLast, !serverLast.isEmpty else { return last == nil }
            return serverLast == next || serverLast == last || open.contains(serverLast)
        }
    }

    /// How much of the sender's own change sets the answer repeats.
    package enum Echo: String, Hashable, Sendable {
        /// The committed rows.
        case all
        /// Only the new ids, if the rows were committed as sent.
        case ids
    }

    /// A device's question about its own change sets before it adopts another history.
    package struct Question: Hashable, Sendable {
        /// Change sets without a verdict on the device; the server returns their verdicts.
        package let recall: [String]
        /// Change sets with a verdict on the device; the server returns the ids that it knows.
        package let known: [String]

        /// Makes a question.
        package init(recall: [String], known: [String]) {
            self.recall = recall
            self.known = known
        }
    }

    /// The device's revision: the base of every record without a base of its own.
    package var maxRevision: Int64
    /// The device's id; nil for an anonymous client.
    package private(set) var device: String?
    /// The epoch of the device's history.
    package let epoch: String?
    /// The hash of the device's schema.
    package let schema: String?
    /// The most revisions in the answer.
    package let limit: Int?
    /// The cursor of overruled values: the number of the last note that the device has applied.
    package let overruled: Int64
    /// Whether the device has applied the answers to all its change sets.
    package let isSettled: Bool
    /// Whether the device accepts a delta file in place of many change sets.
    package let takesDelta: Bool
    /// How much of the change sets the answer repeats; nil: the sender is a client without rows, and gets a verdict.
    package let echo: Echo?
    /// The session nonces, if the device uses them.
    package private(set) var lap: Lap?
    /// The tables for which the device wants ids for its next records.
    package private(set) var lend: [String]
    /// A question in place of change sets.
    package let question: Question?
    /// The fingerprint of the device's rows at `maxRevision`.
    package let fingerprint: Fingerprint?
    /// The change sets in the device's order.
    package private(set) var changeSets: [Envelope]

    /// Makes a request.
    package init(
        maxRevision: Int64,
        device: String?,
        epoch: String?,
        schema: String?,
        limit: Int?,
        overruled: Int64 = 0,
        fingerprint: Fingerprint? = nil,
        isSettled: Bool = false,
        takesDelta: Bool = false,
        echo: Echo? = .all,
        lap: Lap? = nil,
        lend: [String] = [],
        question: Question? = nil,
        changeSets: [Envelope]
    ) {
        self.maxRevision = maxRevision
        self.device = device
        self.epoch = epoch
        self.schema = schema
        self.limit = limit
        self.changeSets = changeSets
        self.overruled = overruled
        self.isSettled = isSettled
        self.lap = lap
        self.lend = lend
        self.question = question
        self.fingerprint = fingerprint
        self.takesDelta = takesDelta
        self.echo = echo
    }

    /// The base of a record without one of its own; a client without rows means it as it is when its turn comes.
    package var base: Int64 { echo == nil ? .max : maxRevision }

    /// The request without its device, which belongs to no anonymous caller.
    package var withoutDevice: SyncRequest {
        var request = self
        request.device = nil
        request.lap = nil
        request.lend = []
        return request
    }

    /// The request with the change sets of its body.
    package func with(changeSets: [Envelope]) -> SyncRequest {
        var request = self
        request.changeSets = changeSets
        return request
    }
}
