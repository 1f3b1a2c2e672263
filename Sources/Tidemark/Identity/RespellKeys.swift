import GRDB
import TidemarkCore
import TidemarkSQL

/// Applies the server's spelling to the keys of new records.
///
/// PostgreSQL stores an upper-case UUID in lower case, and `1.5` in a `numeric(10,2)` as `1.50`. The answer names such
/// a record by the server's spelling, and has the sent spelling as `__oldId__`. The answer also has the row. It is an
/// update if the change set deletes the record under the server's spelling and creates it under the device's. The
/// device updates keys and references in pending changes and conflicts, as for temporary ids.
struct RespellKeys {
    let db: Database
    let schema: SyncSchema

    /// Applies the spellings of accepted change sets; the caller maps ids first.
    func run(_ accepted: [Answered.Own]) throws {
        try db.execute(cached: "DELETE FROM temp.tidemark_respelled")
        for own in accepted {
            for record in own.set.changeSet.records where record.authorsKey != nil && record.operation != .delete {
                guard record.table < schema.tables.count, schema.tables[record.table].keyKind != .integer,
                    let sent = try own.set.sentKey(of: record)
                else { continue }
                try db.execute(
                    cached: """
                        INSERT OR IGNORE INTO temp.tidemark_respelled
                        SELECT tbl, key, ?4 FROM tidemark_outbox
                        WHERE seq = ?1 AND tbl = ?2 AND key = ?3 AND operation = 'create' AND key <> ?4
                        """,
                    arguments: [
                        own.pending.seq, schema.tables[record.table].name, Self.key(sent, sentFor: record.key),
                        record.key,
                    ])
            }
        }
        guard try Bool.fetchOne(db, cached: "SELECT EXISTS (SELECT 1 FROM temp.tidemark_respelled)") == true else {
            return
        }
        for holder in MapIdentities.holders { try rewriteKeys(in: holder) }
        for table in schema.tables {
            for (column, parent) in references(of: table) {
                for holder in MapIdentities.holders { try rewrite(column, of: table, to: parent, in: holder) }
            }
        }
        try rewriteOwnReferences()
    }

    /// Returns a sent key in canonical JSON; parts that are ids are already permanent, as in the server's key.
    private static func key(_ sent: String, sentFor key: String) -> String {
        let parts = zip(Value.parts(ofKey: sent), Value.parts(ofKey: key)).map { old, new in
            key.hasPrefix("[") && new.text == nil ? new : old
        }
        return Value.key(ofParts: parts)
    }

    private func rewriteKeys(in holder: String) throws {
        try db.execute(
            cached: """
                UPDATE OR REPLACE \(holder) SET key = respelled.new
                FROM temp.tidemark_respelled AS respelled
                WHERE respelled.tbl = \(holder).tbl AND \(holder).key = respelled.old
                """)
    }

    private func references(of table: SyncedTable) -> [(column: String, parent: String)] {
        table.references.compactMap { reference in
            guard let parent = schema.byName[reference.parent], parent.keyKind != .integer,
                reference.columns.count == 1, reference.parentColumns == parent.key
            else { return nil }
            return (reference.columns[0], parent.name)
        }
    }

    private func rewrite(_ column: String, of table: SyncedTable, to parent: String, in holder: String) throws {
        var members = (MapIdentities.images[holder] ?? []).map { ($0, MemberSQL.path(column)) }
        if let position = table.key.firstIndex(of: column) {
            members = [("key", table.key.count > 1 ? "$[\(position)]" : "$")]
        }
        for (member, path) in members {
            let changed = "json_set(\(member), ?1, respelled.new ->> '$')"
            try db.execute(
                cached: """
                    UPDATE OR REPLACE \(holder)
                    SET \(member) = \(member == "key" ? "tidemark_canonical(\(changed))" : changed)
                    FROM temp.tidemark_respelled AS respelled
                    WHERE respelled.tbl = ?2 AND \(holder).tbl = ?3
                        AND \(holder).\(member) ->> ?1 = respelled.old ->> '$'
                    """, arguments: [path, parent, table.name])
        }
    }

    /// Applies the spellings to references that only this file has, which answers do not contain.
    private func rewriteOwnReferences() throws {
        let difference = schema.difference
        for table in schema.tables + difference.unservedTables {
            let own = difference.unservedColumns[table.name].map { Set($0.map(\.name)) }
            for (column, parent) in references(of: table)
            where schema.byName[table.name] == nil || own?.contains(column) == true {
                try db.execute(
                    sql: """
                        UPDATE main.\(SQLText.name(table.name)) SET \(SQLText.name(column)) = respelled.new ->> '$'
                        FROM temp.tidemark_respelled AS respelled
                        WHERE respelled.tbl = :parent AND respelled.old ->> '$' = \(SQLText.name(column));
                        UPDATE tidemark_held SET value = respelled.new ->> '$'
                        FROM temp.tidemark_respelled AS respelled
                        WHERE tidemark_held.tbl = :table AND col = :column
                            AND respelled.tbl = :parent AND respelled.old ->> '$' = value;
                        """, arguments: ["parent": parent, "table": table.name, "column": column])
            }
        }
    }
}
