#if DEBUG
import GRDB
import Tidemark
import TidemarkCore

extension Scenario {
    /// Another program takes the id of a device's new team, and the refusal gets lost.
    ///
    /// The change set also renames a player, who then gets another name at the server.
    static let takenID = Scenario(name: "an id that another program takes", seed: 7) { world in
        let device = world[1]
        let team = { (name: String) in "INSERT INTO team (name) VALUES ('\(name)')" }
        let player = { (name: String) in "UPDATE player SET name = '\(name)' WHERE id = 1" }
        // The device is lent ids with its first team. The id after the second one's is free for both sides.
        for name in ["first", "second"] {
            try device.write { try $0.execute(sql: team(name)) }
            try world.sync(device)
        }
        try world.server.writeOutside { try $0.execute(sql: team("theirs")) }
        try device.write { try $0.execute(sql: team("mine") + ";" + player("mine")) }
        _ = try world.server.handle(world.nextRequest(of: device).body, crash: .never)
        try world.server.writeOutside { try $0.execute(sql: player("theirs")) }
        try world.sync(device)
        let name = try world.server.read { try String.fetchOne($0, sql: "SELECT name FROM player WHERE id = 1") }
        guard name != "theirs" else { return nil }
        return Finding("I2", actor: device.name, detail: "overwrites a name that its author had not seen")
    }

    /// A device's file is copied, and both files draw ids for new teams, which titles name.
    static let copiedFile = Scenario(name: "two new teams of a device and its copy", seed: 7) { world in
        let device = world[1]
        try device.write("INSERT INTO team (name) VALUES ('first')")
        try world.sync(device)
        let copy = try world.copyOfFile(device)
        // The server recognises the copy when both have sent something, and lends it ids with its next team.
        for device in [device, copy, copy, device] {
            try device.write("INSERT INTO team (name) VALUES ('more')")
            try world.sync(device)
        }
        for (device, name) in [(device, "mine"), (copy, "copy")] {
            try device.write(
                """
                INSERT INTO team (name) VALUES ('\(name)');
                INSERT INTO tag (name, title) SELECT name, id FROM team WHERE name = '\(name)'
                """)
        }
        for device in [device, copy, device] { try world.sync(device) }
        let names = try world.server.read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT team.name FROM tag JOIN team ON CAST(title AS INTEGER) = id
                    WHERE tag.name IN ('mine', 'copy') ORDER BY tag.name
                    """)
        }
        guard names != ["copy", "mine"] else { return nil }
        return Finding("I8", actor: copy.name, detail: "the titles of a device and its copy name the teams \(names)")
    }

    /// Another program takes the number of a device's new team, in zones whose policy decides between values.
    static let takenNumber = Scenario(name: "a number that another program takes, under a policy") { _ in
        for seed in 1...UInt64(12) {
            let world = try world(seed: seed, profile: .policies)
            guard world.plan.policies["team"]?.decides == true else { continue }
            let device = world[1]
            let team = { (name: String) in "INSERT INTO team (name) VALUES ('\(name)')" }
            for name in ["first", "second"] {
                try device.write { try $0.execute(sql: team(name)) }
                try world.sync(device)
            }
            try world.server.writeOutside { try $0.execute(sql: team("theirs")) }
            try device.write { try $0.execute(sql: team("mine")) }
            try world.sync(device)
            try world.sync(device)
            let names = try world.server.read { db in
                try Set(String.fetchAll(db, sql: "SELECT name FROM team WHERE name IN ('theirs', 'mine')"))
            }
            guard names == ["theirs", "mine"] else {
                return Finding(
                    "I2", actor: device.name, detail: "of two new teams with one number, one is left: \(names)")
            }
        }
        return nil
    }
}

extension World {
    /// A device with a copy of another one's file.
    fileprivate func copyOfFile(_ original: SimulatedDevice) throws -> SimulatedDevice {
        let number = devices.count + 1
        let file = try storage.open("device-\(number)")
        try original.database.backup(to: file)
        try file.close()
        return try SimulatedDevice(
            number: number, in: storage, VirtualEnvironment(seed: UInt64(number)), limits: plan.deviceLimits,
            version: original.version)
    }
}
#endif
