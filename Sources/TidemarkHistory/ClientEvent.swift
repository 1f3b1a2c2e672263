/// Writes that a client without rows sends over REST, as the client means them.
///
/// The recorder reads them from the request to the REST interface, not from the change set that the server makes of it.
package struct Offer: Sendable {
    /// The base of a write with `If-Match: *`: every state counts as seen.
    package static let anyState = Int64.max

    /// The name of the client.
    package let client: String
    /// The `Idempotency-Key`, which is the id of the change set.
    package let id: String
    /// The changes in the client's order.
    ///
    /// `base` is the revision of the tag in `If-Match`, or ``anyState``; nil for a creation. A new record whose id the
    /// server gives has a temporary one.
    package let changes: [RecordChange]
    /// The revision at which the client last saw each record whole.
    package let sights: [RecordID: Int64]
    /// The revision in `Tidemark-Seen`.
    package let seen: Int64?
    /// The client's change sets that have an answer.
    package let answered: Set<String>

    /// Makes an offer.
    package init(
        client: String, id: String, changes: [RecordChange], sights: [RecordID: Int64] = [:], seen: Int64? = nil,
        answered: Set<String> = []
    ) {
        self.client = client
        self.id = id
        self.changes = changes
        self.sights = sights
        self.seen = seen
        self.answered = answered
    }
}

/// A record as an answer over REST shows it.
package struct ShownRecord: Sendable {
    /// The record.
    package let record: RecordID
    /// The revision in its tag; nil if the client wanted no record and the answer has no tag either.
    package let revision: Int64?
    /// Its columns, with those of the key; nil if the answer has the tag alone.
    package let cells: Cells?

    /// Makes a record.
    package init(_ record: RecordID, revision: Int64?, cells: Cells?) {
        self.record = record
        self.revision = revision
        self.cells = cells
    }
}

/// The server's answer to offered writes, whether or not it arrives.
package struct OfferAnswer: Sendable {
    /// What became of the writes.
    package enum Outcome: Sendable {
        /// They are done; the entries are the records in the order of the writes, nil for one that is gone.
        case done([ShownRecord?])
        /// Nothing is done.
        case refused(Refusal)
    }

    /// A refusal of all writes.
    package struct Refusal: Sendable {
        /// The code of the error.
        package let code: String
        /// The records that the reasons name, and the rule of each.
        package let reasons: [(record: RecordID, rule: String)]
        /// The record in the error's place.
        package let place: RecordID?
        /// The present record, if the refusal shows it.
        package let current: ShownRecord?

        /// Makes a refusal.
        package init(
            code: String, reasons: [(record: RecordID, rule: String)] = [], place: RecordID? = nil,
            current: ShownRecord? = nil
        ) {
            self.code = code
            self.reasons = reasons
            self.place = place
            self.current = current
        }
    }

    /// The id of the change set.
    package let id: String
    /// What became of the writes.
    package let outcome: Outcome

    /// Makes an answer.
    package init(id: String, _ outcome: Outcome) {
        self.id = id
        self.outcome = outcome
    }
}

/// The server's answer to a question over REST: some records at one revision.
package struct Sight: Sendable {
    /// The name of the client.
    package let client: String
    /// The revision of the answer; nil if the answer does not say it.
    package let revision: Int64?
    /// The records.
    package let records: [ShownRecord]
    /// The records that the answer says are not there.
    package let absent: [RecordID]

    /// Makes a sight.
    package init(client: String, revision: Int64? = nil, records: [ShownRecord] = [], absent: [RecordID] = []) {
        self.client = client
        self.revision = revision
        self.records = records
        self.absent = absent
    }
}
