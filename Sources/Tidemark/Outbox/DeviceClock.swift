import GRDB
import TidemarkCore

/// The device's hybrid clock, which lies in its file: it goes on where it stood after a restart,
/// and two processes on one file have the same.
enum DeviceClock {
    /// The clock as the file has it.
    static func read(_ db: Database) throws -> HybridClock {
        HybridClock(last: try Int64.fetchOne(db.cachedStatement(sql: "SELECT time FROM tidemark_device")) ?? 0)
    }

    /// Keeps the clock; it never goes back.
    static func store(_ clock: HybridClock, in db: Database) throws {
        try db.cachedStatement(sql: "UPDATE tidemark_device SET time = max(time, ?)").execute(arguments: [clock.last])
    }

    /// Sees the times of the change sets in an answer, so that what is written from now on is later
    /// than all that this file knows.
    static func receiveStaged(_ db: Database) throws {
        let seen = try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    SELECT max(value) FROM temp.tidemark_staged_member
                    WHERE name = 'time' AND type = 'integer' AND typeof(value) = 'integer'
                    """
            )
        )
        try receive(seen, in: db)
    }

    /// Sees a time of the zone's; nil where the server told none.
    static func receive(_ seen: Int64?, in db: Database) throws {
        guard let seen, !planted(PlantedBug.forgetsTimesSeen) else { return }
        var clock = try read(db)
        clock.receive(seen)
        try store(clock, in: db)
    }
}
