package import TidemarkCore

/// A committed change set as devices other than its author receive it.
///
/// A revision never changes, so a cached copy stays valid within one history. `chain` proves the
/// history: it is a hash of the change set and the previous chain, so the latest chain covers every
/// earlier byte. A cached run is trusted if it ends in the chain that the database has.
package struct RecentChangeSet: Hashable, Sendable, Codable {
    package let revision: Int64
    /// The author's device; nil for a program on the server.
    package let device: String?
    /// The fingerprint of the zone's rows at the revision, if it is known.
    package let fingerprint: Fingerprint?
    /// The hash of the history up to this revision.
    package let chain: String
    /// The change set, JSON.
    package let body: String

    package init(revision: Int64, device: String?, fingerprint: Fingerprint?, chain: String, body: String) {
        self.revision = revision
        self.device = device
        self.fingerprint = fingerprint
        self.chain = chain
        self.body = body
    }

    /// Makes an entry without a body; devices at this revision do not need the body.
    package init(startingAt revision: Int64, fingerprint: Fingerprint?, chain: String?) {
        self.init(revision: revision, device: nil, fingerprint: fingerprint, chain: chain ?? "", body: "")
    }

    package var hasBody: Bool { !body.isEmpty }

    /// Whether this entry continues a history with the chain `previous`.
    package func follows(_ previous: String) -> Bool {
        chain == Self.chain(after: previous, revision: revision, device: device, body: body)
    }

    package static func chain(after previous: String, revision: Int64, device: String?, body: String) -> String {
        var chain = Chain(after: previous, revision: revision)
        chain.take(body)
        return chain.text(device: device)
    }
}

/// A zone's state, as far as requests without change sets need it.
package struct ZoneHead: Hashable, Sendable {
    package let state: ZoneState
    /// The fingerprint of the zone's rows, if it is known.
    package let fingerprint: Fingerprint?
    /// The hash of the zone's history.
    package let chain: String
    /// Whether only a full request serves the device: notes of overruled values wait for it, or it was forgotten.
    package var hasMessages: Bool
    /// The latest revision with a note for any device.
    package let lastNoteRevision: Int64?

    package init(
        state: ZoneState, fingerprint: Fingerprint?, chain: String, hasMessages: Bool, lastNoteRevision: Int64? = nil
    ) {
        self.state = state
        self.fingerprint = fingerprint
        self.chain = chain
        self.hasMessages = hasMessages
        self.lastNoteRevision = lastNoteRevision
    }
}
