import GRDB
import TidemarkCore
import TidemarkSQL

/// The change sets of an answer, checked against each other and the outbox, and sorted by author and verdict.
///
/// The fingerprint finds the other faults, for instance one plausible value in place of another.
struct Answered {
    /// One of the device's own change sets, with its verdict.
    struct Own {
        let set: AnsweredSet
        let id: String
        let pending: PendingSet
    }

    private let schema: SyncSchema
    /// The tables of the schema, and those that only the zone has.
    private let tables: [SyncedTable]
    private let db: Database
    /// The device's own change sets that became revisions.
    private(set) var accepted: [Own] = []
    private(set) var refused: [Own] = []
    /// The change sets to apply, in revision order: all after the device's revision.
    private(set) var stream: [AnsweredSet] = []
    /// The change sets of ``stream`` by other authors.
    private(set) var foreign: [AnsweredSet] = []
    /// The latest time of a change set.
    private(set) var time: Int64?
    /// The new records of accepted change sets whose ids the server has replaced.
    private var named: [Named] = []
    private var namedBySet: [Int64: [Named]] = [:]
    var isEmpty: Bool { stream.isEmpty && accepted.isEmpty && refused.isEmpty }

    private struct Named {
        let set: Int
        let seq: Int64
        let revision: Int64
        let record: RecordID
        /// The id under which the device sent it.
        let wire: String
    }

    /// Checks the change sets of an answer to a request, which begin after its revision and end with `last`.
    init(
        _ sets: [AnsweredSet], after requested: Int64, through last: Int64, verdictsOn requestIDs: [String],
        _ schema: SyncSchema, in db: Database
    ) throws {
        let own = try PendingSet.all(sets.compactMap(\.id), in: db)
        try self.init(sets, beside: own, schema, in: db)
        try checkVerdicts(sets, own, requested: requested, requestIDs: Set(requestIDs))
        var next = requested + 1
        for set in sets where !set.isConflict && set.revision > requested {
            if planted(PlantedBug.takesGaps) { next = set.revision }
            guard set.revision == next else {
                throw Answer.inapplicable("it has revision \(set.revision) where \(next) is due.")
            }
            next += 1
            stream.append(set)
            if set.id.flatMap({ own[$0] }) == nil { foreign.append(set) }
        }
        guard next - 1 == last else { throw Answer.inapplicable("it ends before revision \(last).") }
    }

    /// Checks the change sets of an answer about the outbox, without those that the server accepted after a revision.
    init(_ sets: [AnsweredSet], through last: Int64 = .max, _ schema: SyncSchema, in db: Database) throws {
        try self.init(sets, beside: PendingSet.all(sets.compactMap(\.id), in: db), schema, in: db)
        accepted.removeAll { $0.set.revision > last }
    }

    private init(
        _ sets: [AnsweredSet], beside own: [String: PendingSet], _ schema: SyncSchema, in db: Database
    ) throws {
        self.schema = schema
        self.db = db
        tables = schema.tables + schema.difference.unknownTables
        var ids: Set<String> = []
        for set in sets {
            time = [time, set.time].compactMap(\.self).max()
            guard let id = set.id else { continue }
            guard ids.insert(id).inserted else { try refuse("Two change sets have the same id.", set) }
            guard let pending = own[id] else { continue }
            let verdict = Own(set: set, id: id, pending: pending)
            if set.isConflict { refused.append(verdict) } else { accepted.append(verdict) }
        }
        for set in sets where !set.isConflict { try checkKeys(of: set) }
        for own in accepted { named += numberedRecords(of: own, areNew: true).map { named(own, $0) } }
        namedBySet = Dictionary(grouping: named, by: \.seq)
        try checkNamed(sets)
        let numbering = accepted.filter { own in
            own.set.changeSet.records.contains { $0.operation == .create && tables[$0.table].keyKind == .integer }
        }
        let pending = try PendingSet.records(of: (numbering + refused).map(\.pending.seq), tables, in: db)
        for own in numbering { try checkNewRecords(of: own, pending[own.pending.seq] ?? [:]) }
        for own in refused { try checkRefusedRecords(of: own, pending[own.pending.seq] ?? [:]) }
    }

    /// The ids that the server gave to records of accepted change sets.
    var newIDs: [MapIdentities.AssignedID] {
        accepted.flatMap { own in
            own.set.changeSet.records.compactMap { record in
                guard tables[record.table].keyKind == .integer, let wire = record.authorsKey.flatMap(Int64.init),
                    let permanent = Int64(record.key)
                else { return nil }
                return .init(
                    table: tables[record.table].name, temporary: Self.localID(wire), permanent: permanent)
            }
        }
    }

