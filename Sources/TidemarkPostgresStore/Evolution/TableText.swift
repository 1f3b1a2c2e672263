import GRDB
import TidemarkCore
import TidemarkSQLite

/// Finds the statement by which devices make a table that somebody has altered in PostgreSQL.
///
/// Whatever says the same as the catalogue will do; so, in this order: what is known, what somebody
/// gives, what is known with the same `ALTER TABLE` done in SQLite, and a statement made from the
/// catalogue. All but the last keep what PostgreSQL does not tell, such as how a type was spelled.
struct TableText {
    /// The tables that are known.
    let known: SyncSchema
    /// The tables as the catalogue has them.
    let actual: SyncSchema
    /// The tables as somebody gives them, if so.
    let given: SyncSchema?

    /// The tables, known ones first.
    func tables(_ differences: [String: TableDifference]) throws -> [SyncedTable] {
        let altered = try alteredTables(differences)
        let names = known.tables.map(\.name).filter { actual.byName[$0] != nil }
        let new = (given?.tables ?? []).map(\.name) + actual.tables.map(\.name)
        let order = (names + new).reduce(into: [String]()) { order, name in
            if !order.contains(name), actual.byName[name] != nil { order.append(name) }
        }
        return order.compactMap { name in
            guard let table = actual.byName[name] else { return nil }
            let candidates = [known.byName[name], given?.byName[name], altered[name]]
            return candidates.compactMap { $0 }.first { isSame($0, table) } ?? table
        }
    }

    private func isSame(_ table: SyncedTable, _ actual: SyncedTable) -> Bool {
        let kind = { (type: String) in DeclaredType(type)?.kind }
        let columns = Dictionary(uniqueKeysWithValues: table.columns.map { ($0.name, $0) })
        let sameColumns = actual.columns.allSatisfy { column in
            guard let mine = columns[column.name], kind(mine.type) == kind(column.type), isTrue(mine, to: table.name)
            else { return false }
            return actual.key.contains(column.name) || mine.isNotNull == column.isNotNull
        }
        return sameColumns && table.columns.count == actual.columns.count && table.key == actual.key
            && table.keyKind == expectedKind(table, actual) && Set(table.references) == Set(actual.references)
            && Set(table.uniques) == Set(actual.uniques)
    }

    /// Devices that hold a column do not see its type change.
    private func isTrue(_ column: SyncedTable.Column, to table: String) -> Bool {
        let before = known.byName[table]?.columns.first { $0.name == column.name }
        guard let before, DeclaredType(before.type)?.kind == DeclaredType(column.type)?.kind else { return true }
        return before.affinity == column.affinity
    }

    /// A key is written as it always was.
    private func expectedKind(_ table: SyncedTable, _ actual: SyncedTable) -> SyncedTable.KeyKind {
        guard let before = known.byName[table.name], before.key == table.key else {
            return given?.byName[table.name] == nil ? actual.keyKind : table.keyKind
        }
        return before.keyKind
    }

    // MARK: The same in SQLite

    private func alteredTables(_ differences: [String: TableDifference]) throws -> [String: SyncedTable] {
        let scratch = try DatabaseQueue()
        return try scratch.writeWithoutTransaction { db in
            for table in known.tables {
                for statement in [table.sql] + table.indexSQL { try db.execute(sql: statement) }
            }
            for (name, difference) in differences.sorted(by: { $0.key < $1.key }) {
                guard let before = known.byName[name], let now = actual.byName[name] else { continue }
                for statement in Self.statements(difference, before, now) {
                    do { try db.execute(sql: statement) } catch {
                        // What SQLite cannot alter is made from the catalogue.
                        break
                    }
                }
            }
            return Dictionary(uniqueKeysWithValues: try SchemaIntrospection(db).tables.map { ($0.name, $0) })
        }
    }

    private static func statements(_ difference: TableDifference, _ before: SyncedTable, _ now: SyncedTable) -> [String]
    {
        let alter = "ALTER TABLE \(SQLText.name(now.name))"
        let renames = difference.renamed.map {
            "\(alter) RENAME COLUMN \(SQLText.name($0.old)) TO \(SQLText.name($0.new))"
        }
        let drops = difference.dropped.map { "\(alter) DROP COLUMN \(SQLText.name($0))" }
        let additions = now.columns.filter { difference.added.contains($0.name) }.map {
            "\(alter) ADD COLUMN \(definition($0, now))"
        }
        let uniques = now.uniques.filter { !before.uniques.contains($0) }.map { columns in
            let name = SQLText.name(([now.name] + columns).joined(separator: "_"))
            return "CREATE UNIQUE INDEX \(name) ON \(SQLText.name(now.name)) (\(SQLText.names(columns)))"
        }
        return renames + drops + additions + uniques
    }

    private static func definition(_ column: SyncedTable.Column, _ table: SyncedTable) -> String {
        var text = "\(SQLText.name(column.name)) \(column.type)"
        if column.isNotNull { text += " NOT NULL" }
        if let value = column.defaultSQL { text += " DEFAULT \(value)" }
        if let reference = table.references.first(where: { $0.columns == [column.name] }) {
            text += " REFERENCES \(SQLText.name(reference.parent))"
            text += " (\(SQLText.names(reference.parentColumns)))"
            let action = reference.onDelete
            if action != .noAction { text += " ON DELETE \(action.rawValue)" }
        }
        return text
    }
}
