/// The zone as a refused change set would have left it, at the revision of the verdict.
struct Scene: Sendable {
    /// The zone at the refusal of the change set.
    let zone: ZoneModel
    /// The change set's changes, under the server's ids.
    let changes: [RecordChange]
    private let before: [RecordID: Cells]
    private let after: Rows
    private let rules: Rules
    /// Its deleted records, and those that may go along with them.
    private let doomed: Set<RecordID>

    init(_ zone: ZoneModel, at revision: Int64, changes: [RecordChange], by author: Author, rules: Rules) {
        let zone = zone.asOf(revision, rules: rules)
        self.zone = zone
        self.changes = changes
        self.rules = rules
        let rows = self.zone.rows
        before = rows.all
        var after = rows
        for change in changes {
            // By its column's policy, another value may stand in place of the author's.
            let ruling = zone.ruling(on: change, isNamed: true, by: author, rules)
            let change = ruling.standing(of: change, over: rows[change.record], rules)
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

    /// Whether the change set updates a record that other authors have deleted.
    func isDeleted(_ record: RecordID, _ own: Set<String>) -> Bool {
        let isGone = zone.versions[record, default: []].contains {
            $0.row == nil && !($0.changeSet.map(own.contains) ?? false)
        }
        // A restored history has lost some of its versions.
        return before[record] == nil && (isGone || zone.incarnation > 0)
            && changes.contains { $0.record == record && $0.operation == .update }
    }

    /// Whether the change set creates a record that exists.
    func isThere(_ record: RecordID) -> Bool {
        before[record] != nil && changes.contains { $0.record == record && $0.operation == .create }
    }

    /// Whether one of its unique values would exist twice.
    var hasClash: Bool {
        let writes = changes.filter { $0.operation != .delete }.map(\.record)
        return rules.tables.contains { table in
            table.unique.contains { unique in
                let wanted = writes.filter { $0.table == table.name }.compactMap { record in
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

    /// Whether a record of it refers to one that is gone or deleted, or would be deleted along
    /// itself.
    var hasOrphan: Bool {
        changes.contains { change in
            guard change.operation != .delete else { return false }
            if doomed.contains(change.record) { return true }
            let row = after[change.record] ?? rules.keyCells(change.record).merging(change.cells) { $1 }
            return rules.parents(of: change.record.table, row).contains { after[$0] == nil || doomed.contains($0) }
        }
    }

    /// Whether other records still refer to one that it deletes, directly or by a cascade.
    var hasReferenced: Bool { doomed.contains { !after.children(of: $0).isEmpty } }
}
