package import TidemarkCore
package import TidemarkEngine

/// The requests to a world's server, in order, with its answers: a script for comparing another
/// store.
package final class Journal {
    /// One entry.
    package enum Entry: Sendable {
        /// A request and its answer.
        case request(ZoneRequest, ZoneResult)
        /// Another program's transaction, as its revision; nil if it changed nothing.
        case outside(String?)
        /// The zone was made ready for a snapshot.
        case snapshot
        /// Columns were renamed, tables altered to those of the schema, and new columns filled.
        case migration(renames: [ColumnRename], schemaSQL: String, backfill: String)
    }

    /// The policies of the tables.
    package var policies: [String: ConflictPolicy] = [:]
    /// The server's bounds.
    package var limits = Limits.standard
    /// The entries so far.
    package private(set) var entries: [Entry] = []

    /// Makes an empty journal.
    package init() {}

    /// The statements that make the server's tables and first rows.
    package static var schemaSQL: String { ZoneSchema.sql + ZoneSchema.rows }
    /// The first history of every world.
    package static let epoch = "00000000-0000-4000-8000-000000000000"
    /// The server's clock, which stands still.
    package static let now = SimulatedServer.now

    func add(_ entry: Entry) { entries.append(entry) }

    /// Adds requests of one transaction, which count as one after another.
    ///
    /// A short question is added in its full form.
    func add(_ group: [ZoneRequest], _ results: [ZoneResult]) throws {
        for (request, result) in zip(group, results) {
            if case .failure(let error) = result {
                guard let refusal = Problem(refusal: error, index: nil) else { throw error }
                if refusal.error.code == .fullRequestRequired { continue }
            }
            add(.request(request, result))
        }
    }
}
