import GRDB
import TidemarkCore
import TidemarkSQL

/// Finds the statement by which devices create a table that a program altered in PostgreSQL.
///
/// The first candidate that matches the catalogue wins:
///
/// 1. the served statement
/// 2. the operator's statement
/// 3. the served statement after the same `ALTER TABLE` in SQLite
/// 4. a statement from the catalogue
///
/// The first three keep details that PostgreSQL does not store, such as the spelling of a type.
struct TableText {
    let served: SyncSchema
    /// The tables in the catalogue.
    let actual: SyncSchema
    /// The tables of the operator's schema, if any.
    let declared: SyncSchema?
    /// The tables in PostgreSQL's own types.
    let catalogue: [String: CatalogueTable]

    /// Returns the tables, served ones first.
    func tables(_ differences: [String: TableDifference]) throws -> [SyncedTable] {
        let altered = try alteredTables(differences)
        let names = served.tables.map(\.name).filter { actual.byName[$0] != nil }
        let new = (declared?.tables ?? []).map(\.name) + actual.tables.map(\.name)
        let order = (names + new).reduce(into: [String]()) { order, name in
            if !order.contains(name), actual.byName[name] != nil { order.append(name) }
        }
        return order.compactMap { name in
            guard let table = actual.byName[name] else { return nil }
            let candidates = [served.byName[name], declared?.byName[name], altered[name]]
            return candidates.compactMap { $0 }.first { isSame($0, table) } ?? table
        }
    }

    private func isSame(_ table: SyncedTable, _ actual: SyncedTable) -> Bool {
        let kind = { (type: String) in DeclaredType(type)?.kind }
        let columns = Dictionary(uniqueKeysWithValues: table.columns.map { ($0.name, $0) })
        let sameColumns = actual.columns.allSatisfy { column in
            let type = catalogue[table.name]?.columns[column.name]?.type ?? ""
            // `actual` has the served type of such a column.
            let isKept = DeviceTypes.types(for: type).count > 1
            guard let own = columns[column.name],
                isKept ? own.type.uppercased() == column.type.uppercased() : kind(own.type) == kind(column.type),
                hasServedAffinity(own, in: table.name)
            else { return false }
            return actual.key.contains(column.name) || own.isNotNull == column.isNotNull
        }
        return sameColumns && table.columns.count == actual.columns.count && table.key == actual.key
            && table.keyKind == expectedKind(table, actual) && Set(table.references) == Set(actual.references)
            && Set(table.uniques) == Set(actual.uniques)
    }

    /// Whether a column keeps its served affinity, because devices that have it do not change its type.
    private func hasServedAffinity(_ column: SyncedTable.Column, in table: String) -> Bool {
        let before = served.byName[table]?.columns.first { $0.name == column.name }
        guard let before, DeclaredType(before.type)?.kind == DeclaredType(column.type)?.kind else { return true }
        return before.affinity == column.affinity
    }

    private func expectedKind(_ table: SyncedTable, _ actual: SyncedTable) -> SyncedTable.KeyKind {
        guard let before = served.byName[table.name], before.key == table.key else {
            return declared?.byName[table.name] == nil ? actual.keyKind : table.keyKind
        }
        return before.keyKind
    }

    /// Returns the generated columns of the served statements, which devices compute themselves.
    static func computedColumns(_ served: SyncSchema) throws -> [String: Set<String>] {
        let generating = served.tables.filter { $0.sql.uppercased().contains(" AS ") }
        guard !generating.isEmpty else { return [:] }
        return try DatabaseQueue().write { db in
            try generating.reduce(into: [:]) { columns, table in
                try db.execute(sql: table.sql)
                columns[table.name] = try String.fetchSet(
                    db, sql: "SELECT name FROM pragma_table_xinfo(?) WHERE hidden IN (2, 3)", arguments: [table.name])
            }
        }
    }

    private func alteredTables(_ differences: [String: TableDifference]) throws -> [String: SyncedTable] {
        let scratch = try DatabaseQueue()
        return try scratch.writeWithoutTransaction { db in
            for table in served.tables {
                for statement in [table.sql] + table.indexSQL { try db.execute(sql: statement) }
            }
            for (name, difference) in differences.sorted(by: { $0.key < $1.key }) {
                guard let before = served.byName[name], let now = actual.byName[name] else { continue }
                for statement in Self.statements(difference, before: before, now: now) {
                    do { try db.execute(sql: statement) } catch {
                        // SQLite cannot make this alteration, so the catalogue's statement is used.
                        break
                    }
                }
            }
            return Dictionary(uniqueKeysWithValues: try SchemaIntrospection(db).tables.map { ($0.name, $0) })
        }
    }

    private static func statements(_ difference: TableDifference, before: SyncedTable, now: SyncedTable) -> [String] {
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
