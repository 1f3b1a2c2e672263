/// What a change set would have made of the zone, had it been taken at the revision at which it was
/// refused.
struct Scene: Sendable {
    /// The zone as it was when the change set was refused.
    let zone: ZoneModel
    /// What the change set wanted, under the ids that the server gave.
    let changes: [RecordChange]
    private let before: [RecordID: Cells]
    private let after: Rows
    private let rules: Rules
    /// What it deletes, and what may go along with that.
    private let doomed: Set<RecordID>

    init(_ zone: ZoneModel, at revision: Int64, _ changes: [RecordChange], _ rules: Rules) {
        self.zone = zone.asOf(revision, rules: rules)
        self.changes = changes
        self.rules = rules
        let rows = self.zone.rows
        before = rows.all
        var after = rows
        for change in changes {
            after.set(change.record, rules.applied(change, to: after[change.record]), rules: rules)
        }
        self.after = after
        var doomed: Set<RecordID> = []
        var next = changes.filter { $0.operation == .delete }.map(\.record)
        while let record = next.popLast() {
            guard doomed.insert(record).inserted else { continue }
            next += rows.children(of: record)
        }
        self.doomed = doomed
    }

    /// Whether the change set updates a record that others have deleted.
    func isDeleted(_ record: RecordID, _ own: Set<String>) -> Bool {
        let isGone = zone.versions[record, default: []].contains {
            $0.row == nil && !($0.changeSet.map(own.contains) ?? false)
        }
        // A history that was put back has forgotten what it had.
        return before[record] == nil && (isGone || zone.incarnation > 0)
            && changes.contains { $0.record == record && $0.operation == .update }
    }

    /// Whether the change set creates a record that is there.
    func isThere(_ record: RecordID) -> Bool {
        before[record] != nil && changes.contains { $0.record == record && $0.operation == .create }
    }

    /// Whether a unique value of what it writes would be there twice.
    var hasClash: Bool {
        let written = changes.filter { $0.operation != .delete }.map(\.record)
        return rules.tables.contains { table in
            table.unique.contains { unique in
                let wanted = written.filter { $0.table == table.name }.compactMap { record in
                    after[record].flatMap(unique.values).map { (record, $0) }
                }
                return wanted.contains { record, values in
                    after.all.contains {
                        $0.key.table == table.name && $0.key != record && unique.values(of: $0.value) == values
                    }
                }
            }
        }
    }

    /// Whether what it writes refers to a record that is gone, or that it deletes, or is deleted
    /// along itself.
    var hasOrphan: Bool {
        changes.contains { change in
            guard change.operation != .delete else { return false }
            if doomed.contains(change.record) { return true }
            let row = after[change.record] ?? rules.keyCells(change.record).merging(change.cells) { $1 }
            return rules.parents(of: change.record.table, row).contains { after[$0] == nil || doomed.contains($0) }
        }
    }

    /// Whether a record that it deletes, or that goes along, is one to which others still refer.
    var hasReferenced: Bool { doomed.contains { !after.children(of: $0).isEmpty } }
}
