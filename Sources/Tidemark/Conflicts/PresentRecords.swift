import GRDB
import TidemarkCore
import TidemarkSQL

/// The parked records as they are now: the server's, and this file's with the pending changes of the device.
///
/// A conflict is judged against what its reader has seen, and it may wait for months. So it shows these records, and
/// not those of the day on which the device parked it.
struct PresentRecords {
    let db: Database
    let schema: SyncSchema
    /// Parked records as they were before changes that the device has not drained yet.
    private let undrained: [RecordID: RecordImage?]

    init(db: Database, schema: SyncSchema) throws {
        self.db = db
        self.schema = schema
        let names = try String.fetchSet(
            db, cached: "SELECT tbl FROM tidemark_capture INTERSECT SELECT tbl FROM tidemark_conflict_record")
        var undrained: [RecordID: RecordImage?] = [:]
        for (place, table) in schema.tables.enumerated() where names.contains(table.name) {
            let keys = try String.fetchAll(
                db, cached: "SELECT key FROM tidemark_conflict_record WHERE tbl = ?", arguments: [table.name])
            let records = Set(keys.map { RecordID(table: place, key: $0) })
            try CapturedEffects.readFirstStates(of: table, in: db) { key, image in
                let record = RecordID(table: place, key: key)
                if records.contains(record) { undrained[record] = .some(try RecordImage(stored: image)) }
            }
        }
        self.undrained = undrained
    }

    /// A record as images; nil where there is none.
    struct Versions {
        var server: RecordImage?
        /// The record in this file, with pending changes.
        var here: RecordImage?
    }

    func versions(of key: String, in table: SyncedTable) throws -> Versions {
        let row = try Row.fetchOne(
            db, cached: Self.versionsSQL(table, keys: "SELECT ?2 AS key"), arguments: [table.name, key])
        return try row.map { try versions($0, in: table) } ?? Versions()
    }

    /// Puts the records as they are now into conflicts, and what a retry takes along.
    func show(in conflicts: inout [Conflict]) throws {
        let images = try parkedImages()
        for index in conflicts.indices where !conflicts[index].isDamaged {
            conflicts[index].takenAlong = try ReferringRecords(db: db, schema: schema).takenAlong(by: conflicts[index])
            conflicts[index].hasChanged = !conflicts[index].takenAlong.isEmpty
            for place in conflicts[index].records.indices {
                let record = conflicts[index].records[place]
                guard let table = schema.byName[record.table] else {
                    conflicts[index].records[place].isTableMissing = true
                    continue
                }
                var present = images[record.name] ?? Versions()
                let mine = try RecordImage(stored: record.mine)
                if conflicts[index].kind == .overruled, let mine {
                    present.server = present.server?.part(mine.columns.keys)
                    present.here = present.here?.part(mine.columns.keys)
                }
                let isLike = { (image: RecordImage?, other: RecordImage?) in
                    ThreeWay(base: other, theirs: image).isUntouched
                }
                let base = try RecordImage(stored: record.base)
                if try !isLike(present.server, RecordImage(stored: record.theirs)),
                    base == nil || !isLike(present.server, base)
                {
                    conflicts[index].hasChanged = true
                }
                conflicts[index].records[place].theirs = present.server?.json
                let names = Set(table.columns.map(\.name))
                let missing = mine.map { $0.columns.keys.filter { !names.contains($0) }.sorted() }
                conflicts[index].records[place].missingColumns = missing ?? []
                // The base can be what a decision before this one has left.
                guard !isLike(present.here, present.server), base == nil || !isLike(present.here, base) else {
                    continue
                }
                conflicts[index].records[place].here = present.here?.json ?? Conflict.Record.missing
                conflicts[index].hasChanged = true
            }
        }
    }

    private func parkedImages() throws -> [RecordName: Versions] {
        let names = try String.fetchSet(db, cached: "SELECT DISTINCT tbl FROM tidemark_conflict_record")
        var images: [RecordName: Versions] = [:]
        for table in schema.tables where names.contains(table.name) {
            let keys = "SELECT DISTINCT key FROM tidemark_conflict_record WHERE tbl = ?1 AND json_valid(key)"
            let rows = try Row.fetchAll(db, cached: Self.versionsSQL(table, keys: keys), arguments: [table.name])
            for row in rows {
                images[RecordName(table.name, RecordKey(json: try row.value("key")))] = try versions(row, in: table)
            }
        }
        return images
    }

