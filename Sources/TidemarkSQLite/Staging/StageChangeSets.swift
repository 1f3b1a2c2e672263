import Foundation
package import GRDB
package import TidemarkCore

/// Turns the JSON of change sets into staged records and cells, in sets: a handful of statements
/// whatever the number of rows.
///
/// Names and keys are checked against the catalogue on the way; a body with anything wrong in it is
/// refused whole.
package struct ChangeSetStaging {
    /// What happens to names that the catalogue does not have.
    package enum Strangers {
        /// Refuse the body, as the server does.
        case refuse
        /// Leave those out that the zone has dropped: on a device, an old revision may name them.
        case dropped
    }

    /// The body, with what is large taken out.
    package let outline: String
    let db: Database
    let strangers: Strangers
    let hasUnicodeEscapes: Bool
    /// The hashes of the change sets of which something was taken out, by number.
    private let hashes: [Int: String]

    /// Looks through a body, and parses what is large in it; what was staged before is gone.
    ///
    /// The connection must have been prepared by ``EngineConnection``.
    package init(
        body: [UInt8],
        limits: Limits,
        strangers: Strangers = .refuse,
        in db: Database
    ) throws {
        let scan = try JSONScan(body, limits: limits)
        (self.db, self.strangers, hasUnicodeEscapes) = (db, strangers, scan.hasUnicodeEscapes)
        try StagingTables.clear(in: db)
        let bulk =
            try scan.hasWhiteSpace
            ? nil : StagedBulk(body, hasUnicodeEscapes: hasUnicodeEscapes, in: db)
        outline = bulk?.outline ?? String(decoding: body, as: UTF8.self)
        hashes = bulk?.hashes ?? [:]
    }

    /// Looks through short bodies, whose change sets are staged together by ``stage(lists:)``.
    package init(together bodies: [[UInt8]], limits: Limits, in db: Database) throws {
        let scans = try bodies.map { try JSONScan($0, limits: limits) }
        (self.db, strangers, outline, hashes) = (db, .refuse, "", [:])
        hasUnicodeEscapes = scans.contains(where: \.hasUnicodeEscapes)
        try StagingTables.clear(in: db)
    }

    /// Stages every change set of a JSON array, which is the body's outline or a member of it.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` naming the first thing that is wrong.
    package func stage(changeSets: String) throws {
        try stageSets("SELECT key, type, value FROM json_each(?)", of: changeSets)
        try stageRows()
    }

    /// Stages the change sets of several JSON arrays; ``list(of:)`` and ``index(of:)`` tell from a
    /// number which is which.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError``, whose place is not that in any of the arrays.
    package func stage(lists: [String]) throws {
        try stageSets(
            """
            SELECT l.key << \(Self.listShift) | s.key AS key, s.type, s.value
            FROM json_each(?) AS l, json_each(l.value) AS s
            """,
            of: "[\(lists.joined(separator: ","))]"
        )
        try stageRows()
    }

    /// The list of the change set with a number.
    package static func list(of ord: Int) -> Int { ord >> listShift }

    /// The same in SQL.
    package static func list(of ord: String) -> String { "(\(ord) >> \(listShift))" }

    /// The index of the change set with a number in its list.
    package static func index(of ord: Int) -> Int { ord & (1 << listShift - 1) }

    /// No list has more change sets than so many bits can tell.
    private static let listShift = 20

    private func stageRows() throws {
        try stageTables()
        try StagedBulk.parseOutline(hasUnicodeEscapes: hasUnicodeEscapes, in: db)
        try stageRecords()
        try stageCells()
    }

    /// The hash of a change set's text, given what was staged of that.
    package func hash(of ord: Int, staged json: String) -> String {
        hashes[ord] ?? ContentHash.of(json)
    }

    // MARK: Envelope

    /// `source` is a query for the elements of `json`.
    private func stageSets(_ source: String, of json: String) throws {
        do {
            // A change set that is no object has no text, and is refused by the table.
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_staged_set (ord, json)
                    SELECT key, iif(type = 'object', value, NULL) FROM (\(source))
                    """
            ).execute(arguments: [json])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw TidemarkError(
                .malformedRequest,
                "An element of changeSets is not an object.",
                fix:
                    #"A change set is {"types":["t"],"t":{"create":[],"update":[],"delete":[],"attributes":{}}}."#
            )
        }
        try refuseDuplicates(
            """
            SELECT s.ord, NULL AS tbl, NULL AS key, j.key AS name
            FROM temp.tidemark_staged_set AS s, json_each(s.json) AS j
            GROUP BY s.ord, j.key HAVING count(*) > 1 LIMIT 1
            """
        )
    }

    private func stageTables() throws {
        let members = WireName.changeSetMembers.sorted().map { SQLText.literal($0) }
        try db.cachedStatement(
            sql: """
                INSERT INTO temp.tidemark_staged_table (ord, tbl, json)
                SELECT s.ord, j.key, CASE j.type WHEN 'object' THEN j.value ELSE 'null' END
                FROM temp.tidemark_staged_set AS s, json_each(s.json) AS j
                WHERE j.key NOT IN (\(members.joined(separator: ", ")))
                """
        ).execute()
        if strangers == .dropped {
            try db.cachedStatement(
                sql: """
                    DELETE FROM temp.tidemark_staged_table
                    WHERE tbl IN (SELECT tbl FROM temp.tidemark_gone)
                        AND tbl NOT IN (SELECT tbl FROM temp.tidemark_table)
                    """
            ).execute()
        }
        try refuse(
            .unknownTable,
            "This zone has no table of that name.",
            fix: "Use a synced table's name, exactly as it is spelled in CREATE TABLE.",
            """
            SELECT t.ord, t.tbl FROM temp.tidemark_staged_table AS t
            LEFT JOIN temp.tidemark_table AS k USING (tbl) WHERE k.tbl IS NULL LIMIT 1
            """
        )
        try refuseTypes()
        try refuse(
            .malformedRequest,
            "A table's part has another form than create, update, delete, attributes.",
            fix:
                "create, update and delete are arrays of keys; attributes is an object of objects.",
            """
            SELECT t.ord, t.tbl FROM temp.tidemark_staged_table AS t
            WHERE t.json = 'null' OR EXISTS (
                SELECT 1 FROM json_each(t.json) AS m WHERE m.key NOT IN ('create', 'update', 'delete', 'attributes')
                OR m.type <> CASE m.key WHEN 'attributes' THEN 'object' ELSE 'array' END
            ) LIMIT 1
            """
        )
        try refuseDuplicates(
            """
            SELECT t.ord, t.tbl, NULL AS key, m.key AS name
            FROM temp.tidemark_staged_table AS t, json_each(t.json) AS m
            GROUP BY t.ord, t.tbl, m.key HAVING count(*) > 1 LIMIT 1
            """
        )
    }
}
