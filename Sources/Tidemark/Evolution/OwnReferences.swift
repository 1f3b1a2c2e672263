import GRDB
import TidemarkCore
import TidemarkSQLite

/// References that only this file has, to records that the zone has deleted.
///
/// The engine writes without foreign key actions, since the server's own have their effect in the
/// answer. But of what it does not know it says nothing, so here the app's `ON DELETE` is done.
struct OwnReferences {
    let db: Database
    let schema: SyncSchema

    /// Does what the app's tables ask for when a parent is gone.
    func settle() throws {
        let difference = schema.difference
        for table in difference.unservedTables {
            for reference in table.references { try settle(table, reference, isOwnRow: true) }
        }
        for (name, columns) in difference.unservedColumns.sorted(by: { $0.key < $1.key }) {
            guard let table = schema.byName[name] else { continue }
            let own = Set(columns.map(\.name))
            for reference in table.references where own.isSuperset(of: reference.columns) {
                try settle(table, reference, isOwnRow: false)
            }
        }
    }

    private func settle(_ table: SyncedTable, _ reference: SyncedTable.Reference, isOwnRow: Bool) throws {
        guard schema.byName[reference.parent] != nil else { return }
        let columns = reference.columns.map { "c.\(SQLText.name($0))" }
        let match = zip(columns, reference.parentColumns).map { "p.\(SQLText.name($1)) = \($0)" }
        let dangles = """
            \(columns.map { "\($0) IS NOT NULL" }.joined(separator: " AND ")) AND NOT EXISTS (
            SELECT 1 FROM main.\(SQLText.name(reference.parent)) AS p WHERE \(match.joined(separator: " AND ")))
            """
        let name = "main.\(SQLText.name(table.name)) AS c"
        switch reference.onDelete {
        case .cascade where isOwnRow: try db.execute(sql: "DELETE FROM \(name) WHERE \(dangles)")
        case .setNull, .cascade:
            let targets = reference.columns.map { "\(SQLText.name($0)) = NULL" }
            try db.execute(sql: "UPDATE \(name) SET \(targets.joined(separator: ", ")) WHERE \(dangles)")
        case .noAction, .restrict, .setDefault: break
        }
    }
}
