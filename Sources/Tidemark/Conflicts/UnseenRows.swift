import GRDB
import TidemarkCore
import TidemarkSQL

/// Decides whether a parked change set, made again, would overwrite changes that nobody here has seen.
///
/// A change set that is made again is based on the rows of now. The server cannot know that its author had seen older
/// ones. So the device compares the server's present rows with those that were seen, and judges each difference by the
/// server's rules. Those that were seen are the author's base, or what the conflict showed to the person who decides.
struct UnseenRows {
    let db: Database
    let schema: SyncSchema

    /// A change to one record, as a decision makes it.
    struct Change {
        let table: SyncedTable
        let key: String
        let operation: TidemarkCore.Operation
        /// The columns that it sets, in canonical JSON.
        var values: [String: String] = [:]
        var adds = false
    }

    /// Whether a change meets a row other than its base, and no policy lets both stand; new records get free ids.
    func wouldBeOverwritten(by conflict: String) throws -> Bool {
        if planted(PlantedBug.remakesOverUnseenRows) { return false }
        let rows = try Row.fetchAll(
            db,
            cached: """
                SELECT tbl, key, operation, base, coalesce(mine, '{}') AS mine
                FROM tidemark_conflict_record
                WHERE id = ? AND operation IN ('update', 'delete')
                """, arguments: [conflict])
        guard !rows.isEmpty else { return false }
        let present = try PresentRecords(db: db, schema: schema)
        return try rows.contains { row in
            guard let table = try schema.byName[row.value("tbl")] else { return true }
            let mine = try PresentRecords.values(of: row.value("mine"))
            let change = Change(
                table: table, key: try row.value("key"),
                operation: try TidemarkCore.Operation(rawValue: row.value("operation")) ?? .update,
                values: mine.filter { Delta.number(json: $0.value) == nil },
                adds: mine.contains { Delta.number(json: $0.value) != nil })
            let base: String? = try row.value("base")
            let versions = try present.versions(of: change.key, in: table)
            // The base can be what a pending change set of this device makes of the record.
            guard try PresentRecords.differ(versions.here, base) else { return false }
            return try isOverwritten(versions.server, by: change, whoSaw: base)
        }
    }

    /// Whether a change overwrites something of a present row that the image `seen` does not have.
    func isOverwritten(_ present: String?, by change: Change, whoSaw seen: String?) throws -> Bool {
        guard present != seen else { return false }
        // A deleted record has no values to overwrite, but an update would bring the record back.
        guard let present else { return change.operation == .update }
        let row = try PresentRecords.values(of: present)
        let differing = Set(change.values.filter { row[$0.key] != nil && row[$0.key] != $0.value }.keys)
        guard let seen else { return change.operation == .delete || !differing.isEmpty }
        let unseen = try PresentRecords.columns(of: seen, differingFrom: row)
        guard !unseen.isEmpty else { return false }
        let contention = Contention(
            table: change.table.name, key: change.key,
            operation: change.operation == .create ? .update : change.operation, differingColumns: differing,
            absoluteColumns: Set(change.values.keys).intersection(schema.addingColumns(of: change.table.name)),
            isSum: change.adds && change.values.isEmpty, unseen: [UnseenChange(operation: .update, columns: unseen)],
            exists: true)
        let judgement = judge(
            contention, policy: schema.policy(of: change.table.name),
            columns: schema.columnPolicies(of: change.table.name))
        // A value that the server overrules is kept there; the new change set would hide that it did.
        return judgement != .merge
    }

    /// Whether a change replaces something of a row that none of the images `seen` has, whatever the policies say.
    func isReplaced(_ row: String?, by change: Change, whoSaw seen: [String?]) throws -> Bool {
        // An update brings a deleted record back.
        guard let row else { return change.operation == .update && !seen.contains(nil) }
        let present = try PresentRecords.values(of: row)
        var unseen = present
        if change.operation != .delete {
            unseen = present.filter { change.values[$0.key] != nil && change.values[$0.key] != $0.value }
        }
        for image in seen.compactMap(\.self) {
            let values = try PresentRecords.values(of: image)
            unseen = unseen.filter { values[$0.key] != $0.value }
        }
        return !unseen.isEmpty
    }

    /// Whether this device's own acknowledged change sets lead from the image `seen` to a present row.
    ///
    /// So a person decides about one conflict of a record after another, with a sync between them.
    func isOwnWork(_ present: String?, of key: String, in table: SyncedTable, since seen: String?) throws -> Bool {
        let rows = try Row.fetchAll(
            db,
            cached: """
                SELECT operation, before, attributes FROM tidemark_kept_record
                WHERE tbl = ? AND key = ? ORDER BY number
                """, arguments: [table.name, key])
        var image = seen
        var hasWork = false
        for row in rows {
            let before: String? = try row.value("before")
            guard try !PresentRecords.differ(image, before) else { continue }
            hasWork = true
            let attributes: String = try row.value("attributes") ?? "{}"
            // Somebody else's part may be in a sum.
            guard !attributes.contains(Delta.prefix) else { return false }
            switch try TidemarkCore.Operation(rawValue: row.value("operation")) {
            case .delete: image = nil
            case .create: image = attributes
            case .update, nil: image = try image.map { try Images.merged($0, attributes, in: db) }
            }
        }
        return try hasWork && !PresentRecords.differ(image, present)
    }
}
