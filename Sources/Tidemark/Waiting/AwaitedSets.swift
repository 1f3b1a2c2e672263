import GRDB
import TidemarkCore
import TidemarkSQL

/// The change sets that a wait is for, and what has become of them.
///
/// A wait for a record is for the change sets that touch it, and for those before them. A later edit does not lengthen
/// it. If the app's merge function makes another change set of a refused one, the wait is for that one, too.
struct AwaitedSets: Sendable {
    /// The record; nil for all records.
    private var record: RecordName?
    /// The ids, oldest first.
    private(set) var ids: [String] = []
    /// The ids whose refusal ends the wait.
    private var decisive: Set<String> = []

    init() {}

    /// Finds the change sets of a record, or of all; the caller has drained the captured changes, which have none yet.
    init(of record: RecordName?, in db: Database) throws {
        self.record = record
        let all = try String.fetchAll(db, sql: "SELECT id FROM tidemark_changeset ORDER BY seq")
        guard let record else {
            ids = all
            decisive = Set(all)
            return
        }
        let own = try Self.sets(of: record, in: db)
        decisive = Set(own)
        ids = all.lastIndex { own.contains($0) }.map { Array(all[...$0]) } ?? []
        // A refusal of earlier edits stands until somebody decides.
        if own.isEmpty { decisive = Set(try Self.conflicts(of: record, in: db)) }
    }

    /// Reads what has become of the change sets; at the end, a revision of the zone that has them all.
    mutating func look(in db: Database) throws -> Look<Int64> {
        try awaitMerged(in: db)
        let parked = try String.fetchAll(
            db, cached: "SELECT id FROM tidemark_conflict WHERE kind = 'refused' ORDER BY number")
        if let id = parked.first(where: decisive.contains) { return .refused(id) }
        let list = JSONText.array(ids.map { JSONText.quote($0) })
        let pending = try Int.fetchOne(
            db, cached: "SELECT count(*) FROM tidemark_changeset WHERE id IN (SELECT value FROM json_each(?))",
            arguments: [list])
        if let pending, pending > 0 { return .pending(pending) }
        let committed = try Int64.fetchOne(
            db, cached: "SELECT max(revision) FROM tidemark_kept WHERE id IN (SELECT value FROM json_each(?))",
            arguments: [list])
        // The file keeps a bounded number of acknowledged change sets. Its own revision has them all.
        return .done(try committed ?? DeviceFile(db).revision)
    }

    /// Whether the server has or had the record: the file has it, or the server has taken a change of it from here.
    func isKnown(in db: Database) throws -> Bool {
        guard let record, ids.isEmpty else { return true }
        guard let table = try DeviceFile(db).schema.byName[record.table] else { return true }
        try EngineConnection.addFunctions(to: db)
        let keys = try String.fetchAll(db, cached: Self.keysSQL, arguments: Self.keys(record))
        return try keys.contains { key in
            try Bool.fetchOne(
                db,
                cached: """
                    SELECT EXISTS (SELECT 1 FROM main.\(SQLText.name(table.name)) WHERE \(KeySQL.match(table, key: "?1")))
                        OR EXISTS (SELECT 1 FROM tidemark_kept_record WHERE tbl = ?2 AND key = ?1)
                    """, arguments: [key, table.name]) ?? false
        }
    }

    /// Adds the change sets that a merge function has made of awaited ones.
    private mutating func awaitMerged(in db: Database) throws {
        let merged = try String.fetchAll(db, cached: "SELECT id FROM tidemark_changeset WHERE merges > 0 ORDER BY seq")
        guard merged.contains(where: { !decisive.contains($0) }) else { return }
        let own = try record.map { Set(try Self.sets(of: $0, in: db)) }
        let known = Set(ids)
        for id in merged where !known.contains(id) && own?.contains(id) != false {
            ids.append(id)
            decisive.insert(id)
        }
    }

    // MARK: Records

    /// The pending change sets that touch a record, under any of its ids.
    private static func sets(of record: RecordName, in db: Database) throws -> [String] {
        try String.fetchAll(
            db,
            cached: """
                SELECT DISTINCT changeset.id FROM tidemark_outbox AS pending
                JOIN tidemark_changeset AS changeset USING (seq)
                WHERE pending.tbl = ? AND pending.key IN (\(keysSQL))
                """, arguments: [record.table] + keys(record))
    }

    /// The refused change sets that touch a record, under any of its ids.
    private static func conflicts(of record: RecordName, in db: Database) throws -> [String] {
        try String.fetchAll(
            db,
            cached: """
                SELECT parked_record.id FROM tidemark_conflict_record AS parked_record
                WHERE parked_record.tbl = ? AND parked_record.key IN (\(keysSQL))
                    AND parked_record.operation <> 'unchanged'
                """, arguments: [record.table] + keys(record))
    }

    /// A key, and the permanent id if the key is a temporary one.
    private static let keysSQL = """
        SELECT ? UNION ALL
        SELECT CAST(permanent AS TEXT) FROM tidemark_idmap WHERE tbl = ? AND temporary = ?
        """

    private static func keys(_ record: RecordName) -> StatementArguments {
        [record.key.json, record.table, Int64(record.key.json)]
    }
}

/// What a wait sees in the file.
enum Look<Value: Sendable>: Sendable {
    case done(Value)
    /// So many change sets are still in the outbox.
    case pending(Int)
    /// A refused change set, parked under this id.
    case refused(String)
}
