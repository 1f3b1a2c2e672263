import GRDB
import TidemarkCore
import TidemarkSQLite

/// Lets what waits follow the app's migration: the outbox, the bases, the conflicts and what may be
/// offered again name columns as the file does.
struct RenameWaiting {
    let db: Database

    /// Renames columns, given by former name, in everything that waits.
    func rename(_ names: [String: String], of table: String) throws {
        let holders = [
            ("tidemark_outbox", "attributes"), ("tidemark_outbox", "before"), ("tidemark_base", "image"),
            ("tidemark_conflict_record", "base"), ("tidemark_conflict_record", "mine"),
            ("tidemark_conflict_record", "theirs"), ("tidemark_kept_record", "before"),
            ("tidemark_kept_record", "attributes"),
        ]
        for (old, new) in names.sorted(by: { $0.key < $1.key }) {
            for (holder, member) in holders {
                let renamed =
                    planted(PlantedBug.dropsRenamedValues)
                    ? "json_remove(\(member), :old, :new)"
                    : "json_set(json_remove(\(member), :old), :new, json(\(member) -> :old))"
                try db.execute(
                    sql: """
                        UPDATE \(holder) SET \(member) = \(renamed)
                        WHERE tbl = :tbl AND json_type(\(member), :old) IS NOT NULL
                        """,
                    arguments: ["old": "$.\"\(old)\"", "new": "$.\"\(new)\"", "tbl": table]
                )
            }
        }
    }

    /// Gives the confirmed records, and those that waiting edits were made on, the form that the
    /// table has now.
    func renewImages(of table: SyncedTable, _ step: SchemaStep) throws {
        for (holder, member) in [("tidemark_base", "image"), ("tidemark_outbox", "before")] {
            try renew(member, of: holder, table, step)
        }
    }

    /// Gives images the form that the table has now: a column that both sides have only now has the
    /// zone's value there, whatever stood there before; one that only the file has the row's.
    private func renew(_ image: String, of holder: String, _ table: SyncedTable, _ step: SchemaStep) throws {
        let difference = step.new.difference
        let unserved = Set(difference.unservedColumns[table.name, default: []].map(\.name))
        let added = step.addedColumns.first { $0.0.name == table.name }?.1.map(\.name) ?? []
        let members = try table.valueColumns.map { column -> String in
            let wire = difference.wireNames[table.name]?[column.name] ?? column.name
            let fill = try step.new.history.fills[table.name]?[column.name] ?? DefaultValue.json(column, in: db)
            let path = SQLText.literal("$.\"\(column.name)\"")
            let value =
                unserved.contains(column.name)
                ? """
                (SELECT tidemark_key(t.\(SQLText.name(column.name))) FROM main.\(SQLText.name(table.name)) AS t
                WHERE \(KeySQL.match(table, key: "\(holder).key", alias: "t.")))
                """
                : """
                (SELECT tidemark_key(u.value) FROM tidemark_unknown AS u WHERE u.tbl = \(holder).tbl
                AND u.key = \(holder).key AND u.col = \(SQLText.literal(wire)))
                """
            let known = added.contains(column.name) ? "NULL" : "\(image) -> \(path)"
            return
                "\(SQLText.literal(ChangeSetJSON.quote(column.name) + ":")) || coalesce(\(known), \(value), \(SQLText.literal(fill)))"
        }
        let object = members.isEmpty ? "''" : members.joined(separator: " || ',' || ")
        try db.execute(
            sql: "UPDATE \(holder) SET \(image) = '{' || \(object) || '}' WHERE tbl = ? AND \(image) IS NOT NULL",
            arguments: [table.name]
        )
    }
}
