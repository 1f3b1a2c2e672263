import GRDB
import TidemarkCore
import TidemarkSQL

/// Replaces temporary ids by permanent ones in pending changes and conflicts.
///
/// The device does this in the transaction that applies the answer. It also stores each pair in
/// `tidemark_idmap`, which the app can read.
struct MapIdentities {
    let db: Database
    let schema: SyncSchema

    struct AssignedID {
        let table: String
        let temporary: Int64
        let permanent: Int64
    }

    /// Stores and applies the new ids of accepted change sets.
    func map(_ ids: [AssignedID]) throws -> [DeviceEvent] {
        try assign(ids)
        return try rewriteAll(ids)
    }

    /// Fills `temp.tidemark_assigned` with the new ids of accepted change sets.
    func assign(_ ids: [AssignedID]) throws {
        try db.execute(cached: "DELETE FROM temp.tidemark_assigned")
        guard !ids.isEmpty else { return }
        let insert = try BoundStatement("INSERT OR REPLACE INTO temp.tidemark_assigned VALUES (?, ?, ?)", in: db)
        for id in ids {
            try insert.run { row in
                row.bind(id.table, at: 1)
                row.bind(id.temporary, at: 2)
                row.bind(id.permanent, at: 3)
            }
        }
    }

    /// Stores the assigned ids in the map, and writes them to pending changes and conflicts.
    func rewriteAll(_ assigned: [AssignedID]) throws -> [DeviceEvent] {
        guard !assigned.isEmpty else { return [] }
        try db.execute(
            cached: """
                INSERT OR REPLACE INTO main.tidemark_idmap
                SELECT tbl, temporary, permanent FROM temp.tidemark_assigned
                """)
        try runPlanted(PlantedBug.dropsIdMap, in: db)
        if planted(PlantedBug.keepsTemporaryIdsInOutbox) { return [] }
        // The device may have offered a lost record again under a new temporary id. Then older temporary
        // ids of the record must lead to the permanent one, too.
        try db.execute(
            cached: """
                UPDATE tidemark_idmap SET permanent = assigned.permanent
                FROM temp.tidemark_assigned AS assigned
                WHERE assigned.tbl = tidemark_idmap.tbl AND assigned.temporary = tidemark_idmap.permanent
                    AND tidemark_idmap.permanent NOT BETWEEN 0 AND \(TemporaryID.permanentMax)
                """)
        let rewriting = RewriteKeys(db: db, schema: schema, pairs: .ids)
        try rewriting.run()
        try rewriting.runInOwnReferences()
        return Dictionary(grouping: assigned, by: \.table).sorted { $0.key < $1.key }.map {
            let pairs = $0.value.map { ($0.temporary, $0.permanent) }
            return .identitiesAssigned(table: $0.key, ids: Dictionary(pairs, uniquingKeysWith: { $1 }))
        }
    }
}
