#if DEBUG
import GRDB
import Tidemark
import TidemarkCore

/// A person retries a conflict, long after the device has shown it.
extension Scenario {
    /// Another device writes the record again after the refusal.
    static let retriedLate = Scenario(name: "a retry over a name that came after the refusal") { world in
        let conflict = try world.refused(
            "UPDATE team SET name = 'mine' WHERE id = 1", by: "UPDATE team SET name = 'theirs' WHERE id = 1")
        try world.publish("UPDATE team SET name = 'later' WHERE id = 1")
        try world.retry(conflict)
        let name = try world.text("SELECT name FROM team WHERE id = 1")
        guard name != "later" else { return nil }
        return Finding("I2", actor: world[1].name, detail: "a retry makes 'later', which nobody was shown, '\(name)'")
    }

    /// Two devices create the same tag, each with a value that the other one does not set.
    static let retriedCreation = Scenario(name: "a retried tag that another device has, with a title") { world in
        let conflict = try world.refused(
            "INSERT INTO tag (name, colour) VALUES ('k', x'01')",
            by: "INSERT INTO tag (name, title) VALUES ('k', 'theirs')")
        try world.retry(conflict)
        let tag = try world.text("SELECT hex(colour) || ' ' || ifnull(title, '') FROM tag WHERE name = 'k'")
        guard tag != "01 theirs" else { return nil }
        return Finding("I2", actor: world[1].name, detail: "a retry of a tag without a title makes it '\(tag)'")
    }

    /// A team gets a player after its deletion was refused.
    static let retriedDeletion = Scenario(name: "a retried deletion over a player that came since") { world in
        let conflict = try world.refused(
            "DELETE FROM team WHERE id = 3", by: "UPDATE team SET name = 'theirs' WHERE id = 3")
        try world.publish("INSERT INTO player (team_id, name) VALUES (3, 'later')")
        try world.retry(conflict)
        guard try world.text("SELECT count(*) FROM player WHERE name = 'later'") != "1" else { return nil }
        return Finding("I2", actor: world[1].name, detail: "a retried deletion takes a player that nobody was shown")
    }

    /// Two programs number their new teams alike.
    static let retriedNumber = Scenario(name: "a retried team whose number another team has") { world in
        let conflict = try world.refused(
            "INSERT INTO team (id, name) VALUES (77, 'mine')", by: "INSERT INTO team (id, name) VALUES (77, 'theirs')")
        try world.retry(conflict)
        let name = try world.text("SELECT name FROM team WHERE id = 77")
        guard name != "theirs" else { return nil }
        return Finding("I2", actor: world[1].name, detail: "a retry makes another one's team 77 '\(name)', unasked")
    }

    /// A program without triggers adds a team under an id that the device is lent, and a title names the id.
    static let retriedLentID = Scenario(name: "a retried team under a lent id, which a title names", seed: 7) { world in
        let device = world[1]
        // The device is lent ids with its first team.
        try device.write("INSERT INTO team (name) VALUES ('first')")
        try world.sync(device)
        try device.write(
            """
            UPDATE tidemark_state SET applying = 1;
            INSERT INTO team (name) VALUES ('mine');
            UPDATE tidemark_state SET applying = 0;
            INSERT INTO tag (name, title) SELECT 'note', id FROM team WHERE name = 'mine'
            """)
        try world.sync(device)
        try world.retry(world.conflict())
        let name = try world.text(teamOfNote)
        guard name != "mine" else { return nil }
        return Finding("I8", actor: device.name, detail: "a title has the id of team '\(name)' instead of 'mine'")
    }

    /// A device makes two teams before it is lent ids, and the first one is refused for its rank.
    ///
    /// The id after the temporary one was the other team's, so a new team may not draw it. A title names the new team.
    static let retriedFormerID = Scenario(name: "a new team after a retry under a temporary id", seed: 7) { world in
        let device = world[1]
        try world.server.writeOutside { try $0.execute(sql: "INSERT INTO team (name, rank) VALUES ('theirs', 9)") }
        try device.write("INSERT INTO team (name, rank) VALUES ('refused', 9)")
        try device.write("INSERT INTO team (name) VALUES ('accepted')")
        try world.sync(device)
        let conflict = try world.conflict()
        try world.server.writeOutside { try $0.execute(sql: "UPDATE team SET rank = NULL WHERE rank = 9") }
        try world.sync(device)
        try world.retry(
            conflict,
            then: """
                INSERT INTO team (name) VALUES ('new');
                INSERT INTO tag (name, title) SELECT 'note', id FROM team WHERE name = 'new'
                """)
        let name = try world.text(teamOfNote)
        guard name != "new" else { return nil }
        return Finding("I8", actor: device.name, detail: "a title has the id of team '\(name)' instead of 'new'")
    }

    /// The team whose id stands in a title, which is a reference that no table declares.
    private static let teamOfNote = """
        SELECT team.name FROM tag JOIN team ON CAST(title AS INTEGER) = id WHERE tag.name = 'note'
        """
}

extension World {
    /// Writes on the first device what the server then refuses, because the second one was faster.
    ///
    /// - Returns: The conflict as the first device shows it.
    fileprivate func refused(_ mine: String, by theirs: String) throws -> Conflict {
        try self[1].write(mine)
        try publish(theirs)
        return try conflict()
    }

    /// Writes on the second device what the first one gets to know, too.
    fileprivate func publish(_ sql: String) throws {
        try self[2].write(sql)
        try sync(self[2])
        try sync(self[1])
    }

    /// The conflict that the first device shows.
    fileprivate func conflict() throws -> Conflict {
        let conflict = try self[1].access { try SyncEngine.conflicts(in: $0) }.first
        guard let conflict else { throw Finding("live", actor: self[1].name, detail: "shows no conflict") }
        return conflict
    }

    /// Retries a conflict on the first device, as a person has seen it, and sends that with a later edit.
    ///
    /// The device may refuse, for what the person has not seen.
    fileprivate func retry(_ conflict: Conflict, then sql: String = "") throws {
        let device = self[1]
        do {
            try device.write { db in
                try ResolveConflict(db: db, schema: DeviceFile(db).schema, seen: .shown(conflict)).resolve(
                    conflict.id, .retry)
            }
        } catch let error as TidemarkError where [.preconditionFailed, .invalidArgument].contains(error.code) { return }
        if !sql.isEmpty { try device.write(sql) }
        try sync(device)
    }

    /// A value of the zone, as text.
    fileprivate func text(_ sql: String) throws -> String {
        try server.read { try String.fetchOne($0, sql: sql) ?? "nothing" }
    }
}
#endif
