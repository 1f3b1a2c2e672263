import GRDB
import TidemarkCore

/// The device's hybrid clock, stored in the file: it survives restarts, and all processes of the file share it.
enum DeviceClock {
    static func read(_ db: Database) throws -> HybridClock {
        HybridClock(last: try Int64.fetchOne(db, cached: "SELECT time FROM tidemark_device") ?? 0)
    }

    /// Stores the clock, which never goes back.
    static func store(_ clock: HybridClock, in db: Database) throws {
        try db.execute(cached: "UPDATE tidemark_device SET time = max(time, ?)", arguments: [clock.last])
    }

    /// Moves the clock beyond a time of the zone, so that later edits get later times; nil if the server sent none.
    static func receive(_ time: Int64?, in db: Database) throws {
        guard let time, !planted(PlantedBug.forgetsTimesSeen) else { return }
        var clock = try read(db)
        clock.receive(time)
        try store(clock, in: db)
    }
}
