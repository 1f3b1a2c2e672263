package import TidemarkCore

/// The effects of a commit, as entries of the log, as the text that devices get, and as a difference of fingerprints.
package struct RevisionEffects {
    private let revision: Int64
    private let schema: SyncSchema
    private let layouts: [RowLayout]
    /// The entries of the log, in the order of the effects.
    package private(set) var entries: [CommittedRevision.Entry] = []
    /// The records.
    private(set) var text: ChangeSetText
    /// By how much the rows' fingerprint changes.
    package private(set) var difference = Fingerprint.none
    private var buffer: [UInt8] = []

    /// Makes no effects.
    package init(revision: Int64, _ schema: SyncSchema) {
        self.revision = revision
        self.schema = schema
        layouts = schema.layouts
        text = ChangeSetText(schema)
    }

    /// Takes an effect on a record, which its author perhaps knows by another key.
    ///
    /// - Returns: The places of the columns that it sets: all for a creation, the changed ones for an update.
    @discardableResult package mutating func take(_ effect: Effect, authorsKey: String? = nil) -> [Int] {
        let layout = layouts[effect.table]
        let name = RecordID(table: effect.table, key: effect.key)
        let changed = Self.changedColumns(effect, layout)
        let operation = effect.operation
        entries.append(
            CommittedRevision.Entry(
                name: name,
                operation: operation,
                columns: operation == .update ? changed : [],
                before: effect.before
            )
        )
        if let before = effect.before { difference = difference - layout.hash(before, key: effect.key, &buffer) }
        guard let after = effect.after else {
            text.add(name, .delete)
            return []
        }
        difference += layout.hash(after, key: effect.key, &buffer)
        text.add(name, operation, row: after, columns: changed, revision: revision, authorsKey: authorsKey)
        return changed
    }

    private static func changedColumns(_ effect: Effect, _ layout: RowLayout) -> [Int] {
        guard let after = effect.after else { return [] }
        guard let before = effect.before else { return layout.valuePlaces }
        return layout.valuePlaces.filter { !before[$0].isSame(as: after[$0]) }
    }

    /// Returns the commit of another program's changes at a time of the server.
    package func outsideCommit(after head: CommitHead, at now: Int64) -> ZoneCommit {
        var clock = HybridClock(last: head.state.time)
        let stamp = Stamp(time: clock.next(at: now))
        let members = AnswerEnvelope(id: nil, revision: revision, time: schema.needsTimes ? stamp.time : nil)
        var hash = Chain(after: head.chain, revision: revision)
        let pieces = text.pieces(members.members)
        for piece in pieces { hash.take(piece) }
        let logged = CommittedRevision(
            revision: revision,
            envelope: nil,
            stamp: stamp,
            entries: entries,
            text: pieces,
            chain: hash.text(device: nil),
            fingerprint: head.fingerprint.map(carried),
            ids: "",
            authorsCopy: nil,
            isAsSent: false,
            permanentIDs: [],
            notes: []
        )
        var commit = ZoneCommit(zone: head.state.with(revision: revision, time: stamp.time))
        commit.revisions = [logged]
        return commit
    }

    /// Returns the fingerprint after the effects.
    func carried(_ fingerprint: Fingerprint) -> Fingerprint {
        planted(PlantedBug.carriesOldFingerprint) ? fingerprint : fingerprint + difference
    }
}
