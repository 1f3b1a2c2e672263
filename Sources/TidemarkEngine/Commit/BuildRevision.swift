package import TidemarkCore

/// A revision in the making: a change set, and what its write did to the rows.
struct BuildRevision {
    /// A change set that is accepted and not written yet.
    struct Decided {
        let envelope: SyncRequest.Envelope
        /// The change set with its final names and values.
        var changeSet: PendingChangeSet
        let revision: Int64
        let stamp: Stamp
        let permanentIDs: [(name: TemporaryName, id: Int64)]
        /// The records in which a policy chose between two values.
        var overrulings: [Overruling] = []
        /// The author's base.
        let base: Int64
        /// The revisions of the author's own earlier change sets.
        let seen: Set<Int64>
        /// The revisions of the change set's ancestors.
        let ancestors: [Int64]
    }

    let decided: Decided
    private let schema: SyncSchema
    private var effects: RevisionEffects
    /// Whether every effect so far is as the change set says.
    private var isAsSent = true
    /// The named records that have had an effect.
    private var touched: Set<Int> = []
    /// The named records that do not exist any more.
    private(set) var vanished: [Int] = []
    /// The records that the change set does not name.
    private(set) var cascaded: [(name: RecordID, operation: Operation)] = []

    init(_ decided: Decided, _ schema: SyncSchema) {
        self.decided = decided
        self.schema = schema
        effects = RevisionEffects(revision: decided.revision, schema)
    }

    /// Takes an effect; `index` is that of the record of the change set, nil for a record that it does not name.
    mutating func take(_ effect: Effect, of index: Int?) throws {
        let changed = effects.take(effect, authorsKey: index.flatMap { decided.changeSet.records[$0].authorsKey })
        guard let index else {
            cascaded.append((RecordID(table: effect.table, key: effect.key), effect.operation))
            isAsSent = false
            return
        }
        touched.insert(index)
        if effect.after == nil { vanished.append(index) }
        if isAsSent { isAsSent = try equals(effect, index: index, changed: changed) }
    }

    /// Whether an effect is what the change set says of its record.
    private func equals(_ effect: Effect, index: Int, changed: [Int]) throws -> Bool {
        let changeSet = decided.changeSet
        let record = changeSet.records[index]
        guard record.operation == effect.operation else { return false }
        guard let after = effect.after else { return true }
        var count = 0
        for (place, column) in changeSet.columns(of: record) {
            guard changeSet.delta(at: place) == nil else { return false }
            guard try changeSet.value(at: place).isSame(as: after[column.place]), changed.contains(column.place) else {
                return false
            }
            count += 1
        }
        return count == changed.count
    }

    /// Returns the indexes of the named records without an effect.
    var untouched: [Int] { decided.changeSet.records.indices.filter { !touched.contains($0) } }

    // MARK: The revision

    /// Ends the revision.
    ///
    /// - Returns: The revision, and the author's copy of the whole change set.
    func finish(after chain: String, fingerprint: Fingerprint?, overruled: OverruledValues = OverruledValues())
        -> (revision: CommittedRevision, authorsCopy: () -> String)
    {
        let decided = decided
        let members = AnswerEnvelope(
            id: decided.envelope.id,
            revision: decided.revision,
            time: schema.needsTimes ? decided.stamp.time : nil
        )
        var hash = Chain(after: chain, revision: decided.revision)
        let pieces = effects.text.pieces(members.members)
        for piece in pieces { hash.take(piece) }
        var authors = members
        authors.overruled = overruled.own
        let authorsText = authorsText
        let copy = { authorsText.text(authors.members, forAuthor: true) }
        let hasOverruled = !decided.overrulings.isEmpty && !overruled.own.isEmpty
        let revision = CommittedRevision(
            revision: decided.revision,
            envelope: decided.envelope,
            stamp: decided.stamp,
            entries: effects.entries,
            text: pieces,
            chain: hash.text(device: decided.stamp.device),
            fingerprint: fingerprint.map(effects.carried),
            ids: idsText.text(authors.members, forAuthor: true),
            authorsCopy: hasOverruled ? copy() : nil,
            isAsSent: isAsSent && !hasOverruled && touched.count == decided.changeSet.records.count,
            permanentIDs: decided.permanentIDs,
            notes: planted(PlantedBug.tellsNoLosers) ? [] : overruled.notes
        )
        return (revision, copy)
    }

    /// The text with the records whose keys the author spells in another way, although they did not change otherwise.
    private var authorsText: ChangeSetText {
        var text = effects.text
        for index in untouched {
            let record = decided.changeSet.records[index]
            guard let key = record.authorsKey, record.operation == .update,
                schema.tables[record.table].keyKind != .integer
            else { continue }
            text.addForAuthor(name(record), .update, key: key, revision: decided.revision)
        }
        return text
    }

    /// The verdict, with the keys of records that their author spells in another way, such as by a temporary id.
    var verdict: WriteVerdict {
        var keys: [WriteVerdict.Name: String] = [:]
        for record in decided.changeSet.records where record.operation != .delete {
            guard let key = record.authorsKey else { continue }
            keys[.init(table: schema.tables[record.table].name, key: key)] = record.key
        }
        return .committed(revision: decided.revision, keys: keys)
    }

    /// The change set with only the ids of its new records.
    private var idsText: ChangeSetText {
        var text = ChangeSetText(schema)
        for record in decided.changeSet.records where record.operation != .delete {
            guard let key = record.authorsKey else { continue }
            text.addForAuthor(name(record), record.operation, key: key, revision: nil)
        }
        return text
    }

    private func name(_ record: PendingChangeSet.Record) -> RecordID {
        RecordID(table: record.table, key: record.key)
    }
}

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
                before: effect.before,
                mayBeUnlogged: effect.mayBeUnlogged
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
        var commit = ZoneCommit(zone: head.state.with(revision: revision, time: stamp.time), at: now)
        commit.revisions = [logged]
        return commit
    }

    /// Returns the fingerprint after the effects.
    func carried(_ fingerprint: Fingerprint) -> Fingerprint {
        planted(PlantedBug.carriesOldFingerprint) ? fingerprint : fingerprint + difference
    }
}
