import GRDB
import TidemarkCore
import TidemarkSQL

/// Decides ``TidemarkCore/TableTraits`` when the zone first serves a table, because its records are known by them.
struct ZoneTraits {
    let db: Database
    let excluding: Set<String>

    /// Reads the tables, after storing the traits of new ones; throws `invalidArgument` if a declared key does not fit.
    func introspect(declaring keys: [String: [String]], renames: [ColumnRename]) throws -> SchemaIntrospection {
        let served = try ServedColumns.tables(in: db)
        var traits = try TraitTable.read(in: db)
        for (name, current) in traits where served.contains(name) {
            traits[name]?.key = current.key?.map { column in latestName(of: column, in: name, renames) }
        }
        for name in traits.keys where !served.contains(name) { traits[name] = TableTraits() }
        for (name, key) in keys.sorted(by: { $0.key < $1.key }) {
            try requireUsable(key, of: name, served: served.contains(name) ? traits[name]?.key : nil)
            traits[name, default: TableTraits()].key = key
        }
        let found = try SchemaIntrospection(db, excluding: excluding, traits: traits)
        for table in found.tables where !table.key.isEmpty {
            traits[table.name] = table.traits
            guard !served.contains(table.name) else { continue }
            traits[table.name, default: TableTraits()].lowestID = try lowestID(of: table)
            traits[table.name, default: TableTraits()].zeroReferences = try zeroReferences(of: table, in: found)
        }
        try TraitTable.store(traits, in: db)
        return try SchemaIntrospection(db, excluding: excluding, traits: traits)
    }

    private func latestName(of column: String, in table: String, _ renames: [ColumnRename]) -> String {
        renames.first { $0.table == table && $0.old == column }?.new ?? column
    }

    private func requireUsable(_ key: [String], of name: String, served: [String]?) throws {
        let table = try SchemaIntrospection(db, traits: [name: TableTraits(key: key)]).tables.first { $0.name == name }
        let refuse = { (message: String, fix: String) in
            throw TidemarkError(.invalidArgument, message, fix: fix, place: .init(table: name))
        }
        guard let table else {
            return try refuse("--key names \(name), which is not a table of this database.", "Spell it as in the file.")
        }
        guard table.traits?.key != nil || table.key.isEmpty else {
            return try refuse("--key names \(name), which has a primary key.", "Leave it out.")
        }
        guard table.key == key else {
            let columns = table.columns.map(\.name).joined(separator: ", ")
            return try refuse("--key names columns that \(name) does not have.", "Its columns are \(columns).")
        }
        guard served == nil || served == key else {
            return try refuse(
                "The zone knows the records of \(name) by another key.",
                "Leave --key out: a key is declared when the table is first served.")
        }
    }

    /// Returns the lowest id of a table with negative ids; nil for other tables.
    private func lowestID(of table: SyncedTable) throws -> Int64? {
        guard table.keyKind == .integer else { return nil }
        let name = SQLText.name(table.name)
        return TableTraits.lowestID(
            ofRows: try Int64.fetchOne(db, sql: "SELECT min(\(SQLText.name(table.key[0]))) FROM \(name)"))
    }

    /// Returns the referring columns with 0 for "none", which some programs write; nil if there are none.
    private func zeroReferences(of table: SyncedTable, in found: SchemaIntrospection) throws -> [String]? {
        let columns = try table.references.filter { reference in
            guard reference.columns.count == 1, let parent = found.tables.first(where: { $0.name == reference.parent }),
                parent.keyKind == .integer, parent.key == reference.parentColumns
            else { return false }
            return try Bool.fetchOne(
                db,
                sql: """
                    SELECT EXISTS (
                        SELECT 1 FROM \(SQLText.name(table.name)) WHERE \(SQLText.name(reference.columns[0])) = 0)
                    AND NOT EXISTS (
                        SELECT 1 FROM \(SQLText.name(parent.name)) WHERE \(SQLText.name(parent.key[0])) = 0)
                    """) ?? false
        }.map { $0.columns[0] }
        return columns.isEmpty ? nil : Set(columns).sorted()
    }
}
