import TidemarkCore

/// Compaction up to a horizon. Devices behind the horizon take a snapshot instead.
///
/// - The texts of revisions below the horizon go. Their authors and times stay, because policies compare times.
/// - Of a record's entries up to the horizon, those stay that last set a column, or last created the record again. The
///   server needs both to judge edits on an older base. An entry that stays counts as another device's change for all
///   who have not seen the last change of another device that it replaced. An update keeps the values that it replaced.
/// - The entries of deleted records go. An update of such a record is a conflict anyway, and a record with a text key
///   can be created again.
/// - Verdicts stay for ever, so that no change set is applied twice. Up to the horizon only the new ids stay, and the
///   author's copies with overruled values: if the answer was lost, they are the only place that has these values.
extension CommitTransaction {
    /// Removes the texts of revisions up to `horizon`, and the data that only they need.
    ///
    /// Older bases can still be judged: the log has the last author and time of each column of each existing record.
    package func compact(to horizon: Int64) throws {
        var head = try head()
        let range = [head.state.horizon, horizon].map { Value.integer($0) }
        try write(CompactSQL.deleteEntriesOfDeletedRecords, range)
        try mergeEntries(range)
        try write(CompactSQL.shortenVerdicts, range)
        // The horizon's own text stays for devices that are at the horizon.
        try write(CompactSQL.deleteTexts, range)
        try write(CompactSQL.deleteRest, [.integer(horizon)])
        try write(CompactSQL.deleteFingerprints, [.integer(horizon)])
        head.state = head.state.with(horizon: horizon)
        try keep(head)
    }

    /// Removes the log up to a damaged entry.
    package func forgetLog(through revision: Int64) throws {
        if try head().state.horizon < revision { try compact(to: revision) }
        // The entry's hash is unreliable, too, and the check of the next entry would use it.
        try write(CompactSQL.forgetText, [.integer(revision)])
        try write(CompactSQL.deleteRest, [.integer(revision + 1)])
    }

    /// Merges the entries of each record that has several, some records at a time.
    private func mergeEntries(_ range: [Value]) throws {
        let numbered = Set(schema.tables.filter { $0.keyKind == .integer }.map(\.name))
        var place: [Value] = [.text(""), .text("")]
        while true {
            let records = try rows(CompactSQL.recordsWithSeveral, range + place).map { row in
                [Value.text(try row.text(0)), .text(try row.text(1))]
            }
            guard let last = records.last else { return }
            place = last
            for start in stride(from: 0, to: records.count, by: 1_000) {
                try merge(Array(records[start..<min(start + 1_000, records.count)]), range, numbered: numbered)
            }
        }
    }

    private func merge(_ names: [[Value]], _ range: [Value], numbered: Set<String>) throws {
        let entries = try rows(BookQuestion(CompactSQL.entries, [range[1]], about: names))
        var merged: [[Value]] = []
        var removed: [[Value]] = []
        var start = 0
        while start < entries.count {
            let name = (table: try entries[start].text(0), key: try entries[start].text(1))
            let end = entries[start...].firstIndex { $0[0] != name.table || $0[1] != name.key } ?? entries.count
            let history = try RecordEntries(entries[start..<end], isNumbered: numbered.contains(name.table))
            for (revision, last) in history.merged {
                let entry = [Value.text(name.table), .text(name.key), .integer(revision)]
                if let last { merged.append(entry + last) } else { removed.append(entry) }
            }
            start = end
        }
        try write(CompactSQL.deleteEntries, count: removed.count) { removed[$0] }
        try write(CompactSQL.mergeEntries, count: merged.count) { merged[$0] }
    }
}

/// The entries of one record, oldest first.
private struct RecordEntries {
    private struct Entry {
        let revision: Int64
        let operation: String
        let columns: [String]
        let isMerged: Bool
        let device: String?
        /// The last revision of another device whose changes an earlier compaction has merged into this entry.
        let absorbed: Int64
    }

    private let entries: [Entry]
    /// Whether the server has given the record its id, so that no device knew the record before its first creation.
    private let isNumbered: Bool

    init(_ rows: ArraySlice<BookRow>, isNumbered: Bool) throws {
        self.isNumbered = isNumbered
        entries = try rows.map { row in
            Entry(
                revision: try row.number(2), operation: try row.text(3),
                columns: row[4].map { Value.parts(ofKey: $0).compactMap(\.text) } ?? [], isMerged: row.isTrue(5),
                device: row[6], absorbed: row.integer(7) ?? 0)
        }
    }

