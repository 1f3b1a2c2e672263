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
    /// The bookkeeping tables with record keys; `tidemark_held` exists only while an answer is applied.
    static let holders = ["tidemark_outbox", "tidemark_base", "tidemark_conflict_record", "tidemark_held"]

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
        try rewriteAssigned()
        try rewriteOwnReferences()
        return Dictionary(grouping: assigned, by: \.table).sorted { $0.key < $1.key }.map {
            let pairs = $0.value.map { ($0.temporary, $0.permanent) }
            return .identitiesAssigned(table: $0.key, ids: Dictionary(pairs, uniquingKeysWith: { $1 }))
        }
    }

    /// Writes the ids of `temp.tidemark_assigned` to the keys and references in some tables.
    func rewriteAssigned(in holders: [String] = MapIdentities.holders) throws {
        for holder in holders { try rewriteAssigned(in: holder, where: "true") }
    }

    func rewriteAssigned(inConflicts ids: [String]) throws {
        let list = ids.map { SQLText.literal($0) }.joined(separator: ", ")
        try rewriteAssigned(in: "tidemark_conflict_record", where: "id IN (\(list))")
    }

    private func rewriteAssigned(in holder: String, where condition: String) throws {
        try db.execute(
            cached: """
                UPDATE OR REPLACE \(holder) SET key = CAST(assigned.permanent AS TEXT)
                FROM temp.tidemark_assigned AS assigned
                WHERE assigned.tbl = \(holder).tbl AND \(holder).key = CAST(assigned.temporary AS TEXT)
                    AND \(condition)
                """)
        for table in schema.tables { try rewriteReferences(of: table, in: holder, where: condition) }
    }

    /// The columns with JSON images of records, by bookkeeping table.
    static let images = [
        "tidemark_outbox": ["attributes", "before"], "tidemark_base": ["image"],
        "tidemark_conflict_record": ["mine", "base"],
    ]

    private func rewriteReferences(of table: SyncedTable, in holder: String, where condition: String) throws {
        if planted(PlantedBug.keepsTemporaryReferences) { return }
        for (column, parent) in schema.integerReferences(of: table) {
            if let position = table.key.firstIndex(of: column) {
                guard table.keyKind != .integer else { continue }
                let path = table.key.count > 1 ? "$[\(position)]" : "$"
                try rewrite("key", path: path, parent: parent, table: table, in: holder, where: condition)
                continue
            }
            for image in Self.images[holder] ?? [] {
                let path = MemberSQL.path(column)
                try rewrite(image, path: path, parent: parent, table: table, in: holder, where: condition)
            }
        }
    }

    /// Writes the new ids to references that only this file has, which answers do not contain.
    func rewriteOwnReferences() throws {
        let difference = schema.difference
        for table in schema.tables + difference.unservedTables {
            let own = difference.unservedColumns[table.name].map { Set($0.map(\.name)) }
            for reference in table.references where reference.columns.count == 1 {
                let column = reference.columns[0]
                let isOwn = schema.byName[table.name] == nil || own?.contains(column) == true
                guard isOwn, let parent = schema.byName[reference.parent], parent.keyKind == .integer,
                    reference.parentColumns == parent.key
                else { continue }
                try db.execute(
                    sql: """
                        UPDATE main.\(SQLText.name(table.name)) SET \(SQLText.name(column)) = assigned.permanent
                        FROM temp.tidemark_assigned AS assigned
                        WHERE assigned.tbl = :parent AND assigned.temporary = \(SQLText.name(column));
                        UPDATE tidemark_held SET value = assigned.permanent
                        FROM temp.tidemark_assigned AS assigned
                        WHERE tidemark_held.tbl = :table AND col = :column
                            AND assigned.tbl = :parent AND assigned.temporary = value;
                        """, arguments: ["parent": parent.name, "table": table.name, "column": column])
            }
        }
    }

    private func rewrite(
        _ member: String, path: String, parent: String, table: SyncedTable, in holder: String, where condition: String
    ) throws {
        try db.execute(
            cached: """
                UPDATE OR REPLACE \(holder) SET \(member) = json_set(\(member), ?1, assigned.permanent)
                FROM temp.tidemark_assigned AS assigned
                WHERE assigned.tbl = ?2 AND \(holder).tbl = ?3
                    AND assigned.temporary = \(holder).\(member) ->> ?1 AND \(condition)
                """, arguments: [path, parent, table.name])
    }
}
