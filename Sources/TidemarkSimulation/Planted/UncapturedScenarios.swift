#if DEBUG
import GRDB
import Tidemark
import TidemarkCore

/// Programs that switch triggers off, and programs that write a table whole.
extension Scenario {
    /// A program edits a device's file without triggers, among captured edits and those of another device.
    static let triggersOff = Scenario(name: "edits with triggers off") { world in
        for seed in 1...UInt64(6) {
            var story = UncapturedStory(world: world, seed: seed)
            if let finding = try story.run() { return finding }
        }
        return nil
    }

    /// A program writes a table whole, in another order and with a changed value, and another device edits the rest.
    static let rewrittenTable = Scenario(name: "a table written whole and changed", profile: .shapes) { world in
        let device = world[1]
        try device.writeOutside { db in
            try db.execute(
                sql: """
                    CREATE TEMP TABLE whole AS SELECT folder_id, iif(id = 1, 'changed', note) AS note FROM pin;
                    DELETE FROM pin;
                    INSERT INTO pin (folder_id, note) SELECT folder_id, note FROM whole ORDER BY rowid DESC;
                    DROP TABLE whole;
                    """)
        }
        try world[2].write("UPDATE pin SET note = 'theirs' WHERE id = 2")
        try world.sync(world[2])
        try world.sync(device)
        let notes = try world.server.read { try String.fetchAll($0, sql: "SELECT note FROM pin ORDER BY note") }
        guard notes != ["changed", "theirs"] else { return nil }
        return Finding("I9", actor: device.name, detail: "the zone has \(notes) instead of what both have written")
    }

    /// On each of two devices a program writes a table whole, and then the app migrates another table.
    static let rewrittenTwice = Scenario(name: "a table written whole before a migration", profile: .fates) { world in
        let devices = [world[1], world[2]]
        for device in devices {
            try device.writeOutside { db in
                try db.execute(
                    sql: """
                        CREATE TEMP TABLE whole AS SELECT item_id, mark, name FROM part;
                        DELETE FROM part;
                        INSERT INTO part (item_id, mark, name) SELECT item_id, mark, name FROM whole;
                        DROP TABLE whole;
                        """)
            }
            try device.alter { try $0.execute(sql: "ALTER TABLE setting ADD COLUMN own TEXT") }
        }
        for device in devices + devices { try world.sync(device) }
        let names = try world.server.read { try String.fetchAll($0, sql: "SELECT name FROM part ORDER BY name") }
        guard names != ["b.4", "b.5"] else { return nil }
        return Finding("I9", actor: "server", detail: "has the parts \(names) of a table that two programs wrote whole")
    }
}

/// Random edits without triggers, each with a value of its own.
///
/// In the end each value must be in the zone's rows, wait, or be in a conflict, but not in two.
private struct UncapturedStory {
    let world: World
    let seed: UInt64
    private var state: UInt64
    /// The values that their author has not overwritten.
    private var values: [String] = []

    init(world: World, seed: UInt64) {
        self.world = world
        self.seed = seed
        state = seed
    }

    mutating func run() throws -> Finding? {
        let device = world[1]
        for number in 1...40 {
            switch draw(6) {
            case 0, 1: try editWithoutTriggers(device, "u\(seed).\(number)")
            case 2:
                let player = draw(3)
                try device.write { try $0.execute(sql: "UPDATE player SET score = 7 WHERE id = \(Self.nth(player))") }
            case 3:
                let player = draw(3)
                try world[2].write {
                    try $0.execute(sql: "UPDATE player SET name = 'b\(number)' WHERE id = \(Self.nth(player))")
                }
                try world.sync(world[2])
            default: try world.sync(device)
            }
        }
        for device in [device, world[2], device] { try world.sync(device) }
        return try values.compactMap { try judge($0, device) }.first
    }

    private mutating func editWithoutTriggers(_ device: SimulatedDevice, _ value: String) throws {
        let kind = draw(3)
        let player = Self.nth(draw(3))
        var overwritten: String?
        try device.write { db in
            overwritten = try String.fetchOne(db, sql: "SELECT name FROM player WHERE id = \(player)")
            try db.execute(sql: "UPDATE tidemark_state SET applying = 1")
            let sql =
                kind == 0
                ? "INSERT INTO tag (name, title) VALUES (?1, ?1)" : "UPDATE player SET name = ? WHERE id = \(player)"
            try db.execute(sql: sql, arguments: [value])
            try db.execute(sql: "UPDATE tidemark_state SET applying = 0")
        }
        if kind != 0 { values.removeAll { $0 == overwritten } }
        values.append(value)
    }

    private func judge(_ value: String, _ device: SimulatedDevice) throws -> Finding? {
        let rows = "SELECT count(*) FROM (SELECT name FROM player UNION ALL SELECT name FROM tag) WHERE name = ?"
        let inZone = try world.server.read { try Int.fetchOne($0, sql: rows, arguments: [value]) ?? 0 }
        let count = { (table: String, column: String) in
            try device.access { db in
                try Int.fetchOne(
                    db, sql: "SELECT count(*) FROM \(table) WHERE instr(\(column), ?)", arguments: ["\"\(value)\""])
                    ?? 0
            }
        }
        let waiting = try count("tidemark_outbox", "attributes")
        let parked = try count("tidemark_conflict_record", "mine")
        if inZone + waiting + parked == 0 {
            return Finding("I9", actor: device.name, detail: "the uncaptured edit \(value) is gone")
        }
        guard parked > 1 else { return nil }
        return Finding("I6", actor: device.name, detail: "the uncaptured edit \(value) is parked \(parked) times")
    }

    private static func nth(_ place: Int) -> String { "(SELECT id FROM player ORDER BY id LIMIT 1 OFFSET \(place))" }

    private mutating func draw(_ count: UInt64) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int((state >> 33) % count)
    }
}
#endif
