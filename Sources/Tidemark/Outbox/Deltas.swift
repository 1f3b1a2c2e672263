import GRDB
import TidemarkCore
import TidemarkSQL

/// Derives deltas from captured updates of columns with the policy `add`.
///
/// An app writes `SET stock = stock - 2`, and capture sees 7 become 5. The first old and the last new
/// value are exact for this change set alone, whatever other change sets wait: each has its own delta.
struct Deltas {
    let db: Database
    let schema: SyncSchema

    /// Replaces integers by what they add to the old ones; other values, and differences beyond 64 bits, stay.
    func deriveReduced() throws {
        if planted(PlantedBug.sendsSumsAsValues) { return }
        for table in schema.tables {
            for column in schema.addingColumns(of: table.name).sorted() {
                let path = SQLText.literal(MemberSQL.path(column))
                let delta = "((attributes ->> \(path)) - (before ->> \(path)))"
                try db.execute(
                    cached: """
                        UPDATE temp.tidemark_reduced
                        SET attributes = json_set(attributes, \(path), json_object('$add', \(delta)))
                        WHERE tbl = ?
                            AND operation = 'update'
                            AND json_type(attributes, \(path)) = 'integer'
                            AND json_type(before, \(path)) = 'integer'
                            AND typeof(\(delta)) = 'integer'
                        """, arguments: [table.name])
            }
        }
    }
}
