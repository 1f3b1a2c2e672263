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
    private let undrained: [RecordID: String?]

    init(db: Database, schema: SyncSchema) throws {
        self.db = db
        self.schema = schema
        let names = try String.fetchSet(
            db, cached: "SELECT tbl FROM tidemark_capture INTERSECT SELECT tbl FROM tidemark_conflict_record")
        var undrained: [RecordID: String?] = [:]
        for (place, table) in schema.tables.enumerated() where names.contains(table.name) {
            let keys = try String.fetchAll(
                db, cached: "SELECT key FROM tidemark_conflict_record WHERE tbl = ?", arguments: [table.name])
            let records = Set(keys.map { RecordID(table: place, key: $0) })
            try CapturedEffects.readFirstStates(of: table, in: db) { key, image in
                let record = RecordID(table: place, key: key)
                if records.contains(record) { undrained[record] = .some(image) }
            }
        }
        self.undrained = undrained
    }

    /// A record as images; nil where there is none.
    struct Versions {
        var server: String?
        /// The record in this file, with pending changes.
        var here: String?
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
            conflicts[index].takenAlong = try TakenAlong(db: db, schema: schema).records(of: conflicts[index])
            conflicts[index].hasChanged = !conflicts[index].takenAlong.isEmpty
            for place in conflicts[index].records.indices {
                let record = conflicts[index].records[place]
                guard let table = schema.byName[record.table] else {
                    conflicts[index].records[place].isTableMissing = true
                    continue
                }
                var present = images[record.name] ?? Versions()
                if conflicts[index].kind == .overruled {
                    present.server = try Self.part(of: present.server, record.mine)
                    present.here = try Self.part(of: present.here, record.mine)
                }
                if try Self.differ(present.server, record.theirs), try !Self.isBase(present.server, of: record) {
                    conflicts[index].hasChanged = true
                }
                conflicts[index].records[place].theirs = present.server
                conflicts[index].records[place].missingColumns = try missingColumns(of: record, in: table)
                guard try Self.differ(present.here, present.server) else { continue }
                // The base can be what a decision before this one has left.
                if let base = record.base, try !Self.differ(present.here, base) { continue }
                conflicts[index].records[place].here = present.here ?? Conflict.Record.missing
                conflicts[index].hasChanged = true
            }
        }
    }

    private static func isBase(_ image: String?, of record: Conflict.Record) throws -> Bool {
        guard let image, let base = record.base else { return false }
        return try !differ(image, base)
    }

    private func missingColumns(of record: Conflict.Record, in table: SyncedTable) throws -> [String] {
        guard let mine = record.mine else { return [] }
        let names = Set(table.columns.map(\.name))
        return try Self.values(of: mine).keys.filter { !names.contains($0) }.sorted()
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
            (\(Images.current(table, key: "parked.key"))) AS here
        FROM (\(keys)) AS parked
        LEFT JOIN tidemark_base AS pending ON pending.tbl = ?1 AND pending.key = parked.key
        """
    }

    private func versions(_ row: Row, in table: SyncedTable) throws -> Versions {
        let here: String? = try row.value("here")
        if try row.value("isPending") { return Versions(server: try row.value("confirmed"), here: here) }
        let record = RecordID(table: schema.places[table.name] ?? 0, key: try row.value("key"))
        return Versions(server: undrained[record] ?? here, here: here)
    }

    /// Returns the members of an image that a change has.
    private static func part(of image: String?, _ change: String?) throws -> String? {
        guard let image, let change else { return image }
        do throws(InvalidValue) {
            let names = try CanonicalJSON.columns(of: change)
            let members = try CanonicalJSON.columns(of: image).filter { names[$0.key] != nil }
            let list = members.sorted { $0.key < $1.key }.map {
                "\(JSONText.quote(WireName.member(column: $0.key))):\($0.value)"
            }
            return "{\(list.joined(separator: ","))}"
        } catch { throw TidemarkError.unreadable("A record of a conflict") }
    }

    // MARK: Differences

    /// Whether two images have different values in a column that both have, or only one exists.
    static func differ(_ one: String?, _ other: String?) throws -> Bool {
        guard one != other else { return false }
        guard let one, let other else { return true }
        return try !columns(of: one, differingFrom: values(of: other)).isEmpty
    }

    /// Returns an image's columns, with values in canonical JSON; throws `fileDamaged` if the text is no image.
    static func values(of image: String) throws(TidemarkError) -> [String: String] {
        do throws(InvalidValue) { return try CanonicalJSON.columns(of: image) } catch {
            throw TidemarkError.unreadable("A record of a conflict")
        }
    }

    /// Returns the columns whose values in an image are others than in a row that has these columns.
    static func columns(of image: String, differingFrom row: [String: String]) throws -> Set<String> {
        Set(try values(of: image).filter { row[$0.key] != nil && row[$0.key] != $0.value }.keys)
    }
}

extension Conflict {
    /// Reads the parked conflicts as a person decides about them, oldest first; a read-only connection suffices.
    static func shown(_ db: Database, _ file: DeviceFile) throws -> [Conflict] {
        var conflicts = try all(db, schema: file.schema)
        guard !conflicts.isEmpty else { return [] }
        try EngineConnection.addFunctions(to: db)
        try findReferrers(of: &conflicts, schema: file.schema, in: db)
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
