import TidemarkCore

/// Makes the evidence about contended records; the pure function ``TidemarkCore/judge(_:policy:columns:)`` decides.
struct FindContentions {
    let schema: SyncSchema
    /// The revisions of the author's own earlier change sets.
    let seen: Set<Int64>

    /// Returns the changes of a change set with their bases, by index, where the database may know of later ones.
    ///
    /// Nobody knows a record that has just got its id.
    static func based(_ changeSet: PendingChangeSet, base: Int64, in schema: SyncSchema) -> [Int: BasedChange] {
        var changes: [Int: BasedChange] = [:]
        for (index, record) in changeSet.records.enumerated() {
            let isNumbered = schema.tables[record.table].keyKind == .integer
            if record.operation == .create, isNumbered, record.authorsKey != nil { continue }
            let own = planted(PlantedBug.ignoresRecordBase) ? base : min(record.base ?? base, base)
            changes[index] = BasedChange(
                name: RecordID(table: record.table, key: record.key),
                operation: record.operation,
                base: own
            )
        }
        return changes
    }

    /// Returns the contended records of a change set with the changes that their author has not seen.
    ///
    /// `contended` is by the index of the change.
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
                table: table.name,
                key: record.key,
                operation: record.operation,
                differingColumns: columns.differing,
                absoluteColumns: columns.absolute,
                isSum: columns.isSum,
                unseen: unseen.changes,
                exists: exists,
                stamp: stamp,
                isNumbered: table.keyKind == .integer
            )
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
                table: table.name,
                key: changes[index].name.key,
                operation: changes[index].operation,
                differingColumns: Set(table.references.flatMap(\.columns)),
                unseen: unseen.changes,
                exists: true,
                isCascade: true,
                isNumbered: table.keyKind == .integer
            )
        }
        return ordered(found)
    }

    /// Returns the changes of a record that its author has not seen; whether there are any besides replaced ones.
    private func unseenChanges(of record: ContendedRecord, in table: SyncedTable)
        -> (changes: [UnseenChange], isContended: Bool)
    {
        let history = record.changes.map { (change: $0.change, isSeen: !$0.isMerged && seen.contains($0.revision)) }
        guard history.contains(where: { !$0.isSeen }) else { return ([], false) }
        let unseen = UnseenChange.selectUnseen(
            from: history,
            columns: Set(table.valueColumns.map(\.name)),
            adding: schema.addingColumns(of: table.name)
        )
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
