/// A request that waits for a zone's next commit.
public struct ZoneRequest: Sendable {
    /// The kind of a request, with its content.
    package enum Kind: Sendable {
        /// A round of synchronisation, JSON.
        case sync([UInt8])
        /// Writes of a client without rows.
        case write(ClientWrites)
        /// A comparison of rows, by ``ComparisonHandler``, JSON.
        case fingerprints([UInt8])
    }

    /// The kind, with the content.
    package let kind: Kind
    /// The rights of its sender.
    package let access: ZoneAccess

    /// Makes a request.
    package init(_ kind: Kind, access: ZoneAccess) {
        self.kind = kind
        self.access = access
    }

    /// The text of the request; empty for one that is no text.
    package var text: [UInt8] {
        switch kind {
        case .sync(let text), .fingerprints(let text): text
        case .write: []
        }
    }

    /// The size of the request, in bytes.
    package var byteCount: Int {
        if case .write(let writes) = kind { writes.byteCount } else { text.count }
    }
}

/// The answer to a request, sent after its group is committed.
public struct ZoneAnswer: Hashable, Sendable {
    /// The content of an answer.
    package enum Content: Hashable, Sendable {
        /// A text, JSON.
        case text([UInt8])
        /// The answers to writes of a client without rows, in their order, or why none of them is done.
        case writes(Result<[WriteAnswer], Problem>)
    }

    /// The content for the sender.
    package let content: Content
    /// The counts of a request with change sets, or for them; nil for any other request.
    package let tally: SyncTally?
    /// The device that sent a sync request; nil if the request names none.
    package let device: String?
    /// The device's revision after the answer; nil for a question.
    package let revision: Int64?

    /// Makes an answer.
    package init(_ content: Content, tally: SyncTally? = nil, device: String? = nil, revision: Int64? = nil) {
        self.content = content
        self.tally = tally
        self.device = device
        self.revision = revision
    }

    /// Makes an answer of a text.
    package init(text: String, tally: SyncTally? = nil, device: String? = nil, revision: Int64? = nil) {
        self.init(.text(Array(text.utf8)), tally: tally, device: device, revision: revision)
    }

    /// The text; empty for the answers to writes.
    package var text: [UInt8] { if case .text(let text) = content { text } else { [] } }
}

/// The answer to a request, or the error that refuses it.
package typealias ZoneResult = Result<ZoneAnswer, any Error>

/// Counts of one sync request, for metrics.
package struct SyncTally: Hashable, Sendable {
    /// The change sets that became revisions.
    package var accepted = 0
    /// The change sets that were refused as conflicts.
    package var conflicts = 0
    /// The change sets that had a stored verdict.
    package var repeats = 0
    /// How many revisions the device was behind the zone; nil for a question.
    package var lag: Int64?

    /// Makes a tally of zeros.
    package init() {}
}
