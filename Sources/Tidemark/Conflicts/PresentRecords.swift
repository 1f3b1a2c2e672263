import GRDB
import TidemarkCore
import TidemarkSQL

/// The parked records as the server has them now, without this device's pending changes.
///
/// A conflict is judged against what its reader has seen, and it may wait for months. So it shows these records, and
/// not those of the day on which the device parked it.
struct PresentRecords {
    let db: Database
    let schema: SyncSchema
    /// Parked records as they were before changes that the device has not drained yet, by table and key.
    private let undrained: [String: [String: String?]]

    /// Reads the server's records behind a connection.
    init(db: Database, schema: SyncSchema) throws {
        self.db = db
        self.schema = schema
        let names = try String.fetchSet(
            db.cachedStatement(
                sql: """
                    SELECT tbl FROM tidemark_capture INTERSECT SELECT tbl FROM tidemark_conflict_record
                    """
            )
        )
        let tables = try schema.tables.filter { names.contains($0.name) }.map { table in
            let keys = "SELECT key FROM tidemark_conflict_record WHERE tbl = \(SQLText.literal(table.name))"
            return (table.name, try ReduceCapture.firstStates(of: table, among: keys, in: db))
        }
        undrained = Dictionary(uniqueKeysWithValues: tables)
    }

    /// Returns a record as an image; nil if the server has none.
    func image(of key: String, in table: SyncedTable) throws -> String? {
        let isPending = try Bool.fetchOne(
            db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM tidemark_base WHERE tbl = ? AND key = ?)"),
            arguments: [table.name, key]
        )
        if isPending == false, let image = undrained[table.name]?[key] { return image }
        return try String.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT iif(pending.tbl IS NULL, (\(Images.current(table, key: "?2"))), pending.image)
                    FROM (SELECT 1)
                    LEFT JOIN tidemark_base AS pending ON pending.tbl = ?1 AND pending.key = ?2
                    """
            ),
            arguments: [table.name, key]
        )
    }

    /// Puts the records as they are now into conflicts, and what a retry takes along.
    func show(in conflicts: inout [Conflict]) throws {
        let images = try parkedImages()
        for index in conflicts.indices where !conflicts[index].isDamaged {
            conflicts[index].takenAlong = try TakenAlong(db: db, schema: schema).records(of: conflicts[index])
            conflicts[index].hasChanged = !conflicts[index].takenAlong.isEmpty
            for place in conflicts[index].records.indices {
                let record = conflicts[index].records[place]
                guard schema.byName[record.table] != nil else { continue }
                var present = images[record.name] ?? nil
                if conflicts[index].kind == .overruled { present = try Self.part(of: present, record.mine) }
                if try Self.differ(present, record.theirs) { conflicts[index].hasChanged = true }
                conflicts[index].records[place].theirs = present
            }
        }
    }

    /// Returns the present images of all parked records; nil where the server has no record.
    private func parkedImages() throws -> [RecordName: String?] {
        let names = try String.fetchSet(db.cachedStatement(sql: "SELECT DISTINCT tbl FROM tidemark_conflict_record"))
        var images: [RecordName: String?] = [:]
        for table in schema.tables where names.contains(table.name) {
            let rows = try Row.fetchAll(
                db.cachedStatement(
                    sql: """
                        SELECT parked.key, pending.tbl IS NOT NULL AS isPending, iif(
                            pending.tbl IS NULL, (\(Images.current(table, key: "parked.key"))), pending.image) AS image
                        FROM (
                            SELECT DISTINCT key FROM tidemark_conflict_record WHERE tbl = ?1 AND json_valid(key)
                        ) AS parked
                        LEFT JOIN tidemark_base AS pending ON pending.tbl = ?1 AND pending.key = parked.key
                        """
                ),
                arguments: [table.name]
            )
            for row in rows {
                let key: String = try row.value("key")
                let isPending: Bool = try row.value("isPending")
                var image: String? = try row.value("image")
                if !isPending, let former = undrained[table.name]?[key] { image = former }
                images[RecordName(table.name, RecordKey(json: key))] = .some(image)
            }
        }
        return images
    }

    /// Returns the members of an image that a change has.
    private static func part(of image: String?, _ change: String?) throws -> String? {
        guard let image, let change else { return image }
        do throws(InvalidValue) {
            let names = try CanonicalJSON.columns(of: change)
            let members = try CanonicalJSON.columns(of: image).filter { names[$0.key] != nil }
            let list = members.sorted { $0.key < $1.key }.map {
                "\(ChangeSetJSON.quote(WireName.member(column: $0.key))):\($0.value)"
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

    /// Returns the columns of an image, each with its value in canonical JSON.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/fileDamaged`` if the text is no image.
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
    /// Reads the parked conflicts as a person decides about them, oldest first.
    ///
    /// They have the server's records as they are now, the records that prevent a deletion, and those that a retry
    /// would take along. A read-only connection suffices.
    static func shown(_ db: Database, _ file: DeviceFile) throws -> [Conflict] {
        var conflicts = try all(db, schema: file.schema)
        guard !conflicts.isEmpty else { return [] }
        try EngineConnection.addFunctions(to: db)
        try findReferrers(of: &conflicts, schema: file.schema, in: db)
        // A file that has left its zone has no rows of the server.
        if file.epoch != nil { try PresentRecords(db: db, schema: file.schema).show(in: &conflicts) }
        for index in conflicts.indices { conflicts[index].seen = conflicts[index].hashOfShown }
        return conflicts
    }

    private var hashOfShown: String {
        let theirs = records.map { "\($0.table) \($0.key) \($0.theirs ?? "-")\n" }
        let along = takenAlong.map { "along \($0.table) \($0.key) \($0.isDeleted)\n" }
        return String(ContentHash.of(theirs + along).prefix(Self.hashLength))
    }

    /// Enough for one reader's few looks at one conflict.
    private static let hashLength = 8
}
