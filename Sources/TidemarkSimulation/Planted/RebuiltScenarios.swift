#if DEBUG
import GRDB
import TidemarkCore

/// Migrations that make a table again and edit its rows, which no trigger captures.
extension Scenario {
    /// A migration leaves out a column of the zone, and edits a row.
    static let rebuiltAndEdited = Scenario(name: "a rebuild that drops a column and edits", profile: .fates) { world in
        let device = world[1]
        try device.alter { db in
            let change = "ALTER TABLE new DROP COLUMN extra; UPDATE new SET name = 'mine' WHERE id = 1"
            try AlterFile.rebuild("item", db, changing: change)
        }
        try world.sync(device)
        let name = try world.server.read { try String.fetchOne($0, sql: "SELECT name FROM item WHERE id = 1") }
        let conflicts = try device.queueCounts().conflicts
        guard name != "mine" || conflicts > 0 else { return nil }
        return Finding("I9", actor: device.name, detail: "asks a person about a migration's edit that nobody disputes")
    }

    /// A migration edits one value of a record, and another device writes another one.
    ///
    /// The policy lets the later value of a column stand.
    static let rebuiltMeanwhile = Scenario(name: "a migration's edit of a record that others change") { _ in
        for seed in 1...UInt64(12) {
            let world = try world(seed: seed, profile: .shapes)
            guard world.plan.policies["pin"] == .lastWriter else { continue }
            let device = world[1]
            try device.alter { db in
                try AlterFile.rebuild("pin", db, changing: "UPDATE new SET note = 'mine' WHERE id = 1")
            }
            try world[2].write("UPDATE pin SET folder_id = 3 WHERE id = 1")
            try world.sync(world[2])
            try world.sync(device)
            let pin = try world.server.read { db in
                try String.fetchOne(db, sql: "SELECT ifnull(folder_id, '') || ' ' || note FROM pin WHERE id = 1")
            }
            guard pin != "3 mine" else { continue }
            return Finding(
                "I2", actor: device.name,
                detail: "the zone has the pin '\(pin ?? "")', as if the migration had written the folder, too")
        }
        return nil
    }

    /// An app adds a column between an addition to a number and the sync, and another device adds, too.
    static let addedBeforeMigration = Scenario(name: "a sum before a migration", profile: .fates) { world in
        let device = world[1]
        let add = "UPDATE item SET amount = amount + 1 WHERE id = 1"
        try device.write { try $0.execute(sql: add) }
        try device.alter { try $0.execute(sql: "ALTER TABLE item ADD COLUMN own TEXT") }
        try world[2].write { try $0.execute(sql: add) }
        try world.sync(world[2])
        try world.sync(device)
        let amount = try world.server.read { try Int.fetchOne($0, sql: "SELECT amount FROM item WHERE id = 1") }
        guard amount != 2 else { return nil }
        return Finding("I11", actor: device.name, detail: "two devices have added one, and the zone has \(amount ?? 0)")
    }
}
#endif