    /// Returns the id that this file has for one that the device sent: a reserved id travels negated.
    private static func localID(_ wire: Int64) -> Int64 {
        wire <= -TemporaryID.reservedMin && wire != .min ? -wire : wire
    }

    /// Checks that no record has the ids of the new records, while the tables hold the confirmed rows.
    func checkNewIDs(after requested: Int64) throws {
        let new = Dictionary(grouping: named.filter { $0.revision > requested }, by: \.record.table)
        for (place, table) in schema.tables.enumerated() {
            guard let new = new[place] else { continue }
            let free = Set(try KeySQL.keysWithoutRow(new.map(\.record.key), in: table, db))
            if let taken = new.first(where: { !free.contains($0.record.key) }) {
                try refuse("A new record gets the id of another one.", taken)
            }
        }
    }

    /// Leaves refused change sets to a later answer.
    mutating func forgetRefused() { refused = [] }

    // MARK: Checks

    private func checkVerdicts(
        _ sets: [AnsweredSet], _ own: [String: PendingSet], requested: Int64, requestIDs: Set<String>
    ) throws {
        for set in sets {
            let isUnsent = set.id.flatMap { own[$0] }?.isFrozen == false
            let needsRequest = set.isConflict || set.revision <= requested
            if isUnsent || needsRequest && !requestIDs.contains(set.id ?? "") {
                try refuse("It has a verdict on a change set that this device did not send.", set)
            }
        }
    }

    /// Refuses temporary ids, which are below 0 or from 2^52 on and have no meaning on other devices.
    private func checkKeys(of set: AnsweredSet) throws {
        for record in set.changeSet.records where tables[record.table].keyKind == .integer {
            guard isTemporary(record.key, in: tables[record.table]) else { continue }
            try refuse("A record has an id that no server gives.", set, of: record)
        }
    }

    private func isTemporary(_ key: String, in table: SyncedTable) -> Bool {
        let id = Int64(key) ?? 0
        return id < table.lowestID || id > TemporaryID.permanentMax
    }

    /// Returns the records with an integer key and an `__oldId__`: the created ones, or the others.
    private func numberedRecords(of own: Own, areNew: Bool) -> [ChangeSet.Record] {
        own.set.changeSet.records.filter {
            $0.authorsKey != nil && ($0.operation == .create) == areNew
                && tables[$0.table].keyKind == .integer
        }
    }

    private func named(_ own: Own, _ record: ChangeSet.Record) -> Named {
        Named(
            set: own.set.changeSet.index, seq: own.pending.seq, revision: own.set.revision,
            record: RecordID(table: record.table, key: record.key), wire: record.authorsKey ?? "")
    }

    private func checkNamed(_ sets: [AnsweredSet]) throws {
        var places: [RecordID: Int] = [:]
        var wires: Set<RecordID> = []
        for new in named {
            let isTwice = places.updateValue(new.set, forKey: new.record) != nil
            guard !isTwice, wires.insert(RecordID(table: new.record.table, key: new.wire)).inserted else {
                try refuse("Two new records share an id.", new)
            }
        }
        for set in sets where !set.isConflict && !places.isEmpty {
            for record in set.changeSet.records {
                let place = places[RecordID(table: record.table, key: record.key)]
                if let place, set.changeSet.index < place {
                    try refuse("A new record gets the id of another one.", set, of: record)
                }
            }
        }
        // An update may name its record by an old id, too: that of a new record, or one that the device has in its map.
        let keys = Dictionary(
            named.map { (RecordID(table: $0.record.table, key: $0.wire), $0.record.key) },
            uniquingKeysWith: { first, _ in first })
        for own in accepted {
            for record in numberedRecords(of: own, areNew: false) {
                let wire = record.authorsKey ?? ""
                guard keys[RecordID(table: record.table, key: wire)] != record.key,
                    try !isMapped(wire, to: record.key, in: tables[record.table])
                else { continue }
                try refuse("An __oldId__ names another record.", own.set, of: record)
            }
        }
    }

    private func isMapped(_ wire: String, to key: String, in table: SyncedTable) throws -> Bool {
        try Bool.fetchOne(
            db,
            cached: """
                SELECT EXISTS (
                    SELECT 1 FROM tidemark_idmap WHERE tbl = ? AND permanent = ? AND temporary IN (?, ?))
                """, arguments: [table.name, Int64(key), Int64(wire), Int64(wire.dropFirst())]) ?? false
    }

