package import GRDB
package import TidemarkCore

#if DEBUG
/// Runs the SQL of a planted bug at the place where the bug is; does nothing while it is not planted.
package func runPlanted(_ bug: PlantedBug, in db: Database) throws {
    if planted(bug), case .runs(let sql) = PlantedBug.deed { try db.execute(sql: sql) }
}
#else
/// Does nothing.
@inlinable @inline(__always) package func runPlanted(
    _ bug: @autoclosure () -> PlantedBug,
    in db: @autoclosure () -> Database
) throws {}
#endif
