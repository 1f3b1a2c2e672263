import Foundation
package import GRDB
package import TidemarkCore

/// Stages the JSON of change sets as records and cells, with a fixed number of statements.
///
/// The statements check names and keys against the catalogue. A body with any error is refused as a
/// whole.
package struct ChangeSetStaging {
    /// The treatment of names that the catalogue does not have.
    package enum UnknownNames {
        /// Reject the body, as the server does.
        case reject
        /// Ignore dropped tables and columns, which old revisions still name; a device does this.
        case ignoreDropped
    }

    /// The body without its large parts.
    package let outline: String
    let db: Database
    let unknownNames: UnknownNames
    let hasUnicodeEscapes: Bool
    /// Whether updates may add to columns with the policy `add`; a server takes deltas and sends none.
    let takesDeltas: Bool
    /// The hashes of the change sets with removed parts, by number.
    private let hashes: [Int: String]

    /// Empties the staging tables, scans a body and parses its large parts.
    ///
    /// ``EngineConnection`` must have prepared the connection. A body with a value beyond `bound` is
    /// refused before it is parsed.
    package init(
        body: [UInt8],
        limits: Limits,
        unknownNames: UnknownNames = .reject,
        takesDeltas: Bool = false,
        bound: ValueBound? = nil,
        in db: Database
    ) throws {
        let scan = try JSONScan(body, limits: limits)
        self.db = db
        self.unknownNames = unknownNames
        self.takesDeltas = try takesDeltas && Self.hasAddingColumns(db)
        hasUnicodeEscapes = scan.hasUnicodeEscapes
        try StagingTables.clear(in: db)
        let bulk =
            try scan.hasWhiteSpace ? nil : StagedBulk(body, hasUnicodeEscapes: hasUnicodeEscapes, bound: bound, in: db)
        try bound?.check(longestString: scan.longestString)
        outline = bulk?.outline ?? String(decoding: body, as: UTF8.self)
        hashes = bulk?.hashes ?? [:]
    }

    /// Scans short bodies, whose change sets ``stage(lists:max:)`` stages together.
    package init(together bodies: [[UInt8]], limits: Limits, in db: Database) throws {
        let scans = try bodies.map { try JSONScan($0, limits: limits) }
        self.db = db
        unknownNames = .reject
        takesDeltas = try Self.hasAddingColumns(db)
        outline = ""
        hashes = [:]
        hasUnicodeEscapes = scans.contains(where: \.hasUnicodeEscapes)
        try StagingTables.clear(in: db)
    }

    /// Stages all change sets of a JSON array, which is the body's outline or a member of it.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with the first error, or if there are more than `max`.
    package func stage(changeSets: String, max: Int? = nil) throws {
        try stageSets("SELECT key, type, value FROM json_each(?1)", of: changeSets, max)
        try stageRows()
    }

    /// Stages the change sets of several JSON arrays.
    ///
    /// ``list(of:)`` and ``index(of:)`` convert a change set's number to its array and its index.
    ///
    /// - Throws: ``TidemarkCore/TidemarkError`` with the first error, or if there are more than `max` in
    ///   all. Its place has no index in any of the arrays.
    package func stage(lists: [String], max: Int) throws {
        try stageSets(
            """
            SELECT list.key << \(Self.listShift) | change_set.key AS key, change_set.type, change_set.value
            FROM json_each(?1) AS list, json_each(list.value) AS change_set
            """,
            of: "[\(lists.joined(separator: ","))]",
            max
        )
        try stageRows()
    }

    /// Returns the index of the list with a change set, from its number.
    package static func list(of ord: Int) -> Int { ord >> listShift }

    /// Returns the SQL of that index.
    package static func list(of ord: String) -> String { "(\(ord) >> \(listShift))" }

    /// Returns the index of a change set in its list, from its number.
    package static func index(of ord: Int) -> Int { ord & (1 << listShift - 1) }

    /// The bits of a change set's number that contain its index.
    private static let listShift = 20

    private func stageRows() throws {
        try stageTables()
        try StagedBulk.parseOutline(hasUnicodeEscapes: hasUnicodeEscapes, in: db)
        try stageRecords()
        try stageCells()
    }

    /// Returns the hash of a change set's text; `json` is its staged outline.
    package func hash(of ord: Int, staged json: String) -> String { hashes[ord] ?? ContentHash.of(json) }

    // MARK: Members

    /// `source` is a query for the elements of `json`.
    private func stageSets(_ source: String, of json: String, _ max: Int?) throws {
        do {
            // A change set that is not an object becomes NULL, which the NOT NULL column rejects.
            try db.cachedStatement(
                sql: """
                    INSERT INTO temp.tidemark_staged_set (ord, json)
                    SELECT key, iif(type = 'object', value, NULL)
                    FROM (\(source))
                    LIMIT ?2
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
            SELECT change_set.ord, member.key,
                iif(member.key IN (\(members.joined(separator: ", "))), NULL, \(MemberSQL.name(of: "member.key"))),
                member.type, member.value
            FROM temp.tidemark_staged_set AS change_set, json_each(change_set.json) AS member
            """,
            orRefuse: """
                SELECT change_set.ord, member.key AS name
                FROM temp.tidemark_staged_set AS change_set, json_each(change_set.json) AS member
                GROUP BY change_set.ord, member.key
                HAVING count(*) > 1
                LIMIT 1
                """
        )
    }

    private func stageTables() throws {
        if unknownNames == .ignoreDropped {
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
            message: "This zone has no table of that name.",
            fix: "Use a synced table's name, exactly as it is spelled in CREATE TABLE.",
            sql: """
                SELECT ord, tbl
                FROM temp.tidemark_staged_member
                WHERE tbl IS NOT NULL AND tbl NOT IN (SELECT tbl FROM temp.tidemark_table)
                LIMIT 1
                """
        )
        try refuseTypes()
        try stageParts()
    }

    private func stageParts() throws {
        // A table's member that is not an object has no parts; the check below rejects it.
        let parts = """
            FROM temp.tidemark_staged_member AS member,
                json_each(iif(member.type = 'object', member.value, '{}')) AS part
            WHERE member.tbl IS NOT NULL
            """
        try stageOnce(
            """
            INTO temp.tidemark_staged_part (ord, tbl, member, type, value)
            SELECT member.ord, member.tbl, part.key, part.type, part.value
            \(parts)
            """,
            orRefuse: """
                SELECT member.ord, member.tbl, part.key AS name
                \(parts)
                GROUP BY member.ord, member.tbl, part.key
                HAVING count(*) > 1
                LIMIT 1
                """
        )
        try refuse(
            .malformedRequest,
            message: "A table's part has another form than create, update, delete, attributes.",
            fix: "create, update and delete are arrays of keys; attributes is an object of objects.",
            sql: """
                SELECT ord, tbl FROM temp.tidemark_staged_member WHERE tbl IS NOT NULL AND type <> 'object'
                UNION ALL
                SELECT ord, tbl FROM temp.tidemark_staged_part
                WHERE member NOT IN ('create', 'update', 'delete', 'attributes')
                    OR type <> CASE member WHEN 'attributes' THEN 'object' ELSE 'array' END
                LIMIT 1
                """
        )
    }

    /// Inserts the members of objects; `duplicate` is a query for a name that occurs twice.
    func stageOnce(_ insertion: String, orRefuse duplicate: String) throws {
        do { try db.cachedStatement(sql: "INSERT \(insertion)").execute() } catch let error as DatabaseError
            where error.resultCode == .SQLITE_CONSTRAINT
        {
            try refuseDuplicates(duplicate)
            throw error
        }
    }
}
