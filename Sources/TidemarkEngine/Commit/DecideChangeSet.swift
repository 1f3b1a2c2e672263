import TidemarkCore

/// The decision about a change set, before anything is written.
enum Decision {
    case accept(BuildRevision.Decided)
    case refuse([ConflictReason])
}

extension GroupRun {
    /// Decides by rules, rows and log; throws ``NotSeparate`` if the run changes the facts, or an error if invalid.
    mutating func decide(_ index: Int, _ turn: Turn) throws -> Decision {
        if planted(PlantedBug.refusesEverything) { throw TidemarkError(.constraintViolated, "No.", fix: "Give up.") }
        let assigner = ledger.assigner
        do {
            let decision = try judged(index, turn)
            if case .refuse = decision { ledger.assigner = assigner }
            return decision
        } catch {
            ledger.assigner = assigner
            if case Violation.refusal(let refusal) = error { throw refusal }
            throw error
        }
    }

    private mutating func judged(_ index: Int, _ turn: Turn) throws -> Decision {
        let request = turn.request
        let envelope = request.changeSets[index]
        let ancestry = try ancestry(of: envelope.after, turn)
        guard turn.incoming.access.role >= .writer else {
            return .refuse([ConflictReason(table: "", key: "", columns: [], rule: .forbidden)])
        }
        // Check this first: the change set may use temporary ids of the refused one.
        guard !ancestry.isRefused else {
            return .refuse([ConflictReason(table: "", key: "", columns: [], rule: .predecessor)])
        }
        var changeSet = turn.incoming.changeSets[index]
        let permanentIDs = try identities.assign(to: changeSet, known: turn.ids) { try takeID(of: $0) }
        let newIDs = Dictionary(permanentIDs.map { ($0.name, $0.id) }) { $1 }
        try identities.rename(&changeSet, requiresAll: true) { newIDs[$0] ?? turn.ids[$0] }
        guard run.footprint.isSeparate(changeSet), run.isEmpty || !mayRespell(changeSet) else { throw NotSeparate() }
        try spell(&changeSet)
        let own = SeenRevisions(ancestors: ancestry.revisions, accepted: turn.accepted)
        let seen = planted(PlantedBug.forgetsOwnCommits) ? SeenRevisions() : own
        let stamp = turn.stamps[index]
        let overrulings: [Overruling]
        do {
            let contentions = try contentions(of: &changeSet, base: request.base, seen: seen, stamp: stamp)
            overrulings = try judgeAll(contentions, by: policies(of:))
        } catch Violation.conflict(let reasons) { return .refuse(reasons) }
        return .accept(
            BuildRevision.Decided(
                envelope: envelope, changeSet: changeSet,
                revision: ledger.state.revision + Int64(run.elements.count) + 1, stamp: stamp,
                permanentIDs: permanentIDs, overrulings: overrulings, base: request.base, seen: seen))
    }

    /// Returns the conflict policies of a table and of its columns that have their own.
    func policies(of table: String) -> (table: ConflictPolicy, columns: [String: ConflictPolicy]) {
        (schema.policy(of: table), schema.columnPolicies(of: table))
    }

    /// Returns the ancestors of a change set; some may not be written yet.
    private func ancestry(of after: [String], _ turn: Turn) throws -> Ancestry {
        guard !after.isEmpty, !planted(PlantedBug.ignoresAfter) else { return Ancestry() }
        let written = after.filter { turn.ancestors[$0] == nil }
        var ancestry = written.isEmpty ? Ancestry() : try zone.ancestry(of: written)
        for case let revisions? in after.map({ turn.ancestors[$0] }) where revisions != ancestry.revisions {
            ancestry.revisions = ancestry.revisions.isEmpty ? revisions : ancestry.revisions.union(revisions)
        }
        return ancestry
    }

    private mutating func takeID(of table: Int) throws -> Int64 {
        // The assigner is taken out, so that the wishes can be counted meanwhile.
        var assigner = ledger.assigner
        defer { ledger.assigner = assigner }
        return try assigner.take(of: table, wishes, in: zone)
    }

    /// What the change sets of the group want of the tables' ids.
    private var wishes: [Int: Identities.Assigner.Wish] {
        var wishes: [Int: Identities.Assigner.Wish] = [:]
        for incoming in requests {
            for (changeSet, envelope) in zip(incoming.changeSets, incoming.request.changeSets)
            where !isDecided(envelope) {
                for record in changeSet.records where record.operation == .create {
                    guard schema.tables[record.table].keyKind == .integer, let id = Int64(record.key) else { continue }
                    if identities.temporaryKey(record) != nil {
                        wishes[record.table, default: .init()].count += 1
                    } else if id > 0 {
                        wishes[record.table, default: .init()].chosen.insert(id)
                    }
                }
            }
        }
        return wishes
    }

