import GRDB
import TidemarkCore
import TidemarkSQL

/// What the person who decides about a conflict has seen of the server's rows.
package enum Seen: Sendable {
    /// The conflict as it was when the device parked it.
    case asParked
    /// A conflict as the app or the command line has shown it.
    case shown(Conflict)
    /// The caller has judged the present rows itself.
    case judged
}

/// Refuses a decision that would overwrite or take along what its author has not seen.
///
/// That are changes of others, by the policies, and later changes of this device in the columns that it writes.
struct SeenRecords {
    let db: Database
    let schema: SyncSchema
    let seen: Seen

    /// Judges decisions; records in `renumbered` get new ids, and what the refusal names has been seen.
    func check(_ decisions: [RecordDecision], in id: String, renumbered: Set<RecordName>) throws {
        let rows = try Row.fetchAll(db, sql: "SELECT * FROM tidemark_conflict_record WHERE id = ?", arguments: [id])
        guard let shown = try shown(rows) else { return }
        // A file that has left its zone has no rows of the server.
        guard try DeviceFile(db).epoch != nil else { return }
        let bases = try Dictionary(
            rows.map { (try name(of: $0), try RecordImage(stored: $0.value("base"))) }, uniquingKeysWith: { $1 })
        let present = try PresentRecords(db: db, schema: schema)
        var changed: [RecordName] = []
        for decision in decisions where !renumbered.contains(decision.name) {
            let isUnseen = try isOverUnseen(
                decision, over: present.versions(of: decision.key, in: decision.table),
                shown: shown[decision.name] ?? .init(), base: bases[decision.name] ?? nil)
            if isUnseen { changed.append(decision.name) }
        }
        if !changed.isEmpty, !planted(PlantedBug.retriesOverUnseenRows) { throw changedAgain(changed) }
        let along = try takenAlong(decisions, besides: Set(rows.map(name)))
        if !along.isEmpty, !planted(PlantedBug.retriesDeletionOfUnseenChildren) { throw Self.takes(along) }
    }

    /// The records that were seen; nil if the caller has judged the present ones.
    private func shown(_ rows: [Row]) throws -> [RecordName: PresentRecords.Versions]? {
        switch seen {
        case .judged: return nil
        case .asParked:
            let parked = try rows.map { row in
                let theirs = try RecordImage(stored: row.value("theirs"))
                return (try name(of: row), PresentRecords.Versions(server: theirs, here: theirs))
            }
            return Dictionary(parked, uniquingKeysWith: { $1 })
        case .shown(let conflict):
            let records = try conflict.records.map { record in
                let here = record.here.map { $0 == Conflict.Record.missing ? nil : $0 } ?? record.theirs
                let versions = try PresentRecords.Versions(
                    server: RecordImage(stored: record.theirs), here: RecordImage(stored: here))
                return (record.name, versions)
            }
            return Dictionary(records, uniquingKeysWith: { $1 })
        }
    }

    private func name(of row: Row) throws -> RecordName {
        RecordName(try row.value("tbl"), RecordKey(json: try row.value("key")))
    }

    private func isOverUnseen(
        _ decision: RecordDecision, over present: PresentRecords.Versions, shown: PresentRecords.Versions,
        base: RecordImage?
    ) throws -> Bool {
        let change = decision.change
        // The author of the change has seen its base.
        let bases = base.map { [Optional($0)] } ?? []
        if !ThreeWay(base: present.server, theirs: present.here).isUntouched,
            ThreeWay.isReplaced(present.here, by: change, whoSaw: bases + [shown.here, present.server])
        {
            return true
        }
        let isOverwritten = { (seen: RecordImage?) in
            ThreeWay(base: seen, theirs: present.server).isOverwritten(by: change, of: decision.table.name, in: schema)
        }
        guard isOverwritten(shown.server) else { return false }
        if let base, !isOverwritten(base) { return false }
        guard try isOwnWork(present.server, of: decision.key, in: decision.table, since: shown.server) else {
            return true
        }
        return ThreeWay.isReplaced(present.server, by: change, whoSaw: bases + [shown.server])
    }