    /// Returns the query for the versions of records; `keys` selects their keys, and `?1` is the table's name.
    private static func versionsSQL(_ table: SyncedTable, keys: String) -> String {
        """
        SELECT parked.key, pending.tbl IS NOT NULL AS isPending, pending.image AS confirmed,
            (\(RowJSON.current(table, key: "parked.key"))) AS here
        FROM (\(keys)) AS parked
        LEFT JOIN tidemark_base AS pending ON pending.tbl = ?1 AND pending.key = parked.key
        """
    }

    private func versions(_ row: Row, in table: SyncedTable) throws -> Versions {
        let here = try RecordImage(stored: row.value("here"))
        if try row.value("isPending") {
            return Versions(server: try RecordImage(stored: row.value("confirmed")), here: here)
        }
        let record = RecordID(table: schema.places[table.name] ?? 0, key: try row.value("key"))
        return Versions(server: undrained[record] ?? here, here: here)
    }
}

extension RecordImage {
    /// Reads an image of the bookkeeping, nil for none; throws `fileDamaged` if the text is no row.
    init?(stored json: String?) throws(TidemarkError) {
        guard let json else { return nil }
        do throws(InvalidValue) { try self.init(json: json) } catch {
            throw TidemarkError.unreadable("A record of the bookkeeping")
        }
    }

    /// Returns the values by column; throws if no column can hold one.
    func databaseValues() throws(InvalidValue) -> [String: DatabaseValue] {
        var values: [String: DatabaseValue] = [:]
        for (column, json) in columns {
            values[column] = try CanonicalJSON.value(of: String(decoding: json, as: UTF8.self))
        }
        return values
    }
}

extension RecordChange {
    /// Reads a change of the bookkeeping; throws `fileDamaged` if the text is no row.
    init(stored json: String?, operation: String) throws(TidemarkError) {
        let operation = TidemarkCore.Operation(rawValue: operation) ?? .update
        do throws(InvalidValue) { try self.init(operation, json: json) } catch {
            throw TidemarkError.unreadable("A change of the bookkeeping")
        }
    }
}

extension Conflict {
    /// Reads the parked conflicts as a person decides about them, oldest first; a read-only connection suffices.
    static func shown(_ db: Database, _ file: DeviceFile) throws -> [Conflict] {
        var conflicts = try all(db, schema: file.schema)
        guard !conflicts.isEmpty else { return [] }
        try EngineConnection.addFunctions(to: db)
        let referring = ReferringRecords(db: db, schema: file.schema)
        for index in conflicts.indices { conflicts[index].referrers = try referring.referrers(of: conflicts[index]) }
        // A file that has left its zone has no rows of the server.
        if file.epoch != nil { try PresentRecords(db: db, schema: file.schema).show(in: &conflicts) }
        let places = Dictionary(uniqueKeysWithValues: file.schema.tables.enumerated().map { ($1.name, $0) })
        for index in conflicts.indices {
            conflicts[index].seen = conflicts[index].hashOfShown
            // Parents come before children. The records of a table keep their order.
            let groups = Dictionary(grouping: conflicts[index].records, by: \.table)
            conflicts[index].records = groups.sorted {
                (places[$0.key] ?? .max, $0.key) < (places[$1.key] ?? .max, $1.key)
            }.flatMap(\.value)
        }
        return conflicts
    }

    private var hashOfShown: String {
        let theirs = records.map { "\($0.table) \($0.key) \($0.theirs ?? "-")\($0.here.map { " here \($0)" } ?? "")\n" }
        let along = takenAlong.map { "along \($0.table) \($0.key) \($0.isDeleted)\n" }
        return String(ContentHash.of(theirs + along).prefix(Self.hashLength))
    }

    /// Enough for one reader's few looks at one conflict.
    private static let hashLength = 8
}
