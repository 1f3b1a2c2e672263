import GRDB
import TidemarkCore
import TidemarkSQL

/// Writes other keys of records to the bookkeeping, and to references that only this file has.
///
/// The pairs of a former and a new key are in a temporary table.
struct RewriteKeys {
    let db: Database
    let schema: SyncSchema
    let pairs: Pairs

    enum Pairs {
        /// Ids in `temp.tidemark_assigned`, the new ones mostly permanent.
        case ids
        /// Spellings of keys that are no integers, in `temp.tidemark_respelled`.
        case spellings

        fileprivate var table: String { self == .ids ? "temp.tidemark_assigned" : "temp.tidemark_respelled" }
        /// A column's former and new value, in SQL.
        fileprivate var former: String { self == .ids ? "pair.temporary" : "pair.old ->> '$'" }
        fileprivate var new: String { self == .ids ? "pair.permanent" : "pair.new ->> '$'" }
        /// A record's former and new key, in SQL.
        fileprivate var formerKey: String { self == .ids ? "CAST(pair.temporary AS TEXT)" : "pair.old" }
        fileprivate var newKey: String { self == .ids ? "CAST(pair.permanent AS TEXT)" : "pair.new" }
    }

    /// The bookkeeping tables with record keys; `tidemark_held` exists only while an answer is applied.
    static let holders = ["tidemark_outbox", "tidemark_base", "tidemark_conflict_record", "tidemark_held"]
    /// The columns with JSON images of records, by bookkeeping table.
    private static let images = [
        "tidemark_outbox": ["attributes", "before"], "tidemark_base": ["image"],
        "tidemark_conflict_record": ["mine", "base"],
    ]

    /// Writes the keys to the keys and references in some tables, in the rows for which the SQL condition holds.
    func run(in holders: [String] = Self.holders, where condition: String = "true") throws {
        for holder in holders {
            try db.execute(
                cached: """
                    UPDATE OR REPLACE \(holder) SET key = \(pairs.newKey)
                    FROM \(pairs.table) AS pair
                    WHERE pair.tbl = \(holder).tbl AND \(holder).key = \(pairs.formerKey) AND \(condition)
                    """)
            if pairs == .ids, planted(PlantedBug.keepsTemporaryReferences) { continue }
            for table in schema.tables {
                for (column, parent) in references(of: table) {
                    try rewrite(column, of: table, to: parent, in: holder, where: condition)
                }
            }
        }
    }

    private func references(of table: SyncedTable) -> [(column: String, parent: String)] {
        guard pairs == .spellings else { return schema.integerReferences(of: table) }
        return direct(table)
    }

    /// The references of one column to another table's key.
    private func direct(_ table: SyncedTable) -> [(column: String, parent: String)] {
        table.references.compactMap { reference in
            guard let parent = schema.byName[reference.parent], (parent.keyKind == .integer) == (pairs == .ids),
                reference.columns.count == 1, reference.parentColumns == parent.key
            else { return nil }
            return (reference.columns[0], parent.name)
        }
    }

    private func rewrite(
        _ column: String, of table: SyncedTable, to parent: String, in holder: String, where condition: String
    ) throws {
        var members = (Self.images[holder] ?? []).map { ($0, MemberSQL.path(column)) }
        if let position = table.key.firstIndex(of: column) {
            guard table.keyKind != .integer else { return }
            members = [("key", table.key.count > 1 ? "$[\(position)]" : "$")]
        }
        for (member, path) in members {
            let changed = "json_set(\(member), ?1, \(pairs.new))"
            try db.execute(
                cached: """
                    UPDATE OR REPLACE \(holder)
                    SET \(member) = \(member == "key" ? "tidemark_canonical(\(changed))" : changed)
                    FROM \(pairs.table) AS pair
                    WHERE pair.tbl = ?2 AND \(holder).tbl = ?3 AND \(pairs.former) = \(holder).\(member) ->> ?1
                        AND \(condition)
                    """, arguments: [path, parent, table.name])
        }
    }

    /// Writes the keys to references that only this file has, which answers do not contain.
    func runInOwnReferences() throws {
        let difference = schema.difference
        for table in schema.tables + difference.unservedTables {
            let own = difference.unservedColumns[table.name].map { Set($0.map(\.name)) }
            for (column, parent) in direct(table)
            where schema.byName[table.name] == nil || own?.contains(column) == true {
                try db.execute(
                    sql: """
                        UPDATE main.\(SQLText.name(table.name)) SET \(SQLText.name(column)) = \(pairs.new)
                        FROM \(pairs.table) AS pair
                        WHERE pair.tbl = :parent AND \(pairs.former) = \(SQLText.name(column));
                        UPDATE tidemark_held SET value = \(pairs.new)
                        FROM \(pairs.table) AS pair
                        WHERE tidemark_held.tbl = :table AND col = :column
                            AND pair.tbl = :parent AND \(pairs.former) = value;
                        """, arguments: ["parent": parent, "table": table.name, "column": column])
            }
        }
    }
}