    func isDecided(_ envelope: SyncRequest.Envelope) -> Bool {
        envelope.id.map { ledger.facts.verdicts[$0] != nil } ?? false
    }

    // MARK: Spellings

    func mayRespell(_ changeSet: PendingChangeSet) -> Bool {
        changeSet.records.contains { zone.mayRespell(RecordID(table: $0.table, key: $0.key)) }
    }

    /// Replaces keys by the stored spelling.
    ///
    /// A database converts values before it compares keys: 9 finds the row 9.0 of a REAL key, and 'ABC' the row 'abc'
    /// of a key that ignores case. But the log is searched by the key's text. With another spelling, the server would
    /// miss other devices' changes. A program that saves a record under another spelling deletes and creates it: if
    /// both keys become one, that is an update.
    func spell(_ changeSet: inout PendingChangeSet) throws {
        var changes: [RecordID: Operation] = [:]
        for record in changeSet.records {
            let name = RecordID(table: record.table, key: record.key)
            if zone.mayRespell(name) { changes[name] = record.operation }
        }
        guard !changes.isEmpty else { return }
        let stored = try zone.storedKeys(changes)
        guard !stored.isEmpty else { return }
        for index in changeSet.records.indices {
            let record = changeSet.records[index]
            guard let key = stored[RecordID(table: record.table, key: record.key)] else { continue }
            if record.operation == .create { changeSet.records[index].authorsKey = record.authorsKey ?? record.key }
            changeSet.records[index].key = key
        }
        try mergeReplacements(in: &changeSet)
    }

    /// Merges the deletion of a record and its creation under another spelling.
    private func mergeReplacements(in changeSet: inout PendingChangeSet) throws {
        var places: [RecordID: Int] = [:]
        var merged: Set<Int> = []
        for index in changeSet.records.indices {
            let record = changeSet.records[index]
            let name = RecordID(table: record.table, key: record.key)
            guard let other = places.updateValue(index, forKey: name) else { continue }
            let operations = [record.operation, changeSet.records[other].operation]
            let created = record.operation == .create ? index : other
            let deleted = created == index ? other : index
            guard operations.contains(.create), operations.contains(.delete) else {
                throw TidemarkError(
                    .malformedRequest, "A record appears twice in one change set, its key spelled in two ways.",
                    fix: "List each key once, in one of create, update and delete.",
                    place: .init(table: schema.tables[record.table].name, key: record.key))
            }
            changeSet.records[created].operation = .update
            changeSet.records[created].base = changeSet.records[deleted].base
            merged.insert(deleted)
        }
        guard !merged.isEmpty else { return }
        changeSet.records = changeSet.records.indices.filter { !merged.contains($0) }.map { changeSet.records[$0] }
    }

    /// Replaces values of contended records by the stored spelling, and leaves out those that are no edits.
    ///
    /// A program that writes a whole row spells untouched values in its own way, such as a moment without its zone. As
    /// texts they would differ from the server's values. A value of an update that is only spelled in another way than
    /// the value at the author's base is no edit: written, it would undo another author's change.
    private func spellValues(
        in changeSet: inout PendingChangeSet, _ contended: [Int: ContendedRecord], seen: SeenRevisions
    ) throws {
        var places: [(index: Int, place: Int, column: String)] = []
        var values: [ColumnValue] = []
        for (index, present) in contended {
            let record = changeSet.records[index]
            guard present.exists, record.operation != .delete else { continue }
            for (place, column) in changeSet.columns(of: record) where changeSet.delta(at: place) == nil {
                places.append((index, place, column.name))
                values.append(
                    ColumnValue(table: record.table, column: column.place, value: try changeSet.value(at: place)))
            }
        }
        guard !values.isEmpty else { return }
        for ((index, place, column), (sent, stored)) in zip(places, zip(values, try zone.storedValues(values))) {
            // The write finds a value that the database does not take.
            guard let stored, !stored.isSame(as: sent.value) else { continue }
            let isUpdate = changeSet.records[index].operation == .update
            if isUpdate, let present = contended[index],
                present.replaced(column, unless: seen) == Fingerprint(hashOf: stored.canonicalJSON).hex
            {
                changeSet.overrule(at: place)
            } else {
                changeSet.replace(at: place, by: stored)
            }
        }
    }

    // MARK: Contentions

    /// The most records that are looked up at once.
    private static var lookedUpMax: Int { 10_000 }

