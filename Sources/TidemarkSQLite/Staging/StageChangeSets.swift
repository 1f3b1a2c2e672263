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
    /// The connection must have been prepared by ``EngineConnection``. With a `bound`, a body with
    /// a larger value is refused before anything of it is parsed.
    package init(
        body: [UInt8],
        limits: Limits,
        strangers: Strangers = .refuse,
        bound: ValueBound? = nil,
        in db: Database
    ) throws {
        let scan = try JSONScan(body, limits: limits)
        self.db = db
        self.strangers = strangers
        hasUnicodeEscapes = scan.hasUnicodeEscapes
        try StagingTables.clear(in: db)
        let bulk =
            try scan.hasWhiteSpace ? nil : StagedBulk(body, hasUnicodeEscapes: hasUnicodeEscapes, bound: bound, in: db)
        try bound?.check(longestString: scan.longestString)
        outline = bulk?.outline ?? String(decoding: body, as: UTF8.self)
        hashes = bulk?.hashes ?? [:]
    }

    /// Looks through short bodies, whose change sets are staged together by ``stage(lists:)``.
    package init(together bodies: [[UInt8]], limits: Limits, in db: Database) throws {
        let scans = try bodies.map { try JSONScan($0, limits: limits) }
        self.db = db
        strangers = .refuse
        outline = ""
        hashes = [:]
        hasUnicodeEscapes = scans.contains(where: \.hasUnicodeEscapes)
        try StagingTables.clear(in: db)
    }

    /// Stages every change set of a JSON array, which is the body's outline or a member of it.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` naming the first thing that is wrong, or that there
    ///   are more than `max`.
    package func stage(changeSets: String, max: Int? = nil) throws {
        try stageSets("SELECT key, type, value FROM json_each(?1)", of: changeSets, max)
        try stageRows()
    }

    /// Stages the change sets of several JSON arrays; ``list(of:)`` and ``index(of:)`` tell from a
    /// number which is which.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError``, whose place is not that in any of the arrays; also
    ///   when there are more than `max` in all.
    package func stage(lists: [String], max: Int) throws {
        try stageSets(
            """
            SELECT l.key << \(Self.listShift) | s.key AS key, s.type, s.value
            FROM json_each(?1) AS l, json_each(l.value) AS s
            """,
            of: "[\(lists.joined(separator: ","))]",
            max
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
    package func hash(of ord: Int, staged json: String) -> String { hashes[ord] ?? ContentHash.of(json) }

    // MARK: Members

    /// `source` is a query for the elements of `json`.
    private func stageSets(_ source: String, of json: String, _ max: Int?) throws {
        do {
            // A change set that is no object has no text, and is refused by the table.
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_staged_set (ord, json)
                    SELECT key, iif(type = 'object', value, NULL) FROM (\(source)) LIMIT ?2
                    """
            ).execute(arguments: [json, max.map { $0 + 1 } ?? -1])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            throw TidemarkError(
                .malformedRequest,
                "An element of changeSets is not an object.",
                fix: #"A change set is {"types":["t"],"t":{"create":[],"update":[],"delete":[],"attributes":{}}}."#
            )
        }
        if let max, db.changesCount > max {
            throw TidemarkError(
                .tooLarge,
                "The request has more than \(max) change sets.",
                fix: "Send at most \(max) at a time."
            )
        }
        try stageMembers()
    }

    private func stageMembers() throws {
        let members = WireName.changeSetMembers.sorted().map { SQLText.literal($0) }
        try stageOnce(
            """
            INTO temp.tidemark_staged_member (ord, name, tbl, type, value)
            SELECT s.ord, j.key, iif(j.key IN (\(members.joined(separator: ", "))), NULL, j.key),
                j.type, j.value
            FROM temp.tidemark_staged_set AS s, json_each(s.json) AS j
            """,
            orRefuse: """
                SELECT s.ord, j.key AS name
                FROM temp.tidemark_staged_set AS s, json_each(s.json) AS j
                GROUP BY s.ord, j.key HAVING count(*) > 1 LIMIT 1
                """
        )
    }

    private func stageTables() throws {
        if strangers == .dropped {
            try db.cachedStatement(
                sql: """
                    DELETE FROM temp.tidemark_staged_member
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
            SELECT ord, tbl FROM temp.tidemark_staged_member
            WHERE tbl IS NOT NULL AND tbl NOT IN (SELECT tbl FROM temp.tidemark_table) LIMIT 1
            """
        )
        try refuseTypes()
        try stageParts()
    }

    private func stageParts() throws {
        // What is no object has no parts, and is refused.
        let parts = """
            FROM temp.tidemark_staged_member AS m, json_each(iif(m.type = 'object', m.value, '{}')) AS j
            WHERE m.tbl IS NOT NULL
            """
        try stageOnce(
            """
            INTO temp.tidemark_staged_part (ord, tbl, member, type, value)
            SELECT m.ord, m.tbl, j.key, j.type, j.value \(parts)
            """,
            orRefuse: """
                SELECT m.ord, m.tbl, j.key AS name \(parts)
                GROUP BY m.ord, m.tbl, j.key HAVING count(*) > 1 LIMIT 1
                """
        )
        try refuse(
            .malformedRequest,
            "A table's part has another form than create, update, delete, attributes.",
            fix: "create, update and delete are arrays of keys; attributes is an object of objects.",
            """
            SELECT ord, tbl FROM temp.tidemark_staged_member WHERE tbl IS NOT NULL AND type <> 'object'
            UNION ALL
            SELECT ord, tbl FROM temp.tidemark_staged_part
            WHERE member NOT IN ('create', 'update', 'delete', 'attributes')
                OR type <> CASE member WHEN 'attributes' THEN 'object' ELSE 'array' END
            LIMIT 1
            """
        )
    }

    /// Inserts the members of objects, each under its name; where one is there twice, `duplicate`
    /// finds it.
    private func stageOnce(_ insertion: String, orRefuse duplicate: String) throws {
        do { try db.cachedStatement(sql: "INSERT \(insertion)").execute() } catch let error as DatabaseError
            where error.resultCode == .SQLITE_CONSTRAINT
        {
            try refuseDuplicates(duplicate)
            throw error
        }
    }
}
