import TidemarkCore

/// Fills the replaced values into a log of an earlier version.
///
/// It stored only those that no earlier entry had set. The others are in the change sets of the earlier revisions, as
/// far as the log has them.
extension BookDatabase {
    /// Adds to the entries of updates and deletions the values that they replaced.
    package func fillReplacedValues() throws {
        var place: [Value] = [.text(""), .text("")]
        while true {
            let names = try rows(FillSQL.changedRecords, place).map { row in
                [Value.text(try row.text(0)), .text(try row.text(1))]
            }
            guard let last = names.last else { return }
            place = last
            let entries = try rows(BookQuestion(FillSQL.entries, about: names)).compactMap(LogRecord.init)
            try fill(entries.sorted { $0.revision < $1.revision })
        }
    }

    /// Follows the values of records through their entries, one change set after another.
    private func fill(_ entries: [LogRecord]) throws {
        var known: [[String]: [String: String]] = [:]
        var filled: [[Value]] = []
        var bytes = 0
        var start = 0
        while start < entries.count {
            let revision = entries[start].revision
            let end = entries[start...].firstIndex { $0.revision != revision } ?? entries.count
            let attributes = try attributes(in: changeSets(of: [revision])[revision])
            for entry in entries[start..<end] {
                let name = [entry.table, entry.key]
                let before = LogRecord.values(entry.replaced).merging(known[name] ?? [:]) { $1 }
                let isUpdate = entry.operation == .update
                let replaced = isUpdate ? before.filter { entry.columns.contains($0.key) } : before
                if entry.operation != .create, !replaced.isEmpty {
                    let members = replaced.sorted { $0.key < $1.key }.map {
                        (WireName.member(column: $0.key), $0.value)
                    }
                    let object = JSONText.object(members)
                    bytes += object.utf8.count
                    filled.append([.text(entry.table), .text(entry.key), .integer(revision), .text(object)])
                }
                let unchanged = known[name]?.filter { isUpdate && !entry.columns.contains($0.key) } ?? [:]
                known[name] = unchanged.merging(attributes[[entry.table, Self.member(key: entry.key)]] ?? [:]) { $1 }
            }
            start = end
            guard bytes > 4 << 20 || start == entries.count else { continue }
            try write(FillSQL.replaced, count: filled.count) { filled[$0] }
            filled = []
            bytes = 0
        }
    }

    /// The attributes of the records of a change set, by table and key.
    private func attributes(in body: String?) -> [[String]: [String: String]] {
        var found: [[String]: [String: String]] = [:]
        for part in body.flatMap({ JSONParts.members(of: $0) }) ?? [] {
            let members = JSONParts.members(of: part.value) ?? []
            guard let attributes = members.first(where: { $0.name == "attributes" }) else { continue }
            let table = WireName.name(of: JSONText.unquote("\"\(part.name)\""))
            for record in JSONParts.members(of: attributes.value) ?? [] {
                let columns = (JSONParts.members(of: record.value) ?? []).filter {
                    !WireName.recordMembers.contains($0.name)
                }
                found[[table, record.name]] = Dictionary(columns.map { (WireName.name(of: $0.name), $0.value) }) { $1 }
            }
        }
        return found
    }

    /// The member of `attributes` that stands for a key, with its escapes.
    private static func member(key: String) -> String {
        String((key.hasPrefix("\"") ? key : JSONText.quote(key)).dropFirst().dropLast())
    }
}

private enum FillSQL {
    static let changedRecords = BookStatement(
        """
        SELECT DISTINCT tbl, key
        FROM {log}
        WHERE {here} AND operation <> 'create' AND (tbl, key) > ($2, $3)
        ORDER BY tbl, key
        LIMIT 1000
        """)
    static let entries = BookStatement(
        """
        SELECT entry.revision, entry.tbl, entry.key, entry.operation, entry.columns, entry.replaced, entry.merged
        FROM {each log AS entry: entry.tbl = asked.tbl AND entry.key = asked.key}
        """,
        about: ["tbl": "text", "key": "text"])
    static let replaced = BookStatement(
        sqlite: """
            UPDATE {log} AS entry
            SET replaced = asked.replaced
            FROM {asked}
            WHERE entry.tbl = asked.tbl AND entry.key = asked.key AND entry.revision = asked.revision
            """,
        postgres: """
            UPDATE {log} AS entry
            SET replaced = asked.replaced
            FROM {each log AS found: found.tbl = asked.tbl AND found.key = asked.key AND found.revision = asked.revision}
            WHERE entry.ctid = found.row_place
            """,
        about: ["tbl": "text", "key": "text", "revision": "bigint", "replaced": "text"])
}
