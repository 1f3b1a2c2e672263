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
        let base: Int64
        /// The revisions of the author's own earlier change sets.
        let seen: SeenRevisions
    }

    let decided: Decided
    private let schema: SyncSchema
    private var effects: RevisionEffects
    /// Whether every effect so far is as the change set says.
    private var isAsSent = true
    /// Whether each named record has had an effect.
    private var touched: [Bool]
    /// The named records that do not exist any more.
    private(set) var vanished: [Int] = []
    /// The records that the change set does not name.
    private(set) var cascaded: [(name: RecordID, operation: Operation)] = []

    init(_ decided: Decided, _ schema: SyncSchema) {
        self.decided = decided
        self.schema = schema
        effects = RevisionEffects(revision: decided.revision, schema)
        touched = Array(repeating: false, count: decided.changeSet.records.count)
    }

    /// Takes an effect; `index` is that of the record of the change set, nil for a record that it does not name.
    mutating func take(_ effect: Effect, of index: Int?) throws {
        let sent = index.map { decided.changeSet.records[$0] }
        let changed = effects.take(
            effect, authorsKey: sent?.authorsKey, sent: sent?.attributes.map { (decided.changeSet.reader, $0) })
        guard let index else {
            cascaded.append((RecordID(table: effect.table, key: effect.key), effect.operation))
            isAsSent = false
            return
        }
        touched[index] = true
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
    var untouched: [Int] { touched.indices.filter { !touched[$0] } }

    /// Ends the revision; `authorsCopy` makes the author's copy of the whole change set.
    func finish(after chain: String, fingerprint: Fingerprint?, overruled: OverruledValues = OverruledValues())
        -> (revision: CommittedRevision, authorsCopy: () -> String)
    {
        let decided = decided
        let members = AnswerEnvelope(
            id: decided.envelope.id, revision: decided.revision, time: schema.needsTimes ? decided.stamp.time : nil)
        var hash = Chain(after: chain, revision: decided.revision)
        let text = RevisionText(effects.text, envelope: members.members) { hash.take($0) }
        var authors = members
        authors.overruled = overruled.own
        let authorsText = authorsText
        let copy = { authorsText.text(authors.members, forAuthor: true) }
        let hasOverruled = !decided.overrulings.isEmpty && !overruled.own.isEmpty
        let revision = CommittedRevision(
            revision: decided.revision, envelope: decided.envelope, stamp: decided.stamp, entries: effects.entries,
            text: text, chain: hash.text(device: decided.stamp.device), fingerprint: fingerprint.map(effects.carried),
            ids: idsText.text(authors.members, forAuthor: true), authorsCopy: hasOverruled ? copy() : nil,
            isAsSent: isAsSent && !hasOverruled && untouched.isEmpty,
            permanentIDs: decided.permanentIDs, notes: planted(PlantedBug.tellsNoLosers) ? [] : overruled.notes)
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

    private func name(_ record: PendingChangeSet.Record) -> RecordID { RecordID(table: record.table, key: record.key) }
}

/// The effects of a commit, as entries of the log, as the text that devices get, and as a difference of fingerprints.
package struct RevisionEffects {
    private let revision: Int64
    private let schema: SyncSchema
    private let layouts: [RowLayout]
    /// The entries of the log, in the order of the effects.
    package private(set) var entries: [CommittedRevision.Entry] = []
    private(set) var text: ChangeSetText
    /// By how much the rows' fingerprint changes.
    package private(set) var difference = Fingerprint.none
    private var buffer: [UInt8] = []

    package init(revision: Int64, _ schema: SyncSchema) {
        self.revision = revision
        self.schema = schema
        layouts = schema.layouts
        text = ChangeSetText(schema)
    }

    /// Takes an effect, and returns the places of the columns that it sets: all for a creation, changed for an update.
    @discardableResult package mutating func take(
        _ effect: Effect, authorsKey: String? = nil, sent: (request: JSONReader, attributes: Range<Int>)? = nil
    ) -> [Int] {
        let layout = layouts[effect.table]
        let name = RecordID(table: effect.table, key: effect.key)
        let changed = Self.changedColumns(effect, layout)
        let operation = effect.operation
        entries.append(
            CommittedRevision.Entry(
                name: name, operation: operation, columns: operation == .update ? changed : [], before: effect.before))
        if let before = effect.before { difference = difference - layout.hash(before, key: effect.key, &buffer) }
        guard let after = effect.after else {
            text.add(name, .delete)
            return []
        }
        difference += layout.hash(after, key: effect.key, &buffer)
        text.add(
            name, operation, row: after, columns: changed, revision: revision, authorsKey: authorsKey, sent: sent)
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
        let text = RevisionText(text, envelope: members.members) { hash.take($0) }
        let logged = CommittedRevision(
            revision: revision, envelope: nil, stamp: stamp, entries: entries, text: text,
            chain: hash.text(device: nil), fingerprint: head.fingerprint.map(carried), ids: "", authorsCopy: nil,
            isAsSent: false, permanentIDs: [], notes: [])
        var commit = ZoneCommit(zone: head.state.with(revision: revision, time: stamp.time), at: now)
        commit.revisions = [logged]
        return commit
    }

    /// Returns the fingerprint after the effects.
    func carried(_ fingerprint: Fingerprint) -> Fingerprint {
        planted(PlantedBug.carriesOldFingerprint) ? fingerprint : fingerprint + difference
    }
}

/// The values that a column's policy overrules, for the people who wrote them.
///
/// A losing value of the change set goes into the author's copy. A value that it replaces goes into a note for the
/// device that wrote it. If a program on the server wrote the replaced value, it goes into the author's copy, too.
struct OverruledValues {
    /// The records for the author's copy, a JSON object each.
    var own: [String] = []
    /// The notes for other devices, a JSON array of records each.
    var notes: [(device: String, records: String)] = []

    init() {}

    /// Takes lost values out and returns them as canonical JSON; a creation of an existing record becomes an update.
    static func drop(_ overrulings: [Overruling], from changeSet: inout PendingChangeSet, _ schema: SyncSchema) throws
        -> [RecordID: [String: String]]
    {
        let byName = Dictionary(
            uniqueKeysWithValues: overrulings.compactMap { overruling in
                schema.places[overruling.contention.table].map {
                    (RecordID(table: $0, key: overruling.contention.key), overruling)
                }
            }
        )
        var lost: [RecordID: [String: String]] = [:]
        for index in changeSet.records.indices {
            let record = changeSet.records[index]
            let name = RecordID(table: record.table, key: record.key)
            guard let overruling = byName[name] else { continue }
            for (place, column) in Array(changeSet.columns(of: record)) where overruling.mine.contains(column.name) {
                if changeSet.delta(at: place) == nil {
                    lost[name, default: [:]][column.name] = String(
                        decoding: try changeSet.value(at: place).canonicalJSON, as: UTF8.self)
                }
                changeSet.overrule(at: place)
            }
            if record.operation == .create { changeSet.records[index].operation = .update }
        }
        return lost
    }

    /// Makes the values of a written change set from the rows before and after.
    init(
        _ overrulings: [Overruling], mine: [RecordID: [String: String]], before: [RecordID: [Value]],
        after: [RecordID: [Value]], author: String?, _ schema: SyncSchema
    ) {
        var byLoser: [String: [String]] = [:]
        for overruling in overrulings {
            guard let place = schema.places[overruling.contention.table] else { continue }
            let name = RecordID(table: place, key: overruling.contention.key)
            let record = Record(name, schema, before: before[name], after: after[name])
            let lost = mine[name] ?? [:]
            let byDevice = Dictionary(grouping: overruling.theirs) {
                overruling.contention.holder(of: $0)?.stamp.device
            }
            for (device, columns) in byDevice.sorted(by: { $0.key ?? "" < $1.key ?? "" }) {
                guard let object = record.object(Set(columns), lost: record.valueBefore) else { continue }
                if let device, device != author {
                    byLoser[device, default: []].append(object)
                } else {
                    own.append(object)
                }
            }
            if let object = record.object(overruling.mine.filter { lost[$0] != nil }, lost: { lost[$0] }) {
                own.append(object)
            }
        }
        notes = byLoser.sorted { $0.key < $1.key }.map { ($0.key, "[\($0.value.joined(separator: ","))]") }
    }

    private struct Record {
        let name: RecordID
        let table: SyncedTable
        let layout: RowLayout
        let before: [Value]?
        let after: [Value]?

        init(_ name: RecordID, _ schema: SyncSchema, before: [Value]?, after: [Value]?) {
            self.name = name
            table = schema.tables[name.table]
            layout = schema.layouts[name.table]
            self.before = before
            self.after = after
        }

        func valueBefore(_ column: String) -> String? { value(column, of: before) }

        private func value(_ column: String, of row: [Value]?) -> String? {
            guard let row, let place = table.columns.firstIndex(where: { $0.name == column }) else { return nil }
            return String(decoding: row[place].canonicalJSON, as: UTF8.self)
        }

        /// Returns lost and winning values as a JSON object; of a deleted record the whole row, to create it again.
        func object(_ columns: Set<String>, lost: (String) -> String?) -> String? {
            let columns = columns.sorted()
            guard !columns.isEmpty else { return nil }
            let members = { (value: (String) -> String?) in
                columns.compactMap { column in
                    value(column).map { "\(JSONText.quote(WireName.member(column: column))):\($0)" }
                }.joined(separator: ",")
            }
            let keptMember =
                after == nil
                ? #""kept":null,"row":\#(before.map(layout.object) ?? "{}")"#
                : #""kept":{\#(members { value($0, of: after) })}"#
            return #"{"table":\#(JSONText.quote(table.name)),"key":\#(name.key),"#
                + #""lost":{\#(members(lost))},\#(keptMember)}"#
        }
    }
}

/// The envelope of a change set in an answer.
package struct AnswerEnvelope {
    package let id: String?
    package var revision: Int64?
    package var time: Int64?
    /// The reasons of a conflict; nil for an accepted change set.
    package var reasons: [ConflictReason]?
    /// Records with overruled values, JSON each.
    package var overruled: [String] = []

    /// The JSON members, in the order of the wire format.
    package var members: [String] {
        var members: [String] = []
        if let id { members.append(#""id":"\#(id)""#) }
        if let revision { members.append(#""revision":\#(revision)"#) }
        if let time { members.append(#""time":\#(time)"#) }
        members.append(#""conflict":\#(reasons != nil)"#)
        if let reasons { members.append(#""reasons":[\#(reasons.map(json).joined(separator: ","))]"#) }
        if !overruled.isEmpty { members.append(#""overruled":[\#(overruled.joined(separator: ","))]"#) }
        return members
    }

    private func json(_ reason: ConflictReason) -> String {
        let columns = reason.columns.map(JSONText.quote).joined(separator: ",")
        let key = reason.key.isEmpty ? "" : #""key":\#(reason.key),"#
        return #"{"table":\#(JSONText.quote(reason.table)),\#(key)"columns":[\#(columns)],"#
            + #""rule":"\#(reason.rule)","message":\#(JSONText.quote(reason.message))}"#
    }
}
