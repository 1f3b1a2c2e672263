import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// Rows of rebuilt tables that an answer replaced before the device compared them with the zone's.
///
/// No trigger captured what the migration wrote, so the row alone does not say which of its values are edits.
/// Where the zone has changed the record since, neither do the zone's rows. So the device keeps the row as it was,
/// and asks the server for the record's history: it has the values at the revision that the row was based on. A
/// value that differs from them is an edit, and becomes one based on that revision. A value that equals them
/// is none. Where the history does not reach so far, both values become a conflict.
struct ReplacedRows {
    let db: Database
    let schema: SyncSchema

    /// Keeps the rows that a change set is about to replace; NULL stands for a row that is gone.
    ///
    /// The caller has rewound the pending changes. A record that has some is as it was before the first of them, with
    /// what the migration wrote. Of a row that an earlier answer has replaced, the history has grown.
    func keep(_ changeSet: PendingChangeSet, of tables: [SyncedTable]) throws {
        for table in tables {
            let isHere = "app_row.\(SQLText.name(table.key[0])) IS NOT NULL"
            try db.execute(
                cached: """
                    INSERT INTO tidemark_replaced (tbl, key, since, mine, base, asked)
                    SELECT ?2, listed.value ->> 0, state.revision, iif(\(isHere), \(image(table)), NULL),
                        iif(\(isHere), NULL, '{}'), NOT \(isHere)
                    FROM json_each(?1) AS listed
                    CROSS JOIN tidemark_state AS state
                    LEFT JOIN main.\(SQLText.name(table.name)) AS app_row
                        ON \(KeySQL.match(table, key: "(listed.value ->> 0)", alias: "app_row."))
                    WHERE \(isHere) OR listed.value ->> 1 = 'update'
                    ON CONFLICT (tbl, key) DO UPDATE SET asked = 0, base = NULL WHERE mine IS NOT NULL
                    """, arguments: [changeSet.list(of: table, in: schema), table.name])
        }
    }

