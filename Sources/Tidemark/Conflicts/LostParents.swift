import GRDB
import TidemarkCore
import TidemarkSQL

/// Parked records that refer to a new record which a decision has dropped, and whose number another record has.
///
/// Their author meant the dropped record. Made again, they would refer to a stranger's. So the conflicts that build on
/// the decided one get a reason that says so, and a retry is refused until the person names the record to refer to.
struct LostParents {
    let db: Database
    let schema: SyncSchema
    private static let rule = "parent"

    /// Notes such records at the conflicts that build on a decided one.
    func note(after resolution: Resolution, of id: String, dependents: Set<String>) throws {
        guard !dependents.isEmpty else { return }
        let dropped = try dropped(by: resolution, of: id)
        guard !dropped.isEmpty else { return }
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT id, tbl, key, mine FROM tidemark_conflict_record
                WHERE operation IN ('create', 'update') AND id IN (SELECT value FROM json_each(?))
                """, arguments: ["[\(dependents.sorted().map(JSONText.quote).joined(separator: ","))]"])
        for row in rows {
            guard let table = try schema.byName[row.value("tbl")] else { continue }
            let values = try RecordChanges(json: row.value("mine")).values
            for reference in table.references where reference.columns.count == 1 {
                guard case .int64(let number)? = values[reference.columns[0]]?.storage,
                    dropped[reference.parent]?.contains(number) == true
                else { continue }
                let reason = Conflict.Reason(
                    table: table.name, key: try row.value("key"), columns: reference.columns, rule: Self.rule,
                    message: "It refers to a new \(reference.parent) \(number) of this file, which you have given up. "
                        + "\(reference.parent) \(number) is another record.")
                try db.execute(
                    sql: "UPDATE tidemark_conflict SET reasons = json_insert(reasons, '$[#]', json(?)) WHERE id = ?",
                    arguments: [reason.json, row.value("id") as String])
            }
        }
    }

    /// Throws if a record refers to a dropped one, unless `merged` names the record to refer to.
    func check(_ id: String, _ merged: [MergedRecord]) throws {
        let list = try String.fetchOne(db, sql: "SELECT reasons FROM tidemark_conflict WHERE id = ?", arguments: [id])
        for reason in Conflict.Reason.list(list ?? "[]") ?? [] where reason.rule == Self.rule {
            guard let key = reason.key, let column = reason.columns.first else { continue }
            let decision = merged.first { $0.table == reason.table && $0.key == key }
            if let decision, decision.columns?.keys.contains(column) ?? true { continue }
            throw TidemarkError(
                .invalidArgument, "\(reason.table) \(key) has nothing to refer to. \(reason.message)",
                fix: "Name the record to refer to, by --merge and \(column); or leave this record out, or accept.",
                place: .init(table: reason.table, key: key, column: column))
        }
    }

    /// Returns the numbers of the dropped new records that other records have, by table.
    private func dropped(by resolution: Resolution, of id: String) throws -> [String: Set<Int64>] {
        let isDropped: (RecordName) -> Bool
        switch resolution {
        case .retry: return [:]
        case .accept: isDropped = { _ in true }
        case .merge(let merged):
            let omitted = Set(merged.filter { $0.columns == nil }.map { RecordName($0.table, RecordKey(json: $0.key)) })
            isDropped = omitted.contains
        }
        let created = try Row.fetchAll(
            db, sql: "SELECT tbl, key FROM tidemark_conflict_record WHERE id = ? AND operation = 'create'",
            arguments: [id])
        let values = CurrentRows(db: db)
        return try created.reduce(into: [:]) { dropped, row in
            let key: String = try row.value("key")
            guard let table = try schema.byName[row.value("tbl")], table.keyKind == .integer, let number = Int64(key),
                isDropped(RecordName(table.name, RecordKey(json: key))), try values.current(table, key: key) != nil
            else { return }
            dropped[table.name, default: []].insert(number)
        }
    }
}
