import GRDB
import TidemarkCore
import TidemarkSQLite

/// Keys of new records that the server's database spells in another way: an upper-case UUID becomes
/// one in lower case, `1.5` in a `numeric(10,2)` becomes `1.50`.
///
/// The author's copy names such a record by the server's spelling, and by the one that was sent as
/// `__oldId__`. The row itself comes with the answer; everything that still waits, or is parked,
/// and names the record by the old spelling is rewritten, as it is for temporary ids.
struct RespellKeys {
    let db: Database
    let schema: SyncSchema

    /// Takes the spellings of accepted change sets, given by the numbers under which they are
    /// staged, once ids are mapped.
    func take(_ ords: [Int]) throws {
        try db.cachedStatement(sql: "DELETE FROM temp.tidemark_respelled").execute()
        guard !ords.isEmpty else { return }
        try db.cachedStatement(
            sql: """
                INSERT OR IGNORE INTO temp.tidemark_respelled
                SELECT n.tbl, o.key, n.key FROM (
                    SELECT s.ord, s.tbl, s.key, \(Self.sentKey) AS sent
                    FROM temp.tidemark_staged AS s JOIN temp.tidemark_table AS t ON t.tbl = s.tbl
                    WHERE s.ord IN (SELECT value FROM json_each(?)) AND s.operation = 'create'
                        AND s.old_key IS NOT NULL AND t.kind <> 'integer'
                ) AS n JOIN temp.tidemark_answered AS a ON a.ord = n.ord
                    JOIN tidemark_changeset AS c ON c.id = a.id
                    JOIN tidemark_outbox AS o ON o.seq = c.seq AND o.tbl = n.tbl
                        AND o.operation = 'create' AND o.key <> n.key
                WHERE CASE WHEN tidemark_refusal(n.sent) IS NULL
                    THEN tidemark_canonical(n.sent) = o.key END
                """
        ).execute(arguments: ["[" + ords.map(String.init).joined(separator: ",") + "]"])
        guard db.changesCount > 0 else { return }
        for holder in MapIdentities.holders { try rewriteKeys(in: holder) }
        for table in schema.tables {
            for (column, parent) in references(of: table) {
                for holder in MapIdentities.holders { try rewrite(column, of: table, to: parent, in: holder) }
            }
        }
        try rewriteOwnReferences()
    }

    /// The key of staged record `s` as it was sent, JSON; parts that are ids are permanent by now.
    private static let sentKey = """
        CASE WHEN json_type(s.key) <> 'array' THEN s.attributes -> '$.__oldId__' ELSE (
            SELECT '[' || group_concat(CASE n.type WHEN 'text'
                THEN (s.attributes -> '$.__oldId__') -> o.fullkey ELSE s.key -> n.fullkey END) || ']'
            FROM json_each(s.key) AS n JOIN json_each(s.attributes, '$.__oldId__') AS o USING (key)
        ) END
        """

    private func rewriteKeys(in holder: String) throws {
        try db.cachedStatement(
            sql: """
                UPDATE OR REPLACE \(holder) SET key = r.new FROM temp.tidemark_respelled AS r
                WHERE r.tbl = \(holder).tbl AND \(holder).key = r.old
                """
        ).execute()
    }

    /// The columns of a table that hold another one's key, which is no id.
    private func references(of table: SyncedTable) -> [(column: String, parent: String)] {
        table.references.compactMap { reference in
            guard let parent = schema.byName[reference.parent], parent.keyKind != .integer,
                reference.columns.count == 1, reference.parentColumns == parent.key
            else { return nil }
            return (reference.columns[0], parent.name)
        }
    }

    private func rewrite(_ column: String, of table: SyncedTable, to parent: String, in holder: String) throws {
        var members = (MapIdentities.images[holder] ?? []).map { ($0, "$.\"\(column)\"") }
        if let position = table.key.firstIndex(of: column) {
            members = [("key", table.key.count > 1 ? "$[\(position)]" : "$")]
        }
        for (member, path) in members {
            let changed = "json_set(\(member), ?1, r.new ->> '$')"
            try db.cachedStatement(
                sql: """
                    UPDATE OR REPLACE \(holder)
                    SET \(member) = \(member == "key" ? "tidemark_canonical(\(changed))" : changed)
                    FROM temp.tidemark_respelled AS r
                    WHERE r.tbl = ?2 AND \(holder).tbl = ?3 AND \(holder).\(member) ->> ?1 = r.old ->> '$'
                    """
            ).execute(arguments: [path, parent, table.name])
        }
    }

    /// What only this file has does not go and come with the answer: the rows themselves are
    /// rewritten.
    private func rewriteOwnReferences() throws {
        let difference = schema.difference
        for table in schema.tables + difference.unservedTables {
            let own = difference.unservedColumns[table.name].map { Set($0.map(\.name)) }
            for (column, parent) in references(of: table)
            where schema.byName[table.name] == nil || own?.contains(column) == true {
                try db.execute(
                    sql: """
                        UPDATE main.\(SQLText.name(table.name)) SET \(SQLText.name(column)) = r.new ->> '$'
                        FROM temp.tidemark_respelled AS r
                        WHERE r.tbl = :parent AND r.old ->> '$' = \(SQLText.name(column));
                        UPDATE tidemark_held SET value = r.new ->> '$' FROM temp.tidemark_respelled AS r
                        WHERE tidemark_held.tbl = :table AND col = :column AND r.tbl = :parent
                            AND r.old ->> '$' = value;
                        """,
                    arguments: ["parent": parent, "table": table.name, "column": column]
                )
            }
        }
    }
}
