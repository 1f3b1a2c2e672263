import GRDB
import TidemarkCore
import TidemarkSQL

/// Brings the file of a zone to the tables and declarations of the main zone.
///
/// The operator and the program alter the main zone's file only. The store then follows the change in the other file
/// as if another program had made it there, so devices receive it. All of it is in the caller's transaction: a zone
/// is as before, or as the main zone is.
///
/// - A new table or column is added, a renamed column is renamed.
/// - A table that differs otherwise is made again with its rows (``AlterTable``).
/// - A table that the main zone has no more stays with its rows.
struct AlignZone {
    let template: ZoneTemplate
    let zone: String

    /// Changes the file in the caller's transaction; throws `unavailable` if rows do not fit or it is ambiguous.
    func run(in db: Database) throws {
        do {
            try template.declare(in: db)
            let present = try ZoneTemplate.objects(in: db)
            if present != template.objects { try align(present, in: db) }
            try template.raiseSettings(in: db)
        } catch let error as DatabaseError where [.SQLITE_CONSTRAINT, .SQLITE_ERROR].contains(error.resultCode) {
            throw TidemarkError(
                .unavailable,
                "Zone \(zone) cannot have the main zone's tables: \(error.message ?? "SQLite gives no reason").",
                fix: "Mend its rows in the file of the zone; the zone follows when it is opened next.")
        }
    }

    private func align(_ present: [ZoneTemplate.Object], in db: Database) throws {
        let tables = template.objects.filter { $0.type == "table" }
        let byName = Dictionary(present.map { ($0.name, $0) }) { first, _ in first }
        let wanted = Dictionary(template.objects.map { ($0.name, $0) }) { first, _ in first }
        let altered = tables.filter { table in byName[table.name].map { !$0.isSame(as: table) } ?? false }
        // SQLite alters no table while a trigger or view names a column that is gone.
        let dropped = present.filter { object in
            guard object.type == "trigger" || object.type == "view" else { return false }
            return !altered.isEmpty || wanted[object.name].map { $0 != object } ?? false
        }
        for object in dropped { try drop(object, in: db) }
        for table in tables where byName[table.name] == nil { try db.execute(sql: table.sql) }
        for table in altered {
            guard let current = byName[table.name] else { continue }
            try AlterTable(db: db, zone: zone, current: current, wanted: table, template: template).run()
        }
        try alignIndexes(in: db)
        let now = Set(try ZoneTemplate.objects(in: db).map(\.name))
        let own = dropped.filter { wanted[$0.name] == nil }
        for object in template.objects + own where ["view", "trigger"].contains(object.type) {
            if !now.contains(object.name) { try db.execute(sql: object.sql) }
        }
    }

    private func alignIndexes(in db: Database) throws {
        let present = try ZoneTemplate.objects(in: db).filter { $0.type == "index" }
        let wanted = template.objects.filter { $0.type == "index" }
        for index in present where !wanted.contains(where: index.isSame) { try drop(index, in: db) }
        for index in wanted where !present.contains(where: index.isSame) { try db.execute(sql: index.sql) }
    }

    private func drop(_ object: ZoneTemplate.Object, in db: Database) throws {
        // A trigger goes with its view, and an index with its table.
        try db.execute(sql: "DROP \(object.type.uppercased()) IF EXISTS main.\(SQLText.name(object.name))")
    }
}