    /// `pending` are the records of the change set in the outbox.
    private func checkNewRecords(of own: Own, _ pending: PendingSet.Records) throws {
        let namedHere = namedBySet[own.pending.seq] ?? []
        for new in namedHere {
            let isReserved = (Int64(new.wire) ?? 0) <= -TemporaryID.reservedMin
            let forms = isReserved ? [new.wire, String(new.wire.dropFirst())] : [new.wire]
            if !forms.contains(where: { pending[RecordID(table: new.record.table, key: $0)] == .create }) {
                try refuse("An __oldId__ names no record that the change set created.", new)
            }
        }
        let nameless = own.set.changeSet.records.filter {
            $0.operation == .create && $0.authorsKey == nil && tables[$0.table].keyKind == .integer
        }
        guard !nameless.isEmpty else { return }
        let wires = Set(namedHere.map { RecordID(table: $0.record.table, key: $0.wire) })
        for (record, operation) in pending where operation == .create {
            let isNamed = [record.key, "-" + record.key].contains {
                wires.contains(RecordID(table: record.table, key: $0))
            }
            guard isTemporary(record.key, in: tables[record.table]), !isNamed,
                let found = nameless.first(where: { $0.table == record.table })
            else { continue }
            try refuse("A new record of this device has no __oldId__.", own.set, of: found)
        }
    }

    /// Checks that a refusal is about the records of its change set, not about those of another one.
    ///
    /// A refusal names every record of its change set. If two ids were exchanged, the device would
    /// take the refused change set for an accepted one, and drop it. Only records with permanent
    /// integer ids are compared: they have one spelling on both sides.
    private func checkRefusedRecords(of own: Own, _ pending: PendingSet.Records) throws {
        let records = own.set.changeSet.records
        let names = Set(records.map { RecordID(table: $0.table, key: $0.key) })
        let present = Set(records.map(\.table))
        for (record, operation) in pending where operation == .update {
            let table = tables[record.table]
            guard table.keyKind == .integer, present.contains(record.table), !isTemporary(record.key, in: table),
                !names.contains(record)
            else { continue }
            throw Answer.inapplicable(
                "A refusal is about other records than its change set.",
                place: .init(changeSet: own.set.changeSet.index, table: table.name, key: record.key))
        }
    }

    private func refuse(_ reason: String, _ set: AnsweredSet, of record: ChangeSet.Record? = nil) throws -> Never {
        throw Answer.inapplicable(
            reason,
            place: .init(
                changeSet: set.changeSet.index, table: record.map { tables[$0.table].name }, key: record?.key))
    }

    private func refuse(_ reason: String, _ new: Named) throws -> Never {
        throw Answer.inapplicable(
            reason, place: .init(changeSet: new.set, table: tables[new.record.table].name, key: new.record.key))
    }
}

/// A change set of the outbox.
struct PendingSet {
    let seq: Int64
    /// Whether it may have been sent.
    let isFrozen: Bool

    /// Returns those of some change sets that are in the outbox, by id.
    static func all(_ ids: [String], in db: Database) throws -> [String: PendingSet] {
        guard !ids.isEmpty else { return [:] }
        let rows = try Row.fetchAll(
            db,
            cached: """
                SELECT changeset.id, changeset.seq, changeset.wire IS NOT NULL
                FROM json_each(?) AS answered
                CROSS JOIN tidemark_changeset AS changeset ON changeset.id = answered.value
                """, arguments: [JSONText.array(ids.map(JSONText.quote))])
        return try rows.reduce(into: [:]) {
            $0[try $1.value(0)] = PendingSet(seq: try $1.value(1), isFrozen: try $1.value(2))
        }
    }

    /// Records, with what a change set does to them.
    typealias Records = [RecordID: TidemarkCore.Operation]

    /// Returns the records of change sets in some tables, by the number of the change set.
    static func records(of seqs: [Int64], _ tables: [SyncedTable], in db: Database) throws -> [Int64: Records] {
        guard !seqs.isEmpty else { return [:] }
        let places = Dictionary(tables.enumerated().map { ($1.name, $0) }, uniquingKeysWith: { first, _ in first })
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: """
                    SELECT entry.seq, entry.tbl, entry.key, entry.operation
                    FROM json_each(?) AS wanted CROSS JOIN tidemark_outbox AS entry ON entry.seq = wanted.value
                    """), arguments: [JSONText.array(seqs.map(String.init))])
        var records: [Int64: Records] = [:]
        while let row = try rows.next() {
            guard let place = try places[row.value(1)] else { continue }
            let record = RecordID(table: place, key: try row.value(2))
            records[try row.value(0), default: [:]][record] = try .init(rawValue: row.value(3))
        }
        return records
    }
}
