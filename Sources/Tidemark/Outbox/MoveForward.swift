import GRDB
import TidemarkCore
import TidemarkSQL

/// Moves the latest change sets of the outbox before unsent ones that need them.
///
/// The comparison of a rebuilt table finds changes that were made before it was noticed. Changes that were
/// captured meanwhile may refer to the found records, or change them again. The outbox holds them back until
/// the comparison, so none of them is frozen.
struct MoveForward {
    let db: Database
    let schema: SyncSchema

    /// Moves the change sets after `last`, and returns the lowest number of a moved or new change set.
    func run(after last: Int64) throws -> Int64 {
        let ids = try String.fetchAll(
            db, sql: "SELECT id FROM tidemark_changeset WHERE seq > ? ORDER BY seq", arguments: [last])
        return try ids.map(move).min() ?? last + 1
    }

    private func move(_ id: String) throws -> Int64 {
        guard let seq = try Int64.fetchOne(db, sql: "SELECT seq FROM tidemark_changeset WHERE id = ?", arguments: [id])
        else { throw TidemarkError.unreadable("The outbox") }
        let referring = try Dependencies(db: db, schema: schema).firstReferring(to: seq)
        if let changing = try firstChanging(seq), changing <= referring ?? changing {
            try insert(seq, at: changing)
            return changing
        }
        guard let referring else { return seq }
        try unite(seq, id, with: referring)
        return referring
    }

    /// Returns the first unsent change set that changes one of the same records.
    private func firstChanging(_ seq: Int64) throws -> Int64? {
        try Int64.fetchOne(
            db,
            sql: """
                SELECT min(later.seq)
                FROM tidemark_outbox AS found
                JOIN tidemark_outbox AS later
                    ON later.tbl = found.tbl AND later.key = found.key AND later.seq < found.seq
                JOIN tidemark_changeset AS changeset ON changeset.seq = later.seq AND changeset.wire IS NULL
                WHERE found.seq = ?
                """, arguments: [seq])
    }

    /// Gives a change set the number `place`, and those from there on the next ones.
    private func insert(_ seq: Int64, at place: Int64) throws {
        for table in ["tidemark_changeset", "tidemark_outbox", "tidemark_after"] {
            // By way of numbers far above, because a number is unique at each moment.
            try db.execute(
                sql: "UPDATE \(table) SET seq = ?3 + iif(seq = ?1, ?2, seq + 1) WHERE seq BETWEEN ?2 AND ?1",
                arguments: [seq, place, Outbox.farAbove])
            try db.execute(
                sql: "UPDATE \(table) SET seq = seq - ?1 WHERE seq > ?1 / 2", arguments: [Outbox.farAbove])
        }
    }

    /// Adds a change set's records to an earlier one that refers to them, since each may refer to the other.
    private func unite(_ seq: Int64, _ id: String, with target: Int64) throws {
        try db.execute(sql: "UPDATE tidemark_outbox SET seq = ? WHERE seq = ?", arguments: [target, seq])
        try Outbox.remove(id, in: db)
    }
}
