import GRDB
import TidemarkCore
import TidemarkSQLite

/// Temporary to permanent ids: everything that still waits and names a new record by its temporary
/// id is rewritten, in the transaction that takes in the permanent one.
///
/// The map stays readable.
struct MapIdentities {
    let db: Database
    let schema: SyncSchema

    /// The tables that know records by key; the last is put aside while an answer is applied.
    static let holders = ["tidemark_outbox", "tidemark_base", "tidemark_conflict_record", "tidemark_held"]

    /// A record's new id.
    struct Assigned {
        let table: String
        let temporary: Int64
        let permanent: Int64
    }

    /// Takes the ids of accepted change sets, given by the numbers under which they are staged.
    func map(_ ords: [Int]) throws -> [SyncEvent] { try rewriteAll(assign(ords)) }

    /// Fills `temp.tidemark_assigned` with the new ids that accepted change sets brought, given by
    /// the numbers under which these are staged.
    ///
    /// - Returns: The ids.
    func assign(_ ords: [Int]) throws -> [Assigned] {
        guard !ords.isEmpty else { return [] }
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_assigned").execute()
        try db.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO temp.tidemark_assigned
                SELECT tbl, iif(wire <= -\(TemporaryID.reservedMin), -wire, wire), permanent FROM (
                    SELECT s.tbl, CAST(s.old_key AS INTEGER) AS wire,
                        CAST(s.key AS INTEGER) AS permanent
                    FROM temp.tidemark_staged AS s JOIN temp.tidemark_table AS t ON t.tbl = s.tbl
                    WHERE s.ord IN (SELECT value FROM json_each(?)) AND s.old_key IS NOT NULL
                        AND t.kind = 'integer' ORDER BY s.rec)
                """
        ).execute(arguments: ["[" + ords.map(String.init).joined(separator: ",") + "]"])
        return try Row.fetchAll(db.cachedStatement(sql: "SELECT tbl, temporary, permanent FROM temp.tidemark_assigned"))
            .map {
                try Assigned(table: $0.value("tbl"), temporary: $0.value("temporary"), permanent: $0.value("permanent"))
            }
    }

    /// Notes the assigned ids, and puts them wherever something waits or is parked.
    func rewriteAll(_ assigned: [Assigned]) throws -> [SyncEvent] {
        guard !assigned.isEmpty else { return [] }
        try db.cachedStatement(
            sql:
                "INSERT OR REPLACE INTO main.tidemark_idmap SELECT tbl, temporary, permanent FROM temp.tidemark_assigned"
        ).execute()
        if planted(PlantedBug.dropsIdMap) { try db.execute(sql: "DELETE FROM tidemark_idmap") }
        if planted(PlantedBug.keepsTemporaryIdsInOutbox) { return [] }
        // A record that the server forgot was offered again under a temporary id: views that hold
        // an older one find it too.
        try db.cachedStatement(
            sql: """
                UPDATE tidemark_idmap SET permanent = m.permanent FROM temp.tidemark_assigned AS m
                WHERE m.tbl = tidemark_idmap.tbl AND m.temporary = tidemark_idmap.permanent
                    AND tidemark_idmap.permanent NOT BETWEEN 0 AND \(TemporaryID.permanentMax)
                """
        ).execute()
        try rewrite()
        try rewriteOwnReferences()
        return Dictionary(grouping: assigned, by: \.table).sorted { $0.key < $1.key }.map {
            let pairs = $0.value.map { ($0.temporary, $0.permanent) }
            return .identitiesAssigned(table: $0.key, ids: Dictionary(uniqueKeysWithValues: pairs))
        }
    }

    /// Puts the ids that `temp.tidemark_assigned` lists in the place of the old ones, wherever
    /// something waits or is parked.
    func rewrite() throws { try rewriteAssigned(in: Self.holders) }

    /// Puts the new ids of `temp.tidemark_assigned` wherever these tables have the old ones: in
    /// keys and in references.
    func rewriteAssigned(in holders: [String]) throws {
        for holder in holders {
            try db.cachedStatement(
                sql: """
                    UPDATE OR REPLACE \(holder) SET key = CAST(m.permanent AS TEXT)
                    FROM temp.tidemark_assigned AS m
                    WHERE m.tbl = \(holder).tbl AND \(holder).key = CAST(m.temporary AS TEXT)
                    """
            ).execute()
            for table in schema.tables { try rewriteReferences(of: table, in: holder) }
        }
    }

    /// The members of a bookkeeping table that hold columns of records.
    static let images = [
        "tidemark_outbox": ["attributes", "before"], "tidemark_base": ["image"],
        "tidemark_conflict_record": ["mine", "base"],
    ]

    private func rewriteReferences(of table: SyncedTable, in holder: String) throws {
        if planted(PlantedBug.keepsTemporaryReferences) { return }
        for (column, parent) in Catalog.integerReferences(of: table, in: schema) {
            if let position = table.key.firstIndex(of: column) {
                guard table.keyKind != .integer else { continue }
                let path = table.key.count > 1 ? "$[\(position)]" : "$"
                try rewrite("key", path: path, parent, table, in: holder)
                continue
            }
            for image in Self.images[holder] ?? [] {
                try rewrite(image, path: "$.\"\(column)\"", parent, table, in: holder)
            }
        }
    }

    /// What only this file has does not go and come with the answer: the rows themselves are
    /// rewritten.
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
                        UPDATE main.\(SQLText.name(table.name)) SET \(SQLText.name(column)) = m.permanent
                        FROM temp.tidemark_assigned AS m
                        WHERE m.tbl = :parent AND m.temporary = \(SQLText.name(column));
                        UPDATE tidemark_held SET value = m.permanent FROM temp.tidemark_assigned AS m
                        WHERE tidemark_held.tbl = :table AND col = :column AND m.tbl = :parent
                            AND m.temporary = value;
                        """,
                    arguments: ["parent": parent.name, "table": table.name, "column": column]
                )
            }
        }
    }

    private func rewrite(_ member: String, path: String, _ parent: String, _ table: SyncedTable, in holder: String)
        throws
    {
        try db.cachedStatement(
            sql: """
                UPDATE OR REPLACE \(holder) SET \(member) = json_set(\(member), ?1, m.permanent)
                FROM temp.tidemark_assigned AS m
                WHERE m.tbl = ?2 AND \(holder).tbl = ?3 AND m.temporary = \(holder).\(member) ->> ?1
                """
        ).execute(arguments: [path, parent, table.name])
    }
}
