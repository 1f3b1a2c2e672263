import GRDB
import TidemarkCore
import TidemarkSQL

/// Runs the app's `ON DELETE` for references that only this file has.
///
/// The device applies answers without foreign key actions, because an answer contains the effects of the server's
/// actions. The server does not know the file's own references, so the device handles them.
struct OwnReferences {
    let db: Database
    let schema: SyncSchema

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
        let columns = reference.columns.map { "child_row.\(SQLText.name($0))" }
        let match = zip(columns, reference.parentColumns).map { "parent_row.\(SQLText.name($1)) = \($0)" }
        let isDangling = """
            \(columns.map { "\($0) IS NOT NULL" }.joined(separator: " AND ")) AND NOT EXISTS (
                SELECT 1 FROM main.\(SQLText.name(reference.parent)) AS parent_row
                WHERE \(match.joined(separator: " AND ")))
            """
        let name = "main.\(SQLText.name(table.name)) AS child_row"
        switch reference.onDelete {
        case .cascade where isOwnRow: try db.execute(sql: "DELETE FROM \(name) WHERE \(isDangling)")
        case .setNull, .cascade:
            let targets = reference.columns.map { "\(SQLText.name($0)) = NULL" }
            try db.execute(sql: "UPDATE \(name) SET \(targets.joined(separator: ", ")) WHERE \(isDangling)")
        case .noAction, .restrict, .setDefault: break
        }
    }
}