    private func contentions(of changeSet: inout PendingChangeSet, base: Int64, seen: SeenRevisions, stamp: Stamp)
        throws
        -> [Contention]
    {
        if planted(PlantedBug.skipsBaseCheck) { return [] }
        var contended: [Int: ContendedRecord] = [:]
        // So many records at once, so that a large change set needs no second copy of its keys.
        for first in stride(from: 0, to: changeSet.records.count, by: Self.lookedUpMax) {
            let part = first..<min(first + Self.lookedUpMax, changeSet.records.count)
            let changes = FindContentions.based(changeSet, part, base: base, in: schema)
            contended.merge(try self.contended(changes)) { $1 }
        }
        guard !contended.isEmpty else { return [] }
        for (index, present) in contended where present.exists && changeSet.records[index].operation == .create {
            if try isReplaced(changeSet.records[index], by: changeSet) { contended[index] = nil }
        }
        try spellValues(in: &changeSet, contended, seen: seen)
        return try FindContentions(schema: schema, seen: seen).contentions(of: changeSet, contended, stamp: stamp)
    }

    /// Returns the contended ones of changes: known from the group's first look, unless the group has changed them.
    private func contended(_ changes: [Int: BasedChange]) throws -> [Int: ContendedRecord] {
        var contended: [Int: ContendedRecord] = [:]
        var unknown: [Int: BasedChange] = [:]
        for (index, change) in changes {
            switch ledger.changed.contains(change.name) ? nil : ledger.foreseen[change] {
            case .contended(let record)?: contended[index] = record
            case .free?: continue
            case nil: unknown[index] = change
            }
        }
        guard !unknown.isEmpty else { return contended }
        return contended.merging(try zone.contended(unknown)) { $1 }
    }

    /// Looks for contended records of all change sets at once: a store on a network needs a query a table for a group.
    mutating func foresee() throws {
        var changes: Set<BasedChange> = []
        for incoming in requests where incoming.access.role >= .writer {
            let ids = incoming.request.device.flatMap { ledger.facts.permanentIDs[$0] } ?? [:]
            for (changeSet, envelope) in zip(incoming.changeSets, incoming.request.changeSets)
            where !isDecided(envelope) {
                let all = changeSet.records.indices
                for (index, change) in FindContentions.based(changeSet, all, base: incoming.request.base, in: schema) {
                    let name = identities.temporaryKey(changeSet.records[index])
                    guard let change = name.map({ ids[$0].map(change.renamed) }) ?? change,
                        !zone.mayRespell(change.name)
                    else { continue }
                    changes.insert(change)
                }
            }
        }
        let all = Array(changes)
        let contended = try zone.contended(Dictionary(uniqueKeysWithValues: all.enumerated().map { ($0, $1) }))
        for (index, change) in all.enumerated() {
            ledger.foreseen[change] = contended[index].map(Ledger.Foreseen.contended) ?? .free
        }
    }

    /// Whether a change set deletes the record that stands in the way of a new one, under another spelling of its key.
    private func isReplaced(_ record: PendingChangeSet.Record, by changeSet: PendingChangeSet) throws -> Bool {
        let name = RecordID(table: record.table, key: record.key)
        guard zone.mayRespell(name), let stored = try zone.storedKeys([name: .update])[name] else { return false }
        return changeSet.records.contains {
            $0.table == record.table && $0.operation == .delete && $0.key.utf8.elementsEqual(stored.utf8)
        }
    }
}

extension ContendedRecord {
    /// Returns the hash of the value that the first unseen change of a column replaced, which is the author's; nil if
    /// the log does not tell: compaction can have removed changes before that entry.
    fileprivate func replaced(_ column: String, unless seen: SeenRevisions) -> String? {
        let touching = changes.filter { $0.change.operation != .update || $0.change.columns.contains(column) }
        let lastSeen = touching.lastIndex { !$0.hidesOthers && seen.contains($0.revision) }
        let unseen = touching[(lastSeen.map { $0 + 1 } ?? 0)...]
        return unseen.first.flatMap { $0.isMerged ? nil : $0.replacedHashes[column] }
    }
}

extension PendingChangeSet {
    /// Whether a change adds to a value.
    var hasSums: Bool { records.contains { record in record.values.contains { delta(at: $0) != nil } } }
}

/// Makes the evidence about contended records; the pure function ``TidemarkCore/judge(_:policy:columns:)`` decides.
struct FindContentions {
    let schema: SyncSchema
    /// The revisions of the author's own earlier change sets.
    let seen: SeenRevisions

    /// Returns changes with their bases, by index, but for new records with a fresh id, which nobody else knows.
    static func based(_ changeSet: PendingChangeSet, _ part: Range<Int>, base: Int64, in schema: SyncSchema)
        -> [Int: BasedChange]
    {
        var changes: [Int: BasedChange] = [:]
        for index in part {
            let record = changeSet.records[index]
            let isNumbered = schema.tables[record.table].keyKind == .integer
            if record.operation == .create, isNumbered, record.authorsKey != nil { continue }
            let own = planted(PlantedBug.ignoresRecordBase) ? base : min(record.base ?? base, base)
            changes[index] = BasedChange(
                name: RecordID(table: record.table, key: record.key), operation: record.operation, base: own)
        }
        return changes
    }

