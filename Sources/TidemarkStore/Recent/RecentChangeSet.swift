package import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// A committed change set as everybody but its author receives it.
///
/// A revision is never changed, so a copy of one is good for ever, if only it is of this history.
/// By its place in a chain that is told: `chain` is a hash of the change set and of the chain
/// before it, so the one of the latest revision stands for every byte of all of them. What a cache
/// holds is believed when it leads to the chain that the database has.
package struct RecentChangeSet: Hashable, Sendable, Codable {
    /// The revision.
    package let revision: Int64
    /// The device that made it; nil for a program on the server.
    package let device: String?
    /// The fingerprint of the zone's rows at the revision, as far as anybody knows.
    package let fingerprint: Fingerprint?
    /// The hash of the history up to here.
    package let chain: String
    /// The change set, JSON.
    package let body: String

    /// Makes a change set.
    package init(revision: Int64, device: String?, fingerprint: Fingerprint?, chain: String, body: String) {
        self.revision = revision
        self.device = device
        self.fingerprint = fingerprint
        self.chain = chain
        self.body = body
    }

    /// Makes what is known of a revision whose change set is not to be had: devices that are at it
    /// do not need that.
    package init(startingAt revision: Int64, fingerprint: Fingerprint?, chain: String?) {
        self.init(revision: revision, device: nil, fingerprint: fingerprint, chain: chain ?? "", body: "")
    }

    /// Whether the change set itself is here.
    package var hasBody: Bool { !body.isEmpty }

    /// Whether this is what came after a history of that chain.
    package func follows(_ previous: String) -> Bool {
        chain == Self.chain(after: previous, revision: revision, device: device, body: body)
    }

    /// The chain of a history to which a change set is added.
    package static func chain(after previous: String, revision: Int64, device: String?, body: String) -> String {
        var chain = Chain(after: previous, revision: revision)
        chain.take(body)
        return chain.text(device: device)
    }
}

/// The chain of a history to which a change set is added, whose text comes in pieces.
package struct Chain {
    private var hash = RunningHash()

    /// Begins behind a history of the chain `previous`.
    package init(after previous: String, revision: Int64) { take("\(previous)\n\(revision)\n") }

    /// Takes the next piece of the text.
    package mutating func take(_ piece: String) { hash.take(Array(piece.utf8)) }

    /// The chain, after the last piece.
    package func text(device: String?) -> String {
        // JSON has no line feed, and the device stands last: no two histories have one text.
        var ended = self
        ended.take("\n\(device ?? "")")
        return ended.hash.text
    }
}

/// What a zone is at, as far as a device that only asks needs it.
package struct ZoneHead: Hashable, Sendable {
    /// The zone.
    package let state: ZoneState
    /// The fingerprint of its rows, if it is known.
    package let fingerprint: Fingerprint?
    /// The hash of its history.
    package let chain: String
    /// Whether notes of overruled values are kept for the device.
    package var hasNotes: Bool
    /// The latest revision of which a note is kept, for whatever device.
    package let lastNoted: Int64?

    /// Makes a head.
    package init(state: ZoneState, fingerprint: Fingerprint?, chain: String, hasNotes: Bool, lastNoted: Int64? = nil) {
        self.state = state
        self.fingerprint = fingerprint
        self.chain = chain
        self.hasNotes = hasNotes
        self.lastNoted = lastNoted
    }
}
