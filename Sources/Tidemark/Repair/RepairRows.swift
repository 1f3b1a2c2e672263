import GRDB
import TidemarkCore
import TidemarkSQL

/// Replaces confirmed rows that differ from the server's, and parks edits of a replaced record as a conflict.
struct RepairRows {
    let round: RoundContext
    /// Whether an id may stand for another record than before.
    let hasOtherHistory: Bool
    /// The possible reasons why a row differs from the server's.
    let suspicion: UncapturedEdits.Suspicion

    private var db: Database { round.db }
    private var schema: SyncSchema { round.schema }

    /// What a replacement did.
    struct Outcome {
        var records: [Verification.Record] = []
        var events: [DeviceEvent] = []
        /// The conflict with the edits that no trigger captured.
        var conflict: String?
    }

    /// Replaces all rows in the ranges with the server's rows, which are a change set.
    ///
    /// The caller has drained all captured changes, and runs this in a transaction without foreign keys. With `isTrial`
    /// it only reports the differences. `conflict` already has edits that no trigger captured.
    func replace(_ ranges: [KeyRange], by changeSet: String?, isTrial: Bool, extending conflict: String?) throws
        -> Outcome
    {
        try Array("[\(changeSet ?? "")]".utf8).withUnsafeBufferPointer {
            try replace(ranges, by: serverRows($0), isTrial: isTrial, extending: conflict)
        }
    }

    private func replace(
        _ ranges: [KeyRange], by rows: PendingChangeSet, isTrial: Bool, extending conflict: String?
    ) throws -> Outcome {
        var outcome = Outcome(conflict: conflict)
        try refuseRows(of: rows, outside: ranges)
        try db.inSavepoint {
            outcome.events += try round.rebase {
                var events: [DeviceEvent] = []
                let parents = hasOtherHistory ? try OldParents(of: schema, in: db) : nil
                let surplus = try surplus(in: ranges, beside: rows)
                outcome.records = try differences(rows, surplus)
                let parked = try round.uncaptured.park(extending: conflict)
                outcome.conflict = parked.id
                events += parked.events
                try write(surplus, rows)
                return try events
                    + JudgeAfterReset(
                        db: db, schema: schema, firstWaiting: 0, parents: parents, now: round.time,
                        knowsVerdicts: false,
                        cause: "When it was edited, this record differed from the server's. A repair has replaced it."
                    ).park()
            }
            return isTrial ? .rollback : .commit
        }
        guard !isTrial, !outcome.records.isEmpty else { return Outcome(records: outcome.records, conflict: conflict) }
        outcome.events.append(.repaired(outcome.records.map { RecordName($0.table, RecordKey(json: $0.key)) }))
        return outcome
    }

    /// Reads the server's rows as creations, which insert or replace rows.
    private func serverRows(_ body: UnsafeBufferPointer<UInt8>) throws -> PendingChangeSet {
        do throws(TidemarkError) {
            var reader = try JSONReader(body)
            var changes = ChangeSetReader(schema.wireNames)
            let sets = try changes.changeSets(&reader)
            try reader.finish()
            guard let set = sets.first else { return ChangeSetBuilder(schema).build() }
            var rows = PendingChangeSet(set, reader)
            for index in rows.records.indices { rows.records[index].operation = .create }
            return rows
        } catch {
            throw TidemarkError(
                .invalidResponse, "The server's rows cannot be taken over: \(error.message)",
                fix: "Nothing was changed. Compare the versions and tables of both sides.", place: error.place)
        }
    }

    private func refuseRows(of rows: PendingChangeSet, outside ranges: [KeyRange]) throws {
        let tables = schema.tables + schema.difference.unknownTables
        for record in rows.records {
            let table = tables[record.table]
            let key = table.keyKind == .integer ? KeyRange.Bound.integer(Int64(record.key) ?? 0) : .json(record.key)
            let isWanted = ranges.contains { range in
                range.table == table.name && range.from.map { $0 <= key } ?? true && range.to.map { key < $0 } ?? true
            }
            guard !isWanted else { continue }
            throw TidemarkError(
                .invalidResponse, "The server sent a row that the device did not request.",
                fix: "Nothing was changed. Check the URL, and that no proxy changes answers.",
                place: .init(table: table.name, key: record.key))
        }
    }