    /// Each entry with its operation and columns afterwards; nil if it goes.
    ///
    /// A record that was deleted and created again keeps a creation. The first creation under an id from the server
    /// needs none.
    var merged: [(revision: Int64, last: [Value]?)] {
        let renewal = entries.last { entry in
            entry.operation == "delete"
                || entry.operation == "create"
                    && (entry.isMerged || !isNumbered || entry.revision > entries[0].revision)
        }
        var last: [String: Int64] = [:]
        for entry in entries where entry.operation == "update" && entry.revision > renewal?.revision ?? 0 {
            for column in entry.columns { last[column] = entry.revision }
        }
        let columns = Dictionary(grouping: last.keys) { last[$0] ?? 0 }
        let replaced = entries.filter { entry in
            entry.revision != renewal?.revision && columns[entry.revision]?.count != entry.columns.count
        }
        return entries.map { entry in
            let isRenewal = entry.revision == renewal?.revision
            guard let names = isRenewal ? [] : columns[entry.revision] else { return (entry.revision, nil) }
            let earlier = replaced.filter { other in
                other.revision < entry.revision
                    && (isRenewal || other.operation != "update" || other.columns.contains(where: names.contains))
            }
            // Changes without a device may have any author.
            let isOwn = { (other: Entry) in entry.device != nil && other.device == entry.device }
            let absorbed = earlier.map { isOwn($0) ? $0.absorbed : $0.revision }.max() ?? 0
            let list = JSONText.array(names.sorted().map { JSONText.quote($0) })
            let last = isRenewal ? [.text("create"), .null] : [Value.text("update"), .text(list)]
            return (entry.revision, last + [.integer(max(absorbed, entry.absorbed))])
        }
    }
}

private enum CompactSQL {
    /// The records that have entries after `$2` up to `$3`; without the index, SQLite reads the whole log.
    private static let changed = """
        SELECT DISTINCT tbl, key
        FROM {log} {INDEXED BY tidemark_log_revision|}
        WHERE {here} AND revision > $2 AND revision <= $3
        """

    static let deleteEntriesOfDeletedRecords = BookStatement(
        """
        DELETE FROM {log}
        WHERE {here} AND (tbl, key, revision) IN (
            SELECT entry.tbl, entry.key, entry.revision
            FROM (\(changed)) AS changed
            CROSS JOIN {log} AS entry
            WHERE {here entry} AND entry.tbl = changed.tbl AND entry.key = changed.key AND entry.revision <= $3
                AND (
                    SELECT last_entry.operation
                    FROM {log} AS last_entry
                    WHERE {here last_entry} AND last_entry.tbl = changed.tbl AND last_entry.key = changed.key
                    ORDER BY last_entry.revision DESC
                    LIMIT 1) = 'delete')
        """)
    static let recordsWithSeveral = BookStatement(
        """
        SELECT changed.tbl, changed.key
        FROM (\(changed) AND (tbl, key) > ($4, $5)) AS changed
        CROSS JOIN {log} AS entry
        WHERE {here entry} AND entry.tbl = changed.tbl AND entry.key = changed.key AND entry.revision <= $3
        GROUP BY changed.tbl, changed.key
        HAVING count(*) > 1
        ORDER BY changed.tbl, changed.key
        LIMIT 50000
        """)
    private static let record: KeyValuePairs = ["tbl": "text", "key": "text"]
    static let entries = BookStatement(
        """
        SELECT entry.tbl, entry.key, entry.revision, entry.operation, entry.columns, entry.merged, origin.device,
            entry.absorbed
        FROM {each log AS entry: entry.tbl = asked.tbl AND entry.key = asked.key AND entry.revision <= $2}
        LEFT JOIN {revision} AS origin ON {here origin} AND origin.revision = entry.revision
        ORDER BY asked.n, entry.revision
        """,
        about: record)
    static let deleteEntries = BookStatement(
        sqlite: "DELETE FROM {log} AS entry WHERE (tbl, key, revision) IN (SELECT tbl, key, revision FROM {asked})",
        postgres: "DELETE FROM {log} AS entry USING \(found) WHERE entry.ctid = found.row_place",
        about: ["tbl": "text", "key": "text", "revision": "bigint"])
    private static let found =
        "{each log AS found: found.tbl = asked.tbl AND found.key = asked.key AND found.revision = asked.revision}"
    /// A creation that stands for several changes replaced nothing.
    private static let merge = """
        UPDATE {log} AS entry
        SET operation = asked.operation, columns = asked.columns, merged = {1|true}, absorbed = asked.absorbed,
            replaced = CASE WHEN asked.operation = 'update' THEN entry.replaced END
        """
    static let mergeEntries = BookStatement(
        sqlite: """
            \(merge)
            FROM {asked}
            WHERE entry.tbl = asked.tbl AND entry.key = asked.key AND entry.revision = asked.revision
            """,
        postgres: "\(merge) FROM \(found) WHERE entry.ctid = found.row_place",
        about: [
            "tbl": "text", "key": "text", "revision": "bigint", "operation": "text", "columns": "text",
            "absorbed": "bigint",
        ])

    static let shortenVerdicts = BookStatement(
        """
        UPDATE {verdict}
        SET body = NULL
        WHERE {here} AND revision > $2 AND revision <= $3 AND body IS NOT NULL AND ids IS NOT NULL
            AND coalesce(json_array_length({body ->|body::json ->} 'overruled'), 0) = 0
        """)
    static let deleteTexts = BookStatement(
        "UPDATE {revision} SET body = '' WHERE {here} AND revision >= $2 AND revision < $3")
    static let deleteRest = BookStatement(
        "DELETE FROM {main.tidemark_revision_rest|tidemark.piece} WHERE {here} AND revision < $2")
    static let deleteFingerprints = BookStatement("DELETE FROM {fingerprint} WHERE {here} AND revision < $2")
    static let forgetText = BookStatement("UPDATE {revision} SET body = '', chain = '' WHERE {here} AND revision = $2")
}
