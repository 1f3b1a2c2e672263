package import GRDB
import TidemarkCore
import TidemarkSQLite

/// A change set as its author receives it when it was accepted before: what everybody receives,
/// with the ids under which its new records were sent.
///
/// The log has the one already, so a verdict keeps no more than the other: the ids that
/// ``StagedRequest/renderIds(_:ord:)`` wrote. A value that was overruled is the author's alone;
/// such a copy is kept whole.
package struct AuthorsCopy: Sendable {
    /// The whole copy, where the log and the ids do not say all of it.
    private let whole: String?
    private let ids: String?
    /// As everybody receives it; empty when it was compacted.
    private let logged: String?

    /// Takes what a store has kept.
    package init(whole: String?, ids: String?, logged: String?) {
        (self.whole, self.ids, self.logged) = (whole, ids, logged)
    }

    /// The copy as JSON: of a change set that was compacted, the ids alone are left, which is all
    /// that a retry from there can need.
    package func render(in db: Database) throws -> String {
        if let whole { return whole }
        guard let ids else { return logged ?? "" }
        guard let logged, !logged.isEmpty else { return try text(Self.idsSQL, [ids], in: db) }
        return try text(Self.namedSQL, [logged, ids], in: db)
    }

    private func text(_ sql: String, _ arguments: StatementArguments, in db: Database) throws
        -> String
    {
        guard let text = try String.fetchOne(db.cachedStatement(sql: sql), arguments: arguments)
        else {
            throw TidemarkError(
                .internalFailure,
                "What was answered to a change set before cannot be read.",
                fix: "Please report this."
            )
        }
        return text
    }

    // MARK: The statements

    /// The ids of the new records in `?`.
    private static func given(_ ids: String) -> String {
        """
        WITH given (tbl, key, old) AS MATERIALIZED (
            SELECT t.key, a.key, a.value ->> '$.__oldId__'
            FROM json_each(\(ids)) AS t, json_each(t.value, '$.attributes') AS a WHERE t.type = 'object'
        )
        """
    }

    /// A change set of which `part` says how the tables are written that meet the condition; the
    /// others stay as they are.
    private static func changeSet(_ json: String, part: String, where condition: String) -> String {
        """
        SELECT '{' || group_concat(json_quote(m.key) || ':' || CASE
            WHEN m.type = 'object' AND \(condition) THEN (\(part))
            WHEN m.type = 'text' THEN json_quote(m.value)
            WHEN m.type IN ('true', 'false') THEN m.type
            ELSE m.value END) || '}'
        FROM json_each(\(json)) AS m
        """
    }

    private static func table(attributes: String, from source: String) -> String {
        """
        SELECT '{"create":' || (m.value -> '$.create') || ',"update":' || (m.value -> '$.update')
            || ',"delete":' || (m.value -> '$.delete') || ',"attributes":{'
            || coalesce(group_concat(json_quote(a.key) || ':{' || \(attributes)), '') || '}}'
        FROM json_each(m.value, '$.attributes') AS a \(source)
        """
    }

    private static let namedSQL =
        given("?2")
        + changeSet(
            "?1",
            part: table(
                attributes:
                    "iif(g.old IS NULL, '', '\"__oldId__\":' || g.old || ',') || substr(a.value, 2)",
                from: "LEFT JOIN given AS g ON g.tbl = m.key AND g.key = a.key"
            ),
            where: "m.key IN (SELECT tbl FROM given)"
        )

    private static let idsSQL = changeSet(
        "?1",
        part: table(
            attributes:
                "substr(a.value, 2, length(a.value) - 2) || ',\"revision\":' || (?1 ->> '$.revision') || '}'",
            from: ""
        ),
        where: "true"
    )
}
