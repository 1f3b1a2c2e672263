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
        let rewriting = RewriteKeys(db: db, schema: schema, pairs: .spellings)
        try rewriting.run()
        try rewriting.runInOwnReferences()
    }

    /// Returns a sent key in canonical JSON; parts that are ids are already permanent, as in the server's key.
    private static func key(_ sent: String, sentFor key: String) -> String {
        let parts = zip(Value.parts(ofKey: sent), Value.parts(ofKey: key)).map { old, new in
            key.hasPrefix("[") && new.text == nil ? new : old
        }
        return Value.key(ofParts: parts)
    }
}