    /// Whether this device's own acknowledged change sets lead from the image `seen` to a present row.
    ///
    /// So a person decides about one conflict of a record after another, with a sync between them.
    private func isOwnWork(_ present: RecordImage?, of key: String, in table: SyncedTable, since seen: RecordImage?)
        throws -> Bool
    {
        let rows = try Row.fetchAll(
            db,
            cached: """
                SELECT operation, before, attributes FROM tidemark_kept_record
                WHERE tbl = ? AND key = ? ORDER BY number
                """, arguments: [table.name, key])
        var image = seen
        var hasWork = false
        for row in rows {
            guard try ThreeWay(base: image, theirs: RecordImage(stored: row.value("before"))).isUntouched else {
                continue
            }
            hasWork = true
            let change = try RecordChange(stored: row.value("attributes"), operation: row.value("operation"))
            // Somebody else's part may be in a sum.
            guard change.sums.isEmpty else { return false }
            switch change.operation {
            case .delete: image = nil
            case .create: image = change.values
            case .update: image = image?.merged(change.values)
            }
        }
        return hasWork && ThreeWay(base: image, theirs: present).isUntouched
    }

    private func takenAlong(_ decisions: [RecordDecision], besides named: Set<RecordName>) throws
        -> [Conflict.TakenAlong]
    {
        let along = try ReferringRecords(db: db, schema: schema).takenAlong(by: decisions, besides: named)
        guard case .shown(let conflict) = seen else { return along }
        let shown = Set(conflict.takenAlong)
        return along.filter { !shown.contains($0) }
    }

    // MARK: Refusals

    private static let look = """
        Look at the conflict as it is now, and decide again: `tidemark device conflicts FILE` prints commands that say \
        what you have seen, and an app gives `resolve` the conflict that it shows.
        """

    private func changedAgain(_ records: [RecordName]) -> TidemarkError {
        let names = Self.list(records.map { "\($0.table) \($0.key.json)" })
        var moment = "its refusal"
        if case .shown = seen { moment = "this conflict was shown" }
        return TidemarkError(
            .preconditionFailed,
            records.count == 1
                ? "The record has changed again since \(moment): \(names)."
                : "Records have changed again since \(moment): \(names).", fix: Self.look,
            place: records.count == 1 ? .init(table: records[0].table, key: records[0].key.json) : .init())
    }

    private static func takes(_ along: [Conflict.TakenAlong]) -> TidemarkError {
        let deleted = along.filter(\.isDeleted).map { "\($0.table) \($0.key)" }
        let changed = along.filter { !$0.isDeleted }.map { "\($0.table) \($0.key)" }
        let parts = [
            deleted.isEmpty ? nil : "delete \(list(deleted))",
            changed.isEmpty ? nil : "take the reference from \(list(changed))",
        ].compactMap { $0 }
        return TidemarkError(
            .preconditionFailed,
            "The deletion would also \(parts.joined(separator: ", and ")), which this conflict had not shown.",
            fix: look)
    }

    private static func list(_ names: [String]) -> String {
        let more = names.count > 5 ? ["\(names.count - 5) more"] : []
        return (names.prefix(5) + more).joined(separator: ", ")
    }
}

extension RecordDecision {
    var name: RecordName { RecordName(table.name, RecordKey(json: key)) }

    /// A record that the decision creates again was updated or deleted by the parked change set.
    fileprivate var change: RecordChange {
        let own = values.filter { !sums.contains($0.key) }.mapValues { Array(CanonicalJSON.text(of: $0).utf8) }
        // The numbers are in the values by now; that there are sums decides.
        return RecordChange(
            isRevival ? .update : operation, values: RecordImage(columns: own),
            sums: Dictionary(uniqueKeysWithValues: sums.map { ($0, 0) }))
    }
}
