import GRDB
import TidemarkCore
import TidemarkSQL

/// Alters a table of a zone's file until it has the statement of the main zone's table.
///
/// SQLite renames and adds columns in place. For any other difference the table is made again with its rows, while
/// foreign keys are off. If no value can have changed by that, the zone's history goes on.
struct AlterTable {
    let db: Database
    let zone: String
    let current: ZoneTemplate.Object
    let wanted: ZoneTemplate.Object
    let template: ZoneTemplate

    private var name: String { SQLText.name(wanted.name) }

    func run() throws {
        guard !wanted.sql.hasPrefix("CREATE VIRTUAL ") else { throw refusal("is a virtual table of another form") }
        for (old, new) in try renames() { try wanted.renameColumn(old, to: new, in: db) }
        if try isDone() { return }
        try refuseMissingValues()
        if try !addColumns() { try rebuild() }
    }

    private func isDone() throws -> Bool {
        try ZoneTemplate.objects(in: db).contains { $0.name == wanted.name && $0.isSame(as: wanted) }
    }

    /// Returns the renames that lead to the main zone's columns, as the operator has declared them there.
    ///
    /// - Throws: `unavailable` if a column is gone and another one of its type is new: the values could get lost.
    private func renames() throws -> [(old: String, new: String)] {
        let here = try ZoneTemplate.columns(of: wanted.name, in: db)
        let there = template.columns[wanted.name] ?? []
        var gone = here.filter { column in !there.contains { $0.name == column.name } }
        var renames: [(old: String, new: String)] = []
        for column in there where !here.contains(where: { $0.name == column.name }) {
            let former = template.renames.filter { $0.table == wanted.name && $0.new == column.name }.map(\.old)
            if let index = gone.firstIndex(where: { former.contains($0.name) }) {
                renames.append((gone[index].name, column.name))
                gone.remove(at: index)
            } else if let other = gone.first(where: { $0.affinity == column.affinity }) {
                throw TidemarkError(
                    .unavailable,
                    """
                    Zone \(zone) still has \(wanted.name).\(other.name), and the main zone has \
                    \(wanted.name).\(column.name) instead: it may be a renamed column, or another one.
                    """,
                    fix: """
                        If it was renamed, start the server once with \
                        --rename \(wanted.name).\(other.name)=\(wanted.name).\(column.name); this reaches all zones. \
                        If not, make the table again in the zone's file, without \(other.name).
                        """,
                    place: .init(table: wanted.name, column: other.name))
            }
        }
        return renames
    }

    /// Adds columns, and returns whether the table now has the wanted statement.
    private func addColumns() throws -> Bool {
        let present = try ZoneTemplate.objects(in: db).first { $0.name == wanted.name }
        guard let present, let definitions = StatementTokens.addedColumns(from: present.sql, to: wanted.sql) else {
            return false
        }
        var isAdded = false
        try db.inSavepoint {
            do {
                for definition in definitions { try db.execute(sql: "ALTER TABLE \(name) ADD COLUMN \(definition)") }
                isAdded = try isDone()
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                // SQLite adds no such column, for instance one with another default than a constant.
                isAdded = false
            }
            return isAdded ? .commit : .rollback
        }
        return isAdded
    }

    /// - Throws: `unavailable` if the table has rows, and a new column of the main zone needs a value of each.
    private func refuseMissingValues() throws {
        let here = try ZoneTemplate.columns(of: wanted.name, in: db)
        let new = (template.columns[wanted.name] ?? []).filter { column in !here.contains { $0.name == column.name } }
        guard let column = new.first(where: \.needsValue),
            try Row.fetchOne(db, sql: "SELECT 1 FROM main.\(name) LIMIT 1") != nil
        else { return }
        throw TidemarkError(
            .unavailable,
            """
            Zone \(zone) cannot have the main zone's tables: \(wanted.name).\(column.name) is NOT NULL without a \
            default, and the zone has rows.
            """,
            fix: """
                Make the table \(wanted.name) again in the main zone's file, with a default for \(column.name) \
                (https://sqlite.org/lang_altertable.html#otheralter); the zone follows when it is opened next.
                """,
            place: .init(table: wanted.name, column: column.name))
    }

