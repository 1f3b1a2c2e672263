#if DEBUG
package import GRDB
package import TidemarkCore

/// Runs the SQL of a planted bug at the place where the bug is; does nothing while it is not planted.
package func runPlanted(_ bug: PlantedBug, in db: Database) throws {
    if planted(bug), case .runs(let sql) = PlantedBug.deed { try db.execute(sql: sql) }
}
#endif
