#if DEBUG
import TidemarkCore

extension PlantedBug {
    /// What the bug does where it is more than another decision; nil if it only decides otherwise.
    var simulatedDeed: Deed? {
        switch self {
        case .mistakesForDeleted: .names(.deleted)
        case .mistakesForExisting: .names(.exists)
        case .mistakesForOrphan: .names(.parentDeleted)
        case .mistakesForReferenced: .names(.referenced)
        case .mistakesForUnique: .names(.unique)
        default: sql.map(Deed.runs)
        }
    }

    private var sql: String? {
        switch self {
        case .acknowledgesNewerEdits: Self.emptyOutbox(of: "wire IS NULL")
        case .dropsOutboxOnSnapshot, .dropsOutboxOnRevoke: Self.emptyOutbox(of: "true")
        case .dropsUncapturedEdits: "DELETE FROM temp.tidemark_found"
        case .dropsIdMap: "DELETE FROM tidemark_idmap"
        case .losesConflictRecords: "DELETE FROM tidemark_conflict_record"
        case .skipsRevision: "UPDATE tidemark_zone SET revision = revision + 1"
        case .thawsSentSets: Self.addToLastSet
        case .dropsCreationsDeletedLater: Self.dropDeletedCreations
        default: nil
        }
    }

    private static func emptyOutbox(of condition: String) -> String {
        let sets = "(SELECT seq FROM tidemark_changeset WHERE \(condition))"
        return """
            DELETE FROM tidemark_wire_rest WHERE seq IN \(sets);
            DELETE FROM tidemark_outbox WHERE seq IN \(sets);
            DELETE FROM tidemark_after WHERE seq IN \(sets);
            DELETE FROM tidemark_changeset WHERE \(condition)
            """
    }

    /// The device may have sent the last change set already, and then the additions never arrive.
    private static let addToLastSet = """
        INSERT OR REPLACE INTO tidemark_outbox (seq, tbl, key, operation, attributes, base)
        SELECT last.seq, tbl, key, operation, attributes, base
        FROM tidemark_outbox AS new_entry
        JOIN (SELECT max(seq) AS seq FROM tidemark_changeset) AS last ON new_entry.seq > last.seq;
        UPDATE tidemark_changeset SET wire = NULL WHERE seq = (SELECT max(seq) FROM tidemark_changeset);
        DELETE FROM tidemark_outbox WHERE seq > (SELECT max(seq) FROM tidemark_changeset)
        """

    /// The device may have sent the creation already, and then the server keeps the record.
    private static let dropDeletedCreations = """
        DELETE FROM tidemark_outbox
        WHERE EXISTS (
            SELECT 1
            FROM tidemark_outbox AS deletion
            JOIN tidemark_outbox AS creation USING (tbl, key)
            WHERE tbl = tidemark_outbox.tbl AND key = tidemark_outbox.key
                AND deletion.operation = 'delete' AND creation.operation = 'create'
                AND creation.seq < deletion.seq)
        """
}
#endif
