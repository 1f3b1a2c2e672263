import GRDB
import TidemarkCore
import TidemarkSQL

/// Renames columns in bookkeeping after the app's migration.
///
/// This covers the outbox, the bases, the conflicts, the kept change sets and the replaced rows.
struct RenamePendingColumns {
    let db: Database

    /// Renames columns in all bookkeeping tables; `names` has the new name for each former name.
    func rename(_ names: [String: String], of table: String) throws {
        let holders = [
            ("tidemark_outbox", "attributes"), ("tidemark_outbox", "before"), ("tidemark_base", "image"),
            ("tidemark_conflict_record", "base"), ("tidemark_conflict_record", "mine"),
            ("tidemark_conflict_record", "theirs"), ("tidemark_kept_record", "before"),
            ("tidemark_kept_record", "attributes"), ("tidemark_replaced", "mine"), ("tidemark_replaced", "base"),
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
                        """, arguments: ["old": MemberSQL.path(old), "new": MemberSQL.path(new), "tbl": table])
            }
        }
    }

    /// Rewrites the bases, and the `before` images of the outbox, to the table's current columns.
    func rebuildImages(of table: SyncedTable, _ step: SchemaStep, isUnmatched: Bool) throws {
        try rebuild("image", of: "tidemark_base", table: table, step: step, isUnmatched: isUnmatched)
        try rebuild("before", of: "tidemark_outbox", table: table, step: step, isUnmatched: isUnmatched)
    }

    /// A column that the image lacks, or that is newly shared, gets the row's value, so that nothing looks edited.
    ///
    /// An edit of a newly shared column, or one of a row that is gone, is based on the zone's value. So is each pending
    /// change, as the rebase brings that value; and `isUnmatched`, all are, because the row may be another record.
    private func rebuild(
        _ image: String, of holder: String, table: SyncedTable, step: SchemaStep, isUnmatched: Bool
    ) throws {
        let added = step.addedColumns.first { $0.0.name == table.name }?.1.map(\.name) ?? []
        let members = try table.valueColumns.map { column -> String in
            let wire = step.new.difference.wireNames[table.name]?[column.name] ?? column.name
            let fill = try step.new.history.fills[table.name]?[column.name] ?? DefaultValue.json(column, in: db)
            let path = SQLText.literal(MemberSQL.path(column.name))
            let differing = holder == "tidemark_base" ? DifferingValues.mine(table) : DifferingValues.all(table)
            let edited = """
                (SELECT tidemark_key(theirs)
                FROM \(differing) AND differing.key = \(holder).key
                    AND differing.col = \(SQLText.literal(column.name)))
                """
            let own = """
                (SELECT tidemark_key(app_row.\(SQLText.name(column.name)))
                FROM main.\(SQLText.name(table.name)) AS app_row
                WHERE \(KeySQL.match(table, key: "\(holder).key", alias: "app_row.")))
                """
            let zones = """
                (SELECT tidemark_key(unknown.value)
                FROM tidemark_unknown AS unknown
                WHERE unknown.tbl = \(holder).tbl AND unknown.key = \(holder).key
                    AND unknown.col = \(SQLText.literal(wire)))
                """
            let value = isUnmatched && added.contains(column.name) ? zones : "\(edited), \(own), \(zones)"
            let member = SQLText.literal(JSONText.quote(WireName.member(column: column.name)) + ":")
            let previousValue = added.contains(column.name) ? "NULL" : "\(image) -> \(path)"
            return "\(member) || coalesce(\(previousValue), \(value), \(SQLText.literal(fill)))"
        }
        let object = members.isEmpty ? "''" : members.joined(separator: " || ',' || ")
        try db.execute(
            sql: "UPDATE \(holder) SET \(image) = '{' || \(object) || '}' WHERE tbl = ? AND \(image) IS NOT NULL",
            arguments: [table.name])
    }
}