    /// Lists rows that only the snapshot has, deleted here or made since; returns whether to ask the server.
    func keepMissing(of tables: [SyncedTable]) throws -> Bool {
        for table in tables where !table.hasRowidKey {
            let names = schema.difference.wireNames[table.name, default: [:]]
            let key = table.key.map { SQLText.name(names[$0] ?? $0) }.joined(separator: ", ")
            let match = KeySQL.match(table, key: "zone_row.key", alias: "app_row.", isExact: false)
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO tidemark_replaced (tbl, key, since)
                    SELECT ?1, zone_row.key, state.revision
                    FROM (SELECT tidemark_key(\(key)) AS key FROM snapshot.\(SQLText.name(table.name))) AS zone_row
                    CROSS JOIN tidemark_state AS state
                    WHERE NOT EXISTS (SELECT 1 FROM main.\(SQLText.name(table.name)) AS app_row WHERE \(match))
                        AND NOT EXISTS (
                            SELECT 1 FROM tidemark_base AS base WHERE base.tbl = ?1 AND base.key = zone_row.key)
                    """, arguments: [table.name])
        }
        return try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_replaced WHERE mine IS NULL AND NOT asked)") ?? false
    }

    /// Forgets the rows that were kept at a revision, because they were as the server had confirmed them.
    func forget(keptAt revision: Int64) throws {
        try db.execute(cached: "DELETE FROM tidemark_replaced WHERE since = ?", arguments: [revision])
    }

    func forgetAll() throws { try db.execute(sql: "DELETE FROM tidemark_replaced") }

    // MARK: The history

    /// Returns the question about the next record whose row differs from the server's; nil if none is left.
    func question(zone: String) throws -> HistoryQuestion? {
        for table in schema.tables {
            let row = try Row.fetchOne(
                db,
                cached: """
                    SELECT kept.key, kept.since FROM (\(comparedRows(table))) AS kept
                    WHERE NOT kept.asked AND (kept.mine IS NULL OR kept.mine IS NOT kept.theirs)
                    LIMIT 1
                    """)
            guard let row else { continue }
            let key: String = try row.value("key")
            return HistoryQuestion(
                zone: zone, table: table.name, key: key, path: RecordPath.text(canonical: key, of: table),
                since: try row.value("since"))
        }
        return nil
    }

    /// Stores the values of a record before the first change after the question's revision.
    func take(_ answer: [UInt8], to question: HistoryQuestion) throws {
        let text = String(decoding: answer, as: UTF8.self)
        let entries = """
            SELECT entry.value ->> '$.revision' AS revision, entry.value ->> '$.operation' AS operation,
                entry.value -> '$.before' AS before
            FROM json_each(iif(json_valid(?1), ?1, '{}'), '$.history') AS entry
            WHERE entry.value ->> '$.revision' > ?2
            """
        let summary = try Row.fetchOne(
            db,
            sql: """
                SELECT coalesce(min(revision) FILTER (WHERE operation <> 'update'), max(revision)) AS last,
                    (SELECT operation FROM (\(entries)) ORDER BY revision LIMIT 1) AS first,
                    iif(json_valid(?1), ?1 ->> '$.next' > ?2, 0) AS isCut
                FROM (\(entries))
                """, arguments: [text, question.since])
        let isCut: Bool? = try summary?.value("isCut")
        guard let last: Int64 = try summary?.value("last"), isCut != true else { return try store("{}", for: question) }
        // Another device has made the record since.
        if let first: String = try summary?.value("first"), first == "create" { return try store(nil, for: question) }
        let values = try Row.fetchAll(
            db,
            sql: """
                SELECT iif(substr(cell.key, 1, 1) = '$', substr(cell.key, 2), cell.key) AS name,
                    coalesce((entry.before -> cell.fullkey) ->> '$."$int"', entry.before -> cell.fullkey) AS value,
                    min(entry.revision)
                FROM (\(entries)) AS entry, json_each(entry.before) AS cell
                WHERE entry.revision <= ?3 AND cell.key IS NOT NULL
                GROUP BY 1
                """, arguments: [text, question.since, last])
        let ownNames = Dictionary(
            schema.difference.wireNames[question.table, default: [:]].map { ($0.value, $0.key) },
            uniquingKeysWith: { first, _ in first })
        let members = try values.map { row in
            let name: String = try row.value("name")
            let member = WireName.member(column: ownNames[name] ?? name)
            return "\(JSONText.quote(member)):\(try row.value("value") as String)"
        }
        try store("{\(members.joined(separator: ","))}", for: question)
    }

    /// Notes that the server does not tell a record's history; with `all`, nobody's.
    ///
    /// A row that only the zone has comes back then, since a retry of its deletion could delete another one's record.
    func giveUp(_ question: HistoryQuestion, all: Bool) throws {
        try db.execute(
            sql: """
                UPDATE tidemark_replaced SET asked = 1, base = iif(mine IS NULL, NULL, '{}')
                WHERE NOT asked AND (?1 OR tbl = ?2 AND key = ?3)
                """, arguments: [all, question.table, question.key])
    }

    private func store(_ base: String?, for question: HistoryQuestion) throws {
        try db.execute(
            cached: "UPDATE tidemark_replaced SET asked = 1, base = ? WHERE tbl = ? AND key = ?",
            arguments: [base, question.table, question.key])
    }

    // MARK: Conflicts

    /// Parks values of replaced rows that may be edits; in the tables `restored`, known edits go into their rows.
    func park(restored: Set<String>, now: String, newID: @escaping () -> UUID) throws -> [DeviceEvent] {
        let uncaptured = UncapturedEdits(db: db, schema: schema, now: now, newID: newID)
        for (place, table) in schema.tables.enumerated() {
            let rows = try Row.fetchAll(
                db,
                cached: """
                    SELECT key, mine, base, theirs FROM (\(comparedRows(table)))
                    WHERE mine IS NOT NULL AND mine IS NOT theirs
                    """)
            for row in rows {
                let key: String = try row.value("key")
                let theirs: String? = try row.value("theirs")
                guard let mine = try RecordImage(stored: row.value("mine")) else { continue }
                let base = try RecordImage(stored: row.value("base"))
                let images = ThreeWay(base: base, theirs: try RecordImage(stored: theirs))
                var edits = images.edits(in: mine)
                if theirs != nil {
                    if restored.contains(table.name) { edits = edits.filter { base?.columns[$0] == nil } }
                    guard !edits.isEmpty else { continue }
                    try uncaptured.add(place, .update, key: key, base: nil, mine: mine.part(edits).json, theirs: theirs)
                } else if let base, base.has(Set(mine.columns.keys)) {
                    guard !edits.isEmpty else { continue }
                    let seen = base.part(mine.columns.keys).json
                    try uncaptured.add(place, .update, key: key, base: seen, mine: mine.part(edits).json, theirs: nil)
                } else if !mine.columns.isEmpty {
                    // Without the whole row at that revision, the deleted record may be made again of this one only.
                    try uncaptured.add(place, .create, key: key, base: nil, mine: mine.json, theirs: nil)
                }
            }
        }
        return try uncaptured.park().events
    }

    /// Returns the kept rows of a table, each with the row that the server has confirmed since.
    private func comparedRows(_ table: SyncedTable) -> String {
        """
        SELECT replaced.key, replaced.since, replaced.mine, replaced.base, replaced.asked,
            CASE WHEN base.key IS NOT NULL THEN base.image ELSE (
                SELECT \(image(table)) FROM main.\(SQLText.name(table.name)) AS app_row
                WHERE \(KeySQL.match(table, key: "replaced.key", alias: "app_row."))) END AS theirs
        FROM tidemark_replaced AS replaced
        LEFT JOIN tidemark_base AS base ON base.tbl = replaced.tbl AND base.key = replaced.key
        WHERE replaced.tbl = \(SQLText.literal(table.name))
        """
    }

    /// Returns the SQL of a row's values in the columns that the zone has, too.
    private func image(_ table: SyncedTable) -> String {
        let columns = schema.difference.served(table.valueColumns, of: table.name).map(\.own)
        return RowJSON.object(columns, prefix: "app_row.")
    }
}

/// A question to the server about the history of one record.
package struct HistoryQuestion: Hashable, Sendable {
    package let zone: String
    package let table: String
    /// The key in canonical JSON.
    package let key: String
    /// The key as it stands in a path of a URL.
    package let path: String
    /// The revision at which the record's values are wanted.
    let since: Int64
}