    /// Returns the contended records of a change set, with unseen changes; `contended` is by the index of the change.
    func contentions(of changeSet: PendingChangeSet, _ contended: [Int: ContendedRecord], stamp: Stamp) throws
        -> [Contention]
    {
        let found = try contended.compactMap { index, present -> Contention? in
            let record = changeSet.records[index]
            let table = schema.tables[record.table]
            let unseen = unseenChanges(of: present, in: table)
            let exists = present.exists
            guard record.operation == .create ? exists : !exists || unseen.isContended else { return nil }
            let columns = try columns(of: record, in: changeSet, present.row)
            return Contention(
                table: table.name, key: record.key, operation: record.operation, differingColumns: columns.differing,
                absoluteColumns: columns.absolute, isSum: columns.isSum, unseen: unseen.changes, exists: exists,
                stamp: stamp, isNumbered: table.keyKind == .integer)
        }
        return ordered(found)
    }

    /// Returns the contentions of records that a foreign key action has changed.
    func cascades(_ changes: [BasedChange], _ contended: [Int: ContendedRecord]) -> [Contention] {
        let found = contended.compactMap { index, present -> Contention? in
            let table = schema.tables[changes[index].name.table]
            let unseen = unseenChanges(of: present, in: table)
            guard unseen.isContended else { return nil }
            return Contention(
                table: table.name, key: changes[index].name.key, operation: changes[index].operation,
                differingColumns: Set(table.references.flatMap(\.columns)), unseen: unseen.changes, exists: true,
                isCascade: true, isNumbered: table.keyKind == .integer)
        }
        return ordered(found)
    }

    /// Returns the changes of a record that its author has not seen; whether there are any besides replaced ones.
    private func unseenChanges(of record: ContendedRecord, in table: SyncedTable)
        -> (changes: [UnseenChange], isContended: Bool)
    {
        let history = record.changes.map { (change: $0.change, isSeen: !$0.hidesOthers && seen.contains($0.revision)) }
        guard history.contains(where: { !$0.isSeen }) else { return ([], false) }
        let unseen = UnseenChange.selectUnseen(
            from: history, columns: Set(table.valueColumns.map(\.name)), adding: schema.addingColumns(of: table.name))
        return (unseen, !unseen.isEmpty)
    }

    /// Returns the columns that a change sets to another value than the present one, and those with sums.
    private func columns(of record: PendingChangeSet.Record, in changeSet: PendingChangeSet, _ row: [Value]?) throws
        -> (differing: Set<String>, absolute: Set<String>, isSum: Bool)
    {
        var differing: Set<String> = []
        var absolute: Set<String> = []
        var hasSums = false
        var hasValues = false
        guard record.operation != .delete else { return ([], [], false) }
        for (place, column) in changeSet.columns(of: record) {
            guard changeSet.delta(at: place) == nil else {
                hasSums = true
                if let row, row[column.place].integer == nil { differing.insert(column.name) }
                continue
            }
            hasValues = true
            if column.adds { absolute.insert(column.name) }
            if let row, !(try changeSet.value(at: place).isSame(as: row[column.place])) {
                differing.insert(column.name)
            }
        }
        return (differing, absolute, record.operation == .update && hasSums && !hasValues)
    }

    private func ordered(_ contentions: [Contention]) -> [Contention] {
        contentions.sorted { one, other in
            guard one.table == other.table else { return one.table < other.table }
            let length = ChangeSetText.length(of: one.key)
            let otherLength = ChangeSetText.length(of: other.key)
            return length == otherLength ? one.key.utf8.lexicographicallyPrecedes(other.key.utf8) : length < otherLength
        }
    }
}

/// Judges contended records, and returns those in which a policy chose between values; throws ``Violation``.
func judgeAll(
    _ contentions: [Contention],
    by policies: (String) throws -> (table: ConflictPolicy, columns: [String: ConflictPolicy])
) throws -> [Overruling] {
    var reasons: [ConflictReason] = []
    var overrulings: [Overruling] = []
    for contention in contentions {
        let policy = try policies(contention.table)
        switch judge(contention, policy: policy.table, columns: policy.columns) {
        case .merge: continue
        case .overrule(let mine, let theirs):
            overrulings.append(Overruling(contention: contention, mine: mine, theirs: theirs))
        case .conflict(let rule, let columns):
            reasons.append(
                ConflictReason(
                    table: contention.table, key: contention.key, columns: columns.sorted(), rule: mistaken(rule)))
        }
    }
    if !reasons.isEmpty { throw Violation.conflict(reasons) }
    return overrulings
}
