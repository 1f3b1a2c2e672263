import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkSQLite

extension ChangeSetJSON.Source {
    /// What the last commit changed in a table.
    ///
    /// With `ord`, the author's staged change set, the temporary ids are named: the author's copy.
    init(reduced table: SyncedTable, revision: Int64, authorOf ord: Int?) {
        let old =
            "CASE WHEN s.old_key IS NULL THEN '' ELSE '\"__oldId__\":' || s.old_key || ',' END"
        self.init(
            table: table,
            sql: """
                SELECT r.key, r.operation, CASE WHEN r.operation <> 'delete' THEN
                    \(ord == nil ? "''" : old) || '"revision":' || ?2 || \(members("r.attributes")) END AS members
                FROM temp.tidemark_reduced AS r
                LEFT JOIN temp.tidemark_staged AS s ON s.ord = ?3 AND s.tbl = r.tbl AND s.key = r.key
                WHERE r.tbl = ?1
                """,
            arguments: [table.name, revision, ord]
        )
    }

    /// The records of a table that `temp.tidemark_truth` lists, as they are now.
    init(truth table: SyncedTable) {
        let isThere = "t.\(SQLText.name(table.key[0])) IS NOT NULL"
        let object = RowJSON.object(table.valueColumns.map(\.name), prefix: "t.")
        self.init(
            table: table,
            sql: """
                SELECT key, operation, CASE operation WHEN 'update'
                    THEN '"revision":' || revision || \(members("object")) END AS members
                FROM (
                    SELECT w.key, CASE WHEN \(isThere) THEN 'update' ELSE 'delete' END AS operation,
                        coalesce((SELECT max(revision) FROM tidemark_log AS l WHERE l.tbl = w.tbl AND l.key = w.key),
                            (SELECT adopted FROM tidemark_zone)) AS revision,
                        \(object) AS object
                    FROM temp.tidemark_truth AS w LEFT JOIN main.\(SQLText.name(table.name)) AS t
                        ON \(KeySQL.match(table, key: "w.key", alias: "t."))
                    WHERE w.tbl = ?1
                )
                """,
            arguments: [table.name]
        )
    }
}

/// The members of a JSON object behind a comma, or nothing when it has none.
private func members(_ object: String) -> String {
    "CASE \(object) WHEN '{}' THEN '' ELSE ',' || substr(\(object), 2, length(\(object)) - 2) END"
}

/// The envelope of a change set in an answer.
struct AnswerEnvelope {
    let id: String?
    var revision: Int64?
    var time: Int64?
    var reasons: [ConflictReason]?
    /// JSON each.
    var overruled: [String] = []

    /// The members, in the order in which they are sent.
    var members: [String] {
        var members: [String] = []
        if let id { members.append(#""id":"\#(id)""#) }
        if let revision { members.append(#""revision":\#(revision)"#) }
        if let time { members.append(#""time":\#(time)"#) }
        members.append(#""conflict":\#(reasons != nil)"#)
        if let reasons {
            members.append(#""reasons":[\#(reasons.map(json).joined(separator: ","))]"#)
        }
        if !overruled.isEmpty {
            members.append(#""overruled":[\#(overruled.joined(separator: ","))]"#)
        }
        return members
    }

    private func json(_ reason: ConflictReason) -> String {
        let columns = reason.columns.map(ChangeSetJSON.quote).joined(separator: ",")
        let key = reason.key.isEmpty ? "" : #""key":\#(reason.key),"#
        return #"{"table":\#(ChangeSetJSON.quote(reason.table)),\#(key)"columns":[\#(columns)],"#
            + #""rule":"\#(reason.rule)","message":\#(ChangeSetJSON.quote(reason.message))}"#
    }
}