    private func rebuild() throws {
        guard try Bool.fetchOne(db, sql: "PRAGMA foreign_keys") == false else {
            throw refusal("has to be made again, which the server does when it opens the zone")
        }
        let here = try ZoneTemplate.columns(of: wanted.name, in: db)
        let shared = (template.columns[wanted.name] ?? []).filter { column in
            !column.isGenerated && here.contains { $0.name == column.name && !$0.isGenerated }
        }
        let violations = try countBrokenReferences()
        let isCaptured = try db.triggerExists(captureTrigger)
        let sequence = try sequence()
        try copyRows(try rowid(beside: here) + shared.map { SQLText.name($0.name) })
        if let sequence {
            try db.execute(
                sql: "UPDATE main.sqlite_sequence SET seq = max(seq, ?) WHERE name = ?",
                arguments: [sequence, wanted.name])
        }
        guard try countBrokenReferences() <= violations else { throw refusal("has rows whose references lead nowhere") }
        let keepsValues = shared.allSatisfy { column in
            here.contains { $0.name == column.name && $0.affinity == column.affinity }
        }
        guard keepsValues, isCaptured else { return }
        // No write was missed. The adoption, which makes the triggers of a captured table again, knows it by this one.
        try db.execute(
            sql: """
                CREATE TRIGGER \(SQLText.name(captureTrigger)) AFTER UPDATE ON \(name) WHEN false
                BEGIN SELECT 1; END
                """)
    }

    private var captureTrigger: String { "tidemark_after_update_\(wanted.name)" }

    /// Makes the table again with the same values in some columns.
    private func copyRows(_ columns: [String]) throws {
        guard !columns.isEmpty else { throw refusal("shares no column with it") }
        let list = columns.joined(separator: ", ")
        // Columns without a type keep each value as it is.
        let untyped = columns.indices.map { "c\($0)" }.joined(separator: ", ")
        try db.execute(
            sql: """
                CREATE TEMP TABLE tidemark_rebuilt (\(untyped));
                INSERT INTO temp.tidemark_rebuilt SELECT \(list) FROM main.\(name);
                DROP TABLE main.\(name);
                """)
        try db.execute(sql: wanted.sql)
        // ABORT, because a REPLACE of the statement would remove rows.
        try db.execute(
            sql: """
                INSERT OR ABORT INTO main.\(name) (\(list)) SELECT * FROM temp.tidemark_rebuilt;
                DROP TABLE temp.tidemark_rebuilt;
                """)
    }

    /// A name of the row number, which rows keep; none for a table without one.
    private func rowid(beside here: [ZoneTemplate.Column]) throws -> [String] {
        let lacksRowid = [current.sql, wanted.sql].contains { SQLText.keywords($0).contains(/WITHOUT\s+ROWID/) }
        let taken = Set((here + (template.columns[wanted.name] ?? [])).map { $0.name.lowercased() })
        return lacksRowid ? [] : SyncedTable.rowidNames.filter { !taken.contains($0) }.prefix(1).map(\.self)
    }

    private func countBrokenReferences() throws -> Int {
        try Int.fetchOne(db, sql: "SELECT count(*) FROM pragma_foreign_key_check(?)", arguments: [wanted.name]) ?? 0
    }

    /// The last id that the table has drawn; nil without AUTOINCREMENT.
    private func sequence() throws -> Int64? {
        guard try db.tableExists("sqlite_sequence") else { return nil }
        let sql = "SELECT seq FROM main.sqlite_sequence WHERE name = ?"
        return try Int64.fetchOne(db, sql: sql, arguments: [wanted.name])
    }

    private func refusal(_ reason: String) -> TidemarkError {
        TidemarkError(
            .unavailable, "Table \(wanted.name) of zone \(zone) differs from the main zone's, and \(reason).",
            fix: "Mend the table or its rows in the file of the zone; the zone follows when it is opened next.",
            place: .init(table: wanted.name))
    }
}