    /// Returns the deletions of the rows in the ranges that the server does not have.
    private func surplus(in ranges: [KeyRange], beside rows: PendingChangeSet) throws -> PendingChangeSet {
        try RangeFingerprints(db, schema: schema).load(ranges)
        let present = Set(rows.records.map { RecordID(table: $0.table, key: $0.key) })
        let names = Set(ranges.map(\.table))
        var builder = ChangeSetBuilder(schema)
        for (place, table) in schema.tables.enumerated() where names.contains(table.name) {
            for key in try String.fetchAll(db, sql: "SELECT key FROM (\(RangeFingerprints.rows(of: table)))") {
                let record = RecordID(table: place, key: key)
                if !present.contains(record) { builder.add(.delete, record, values: []) }
            }
        }
        return builder.build()
    }

    /// Compares the server's rows with the file's, and finds the edits that no trigger captured.
    private func differences(_ rows: PendingChangeSet, _ surplus: PendingChangeSet) throws -> [Verification.Record] {
        let records = (rows.records + surplus.records).filter { $0.table < schema.tables.count }
        let isBefore = { (one: ChangeSet.Record, other: ChangeSet.Record) in
            (one.table, one.key.utf8.count) != (other.table, other.key.utf8.count)
                ? (one.table, one.key.utf8.count) < (other.table, other.key.utf8.count)
                : one.key.utf8.lexicographicallyPrecedes(other.key.utf8)
        }
        return try records.sorted(by: isBefore).compactMap { row in
            let table = schema.tables[row.table]
            let mine = try CurrentRows(db: db).image(table, key: row.key)
            let theirs = row.operation == .delete ? nil : try image(of: row, in: rows)
            let columns = theirs.flatMap { mine?.columns(differingFrom: $0) } ?? []
            let difference: Verification.Record.Difference =
                row.operation == .delete ? .surplus : mine == nil ? .missing : .changed
            // A range also contains equal rows.
            guard difference != .changed || !columns.isEmpty else { return nil }
            if suspicion.isEdit(difference) {
                let operation: TidemarkCore.Operation =
                    theirs == nil ? .create : mine == nil ? .delete : .update
                let edits = operation == .update ? mine?.part(columns) : mine
                let base = theirs?.json
                try round.uncaptured.add(
                    row.table, operation, key: row.key, base: base, mine: edits?.json, theirs: base)
            }
            return Verification.Record(
                table: table.name, key: row.key, difference: difference, columns: columns.sorted())
        }
    }

    /// Returns the server's values of a row in the columns of this file.
    private func image(of record: ChangeSet.Record, in rows: PendingChangeSet) throws -> RecordImage {
        let columns = schema.tables[record.table].columns
        var values: [String: [UInt8]] = [:]
        for (place, column) in rows.columns(of: record) where column.place < columns.count {
            values[columns[column.place].name] = try rows.value(at: place).canonicalJSON
        }
        return RecordImage(columns: values)
    }

    private func write(_ surplus: PendingChangeSet, _ rows: PendingChangeSet) throws {
        let writer = ChangeWriter(db, schema: schema, isDevice: true)
        do {
            try db.inSavepoint {
                try writer.write([surplus, rows]) { try db.execute(sql: "ROLLBACK TO SAVEPOINT grdb") }
                return .commit
            }
        } catch let error as DatabaseError where error.isCollision {
            // Another differing record, in a range not yet compared, holds the same unique value.
            throw TidemarkError(
                .snapshotRequired, "The rows cannot be repaired one by one: \(error.message ?? "a constraint fails").",
                fix: "The device takes its rows from a new snapshot; the outbox is kept.")
        }
    }
}

extension ChangeSet {
    /// Returns a record's attributes as JSON without its revision; nil if it has none.
    func image(of record: Record, in text: JSONReader) throws(TidemarkError) -> String? {
        guard let range = record.attributes else { return nil }
        var reader = text.reader(at: range.lowerBound)
        var members: [String] = []
        try reader.object(unchecked: true) { (reader, name) throws(TidemarkError) in
            let isRevision = reader.equals(name, "revision")
            let member = JSONText.quote(reader.text(of: name))
            let cell = try reader.cell()
            if !isRevision { members.append("\(member):\(reader.jsonText(of: cell))") }
        }
        return "{\(members.joined(separator: ","))}"
    }
}
