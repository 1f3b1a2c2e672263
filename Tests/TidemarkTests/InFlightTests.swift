import Foundation
import GRDB
import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Users edit on during a request, and answers are lost.
@Suite struct InFlightTests {
    private static let schema = """
        CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE players (id INTEGER PRIMARY KEY,
            team_id INTEGER NOT NULL REFERENCES teams ON DELETE CASCADE, name TEXT, goals INTEGER);
        CREATE INDEX players_team ON players (team_id);
        """
    private static let seed = """
        INSERT INTO teams (name) VALUES ('Kiel');
        INSERT INTO players (team_id, name) VALUES (1, 'Anna')
        """

    private static func pair() async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice) {
        let cluster = try Cluster(schema: schema, seed: seed)
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    // MARK: Edits during a request

    @Test func `C4, rule 16: an edit during a request stays and is sent next`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE players SET name = 'Annika' WHERE id = 1")
        anna.transport.faults.whileInFlight { try await anna.write("UPDATE players SET goals = 3 WHERE id = 1") }
        try await anna.engine.sync()
        #expect(
            try anna.sent.map { $0.map(\.records) } == [[["update players 1 (name)"]], [["update players 1 (goals)"]]])
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT name, goals FROM players") == ["Annika|3"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `rule 7: a player that waits for a deleted team is hidden meanwhile`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await ben.write("DELETE FROM teams WHERE id = 1")
        try await ben.engine.sync()
        let observations = Mutex<[String]>([])
        let faults = anna.transport.faults
        faults.whileInFlight {
            try await anna.write("INSERT INTO players (team_id, name) VALUES (1, 'Eva')")
            faults.whileInFlight {
                let broken = try await anna.rows("PRAGMA foreign_key_check")
                let players = try await anna.rows("SELECT name FROM players")
                observations.withLock { $0 = broken + players + ["seen"] }
            }
        }
        try await anna.engine.sync()
        #expect(observations.withLock { $0 } == ["seen"])
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.records.first?.mine?.contains("Eva") == true)
        try await cluster.converge(anna, ben)
    }

    @Test func `rule 7: a team with a pending deletion comes back when others give it a player`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await ben.write("INSERT INTO players (team_id, name) VALUES (1, 'Eva')")
        try await ben.engine.sync()
        let observations = Mutex<[String]>([])
        let faults = anna.transport.faults
        faults.whileInFlight {
            try await anna.write("DELETE FROM teams WHERE id = 1")
            faults.whileInFlight {
                let broken = try await anna.rows("PRAGMA foreign_key_check")
                let players = try await anna.rows("SELECT name FROM players ORDER BY name")
                observations.withLock { $0 = broken + players }
            }
        }
        try await anna.engine.sync()
        #expect(observations.withLock { $0 } == ["Anna", "Eva"])
        #expect(try await anna.engine.conflicts().count == 1)
        try await cluster.converge(anna, ben)
    }

    @Test(arguments: ["-1", "-5", "-46", "-4503599627370495", "NULL"])
    func `A4: edits of new records follow them to their ids, whatever the temporary id`(id: String) async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write(
            """
            INSERT INTO teams (name) VALUES ('a'), ('b'), ('c'), ('d'), ('e');
            DELETE FROM teams WHERE name IN ('a', 'b', 'c', 'd');
            INSERT INTO teams VALUES (\(id), 'Jena');
            """
        )
        anna.transport.faults.whileInFlight {
            try await anna.write("UPDATE teams SET name = name || ' II' WHERE id <> 1")
            try await anna.write("INSERT INTO players (team_id, name) SELECT id, name FROM teams WHERE id <> 1")
        }
        try await anna.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(
            try await ben.rows("SELECT team_id > 1, name FROM players WHERE id > 1 ORDER BY name") == [
                "1|Jena II", "1|e II",
            ]
        )
        #expect(try await ben.rows("SELECT max(id) FROM teams") == ["3"])
    }

    @Test func `C4: a new record is edited during its request`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO players (team_id, name) VALUES (1, 'Emma')")
        anna.transport.faults.whileInFlight { try await anna.write("UPDATE players SET goals = 7 WHERE name = 'Emma'") }
        try await anna.engine.sync()
        #expect(try anna.lastSent == [["update players 2 (goals)"]])
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT id, name, goals FROM players WHERE id <> 1") == ["2|Emma|7"])
    }

    @Test func `C4: a new record is deleted during its request`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO players (team_id, name) VALUES (1, 'Emma')")
        anna.transport.faults.whileInFlight { try await anna.write("DELETE FROM players WHERE name = 'Emma'") }
        try await anna.engine.sync()
        #expect(try anna.lastSent == [["delete players 2"]])
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT name FROM players") == ["Anna"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `C4: a new record gets a child during its request`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO teams (name) VALUES ('Jena')")
        anna.transport.faults.whileInFlight {
            try await anna.write(
                """
                INSERT INTO players (team_id, name) SELECT id, 'Ida' FROM teams WHERE name = 'Jena';
                UPDATE players SET team_id = (SELECT id FROM teams WHERE name = 'Jena')
                WHERE name = 'Anna'
                """
            )
        }
        try await anna.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT team_id, name FROM players ORDER BY id") == ["2|Anna", "2|Ida"])
    }

    @Test func `C4: an edit during a request survives that request's conflict`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE players SET name = 'Annika' WHERE id = 1")
        try await anna.engine.sync()
        try await ben.write("UPDATE players SET name = 'Anja' WHERE id = 1")
        ben.transport.faults.whileInFlight {
            try await ben.write("UPDATE players SET goals = 9 WHERE id = 1")
            try await ben.write("UPDATE teams SET name = 'THW Kiel' WHERE id = 1")
        }
        try await ben.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT name, goals FROM players") == ["Annika|"])
        #expect(try await anna.rows("SELECT name FROM teams") == ["THW Kiel"])
        // The later edit of the same record depends on the refused one, and is parked with it.
        #expect(
            try await ben.engine.conflicts().flatMap(\.records).map(\.mine) == [#"{"name":"Anja"}"#, #"{"goals":9}"#])
    }

    @Test func `F1, C4: another program writes during a request`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO teams (name) VALUES ('Jena')")
        anna.transport.faults.whileInFlight {
            try anna.writeOutside(
                """
                UPDATE teams SET name = 'FC Jena' WHERE name = 'Jena';
                INSERT INTO players (team_id, name) SELECT max(id), 'Ida' FROM teams;
                DELETE FROM players WHERE name = 'Anna'
                """
            )
        }
        try await anna.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(
            try await ben.rows("SELECT t.name, p.name FROM players AS p JOIN teams AS t ON t.id = team_id") == [
                "FC Jena|Ida"
            ])
    }

    @Test func `rule 15: an edit's base is the confirmed row, not the sent one`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        for name in ["Ann", "Anne", "Annie"] {
            try await ben.write("UPDATE players SET name = '\(name)' WHERE id = 1")
            ben.transport.faults.add(.requestLost)
            await ben.syncInVain()
        }
        try await anna.write("UPDATE players SET name = 'Anja' WHERE id = 1")
        try await anna.engine.sync()
        try await cluster.converge(ben, anna)
        let records = try await ben.engine.conflicts().flatMap(\.records)
        #expect(records.map(\.mine) == [#"{"name":"Ann"}"#, #"{"name":"Anne"}"#, #"{"name":"Annie"}"#])
        #expect(records.allSatisfy { $0.base?.contains(#""name":"Anna""#) == true })
        #expect(records.allSatisfy { $0.theirs?.contains(#""name":"Anja""#) == true })
    }

    @Test func `rule 4: an answered change set is already in the server's files`() async throws {
        let (cluster, anna, _) = try await Self.pair()
        try await anna.write("UPDATE players SET name = 'Annika' WHERE id = 1")
        let copy = cluster.folder.appendingPathComponent("power-cut.sqlite").path
        anna.transport.faults.whileInFlight {
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: cluster.zonePath + suffix, toPath: copy + suffix)
            }
        }
        try await anna.engine.sync()
        let survived = try await DatabaseQueue(path: copy).read { db in
            try String.fetchAll(db, sql: "SELECT name FROM players")
        }
        #expect(survived == ["Annika"])
        let synchronous = try await anna.database.writeWithoutTransaction { db in
            try Int.fetchOne(db, sql: "PRAGMA synchronous")
        }
        // 3 means EXTRA.
        #expect(synchronous == 3)
    }

    @Test func `B8: incoming changes do not overwrite a pending edit`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO players (team_id, name) VALUES (1, 'Emma')")
        try await ben.write("UPDATE players SET goals = 5 WHERE id = 1")
        try await anna.engine.sync()
        ben.transport.faults.whileInFlight {
            try await ben.write("UPDATE players SET goals = 6 WHERE id = 1")
            #expect(try await ben.rows("SELECT goals FROM players WHERE id = 1") == ["6"])
        }
        try await ben.engine.sync()
        #expect(try await ben.rows("SELECT name, goals FROM players ORDER BY id") == ["Anna|6", "Emma|"])
        try await cluster.converge(anna, ben)
    }

    // MARK: Lost answers

    @Test func `A4, rule 3: a creation with a lost answer is one record`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO players (team_id, name) VALUES (1, 'Emma')")
        anna.transport.faults.add(.answerLost)
        await anna.syncInVain()
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT id, name FROM players ORDER BY id") == ["1|Anna", "2|Emma"])
        let sent = try anna.sent.filter { !$0.isEmpty }
        #expect(sent.count == 2 && sent[0] == sent[1])
    }

    @Test func `rule 3: twenty lost answers in a row double nothing`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO teams (name) VALUES ('Jena')")
        for number in 1...20 {
            try await anna.write("INSERT INTO players (team_id, name) SELECT max(id), 'p\(number)' FROM teams")
            anna.transport.faults.add(.answerLost)
            await anna.syncInVain()
        }
        try await cluster.converge(anna, ben)
        #expect(
            try await ben.rows("SELECT count(*), count(DISTINCT name), min(team_id) FROM players WHERE id > 1") == [
                "20|20|2"
            ])
        #expect(try await ben.rows("SELECT count(*) FROM teams") == ["2"])
    }

    @Test func `rule 13: a request that arrives twice has one effect`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO players (team_id, name) VALUES (1, 'Emma')")
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        let before = try await cluster.store.state().revision
        anna.transport.faults.add(.requestDoubled)
        try await anna.engine.sync()
        #expect(try await cluster.store.state().revision == before + 2)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT name FROM players ORDER BY id") == ["Anna", "Emma"])
    }

    @Test func `A10: a request that never arrived is sent again`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        for _ in 0..<5 {
            anna.transport.faults.add(.requestLost)
            await anna.syncInVain()
        }
        #expect(try await anna.engine.status().pendingChangeSets == 1)
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT goals FROM players") == ["1"])
    }

    @Test func `rule 12: a record created with a lost answer, then deleted, leaves nothing`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO players (team_id, name) VALUES (1, 'Emma')")
        anna.transport.faults.add(.answerLost)
        await anna.syncInVain()
        #expect(try await cluster.rows("SELECT name FROM players WHERE id > 1") == ["Emma"])
        try await anna.write("DELETE FROM players WHERE name = 'Emma'")
        try await anna.engine.sync()
        #expect(try await cluster.rows("SELECT name FROM players WHERE id > 1") == [])
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_base") == ["0"])
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_outbox") == ["0"])
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `rule 12: a sent change set is frozen, and later edits make another one`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO players (team_id, name) VALUES (1, 'Emma')")
        anna.transport.faults.add(.requestLost)
        await anna.syncInVain()
        try await anna.write("UPDATE players SET goals = 4 WHERE name = 'Emma'")
        try await anna.engine.sync()
        let sent = try anna.sent
        #expect(sent[1].first == sent[0].first)
        #expect(
            sent[1].map(\.records) == [["create players new (goals, name, team_id)"], ["update players new (goals)"]])
        #expect(sent[1].last?.after == sent[0].map(\.id))
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT name, goals FROM players WHERE id = 2") == ["Emma|4"])
    }

    @Test func `A10: the app is killed between the server's commit and the answer`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write(
            """
            INSERT INTO teams (name) VALUES ('Jena');
            INSERT INTO players (team_id, name) VALUES (last_insert_rowid(), 'Ida')
            """
        )
        anna.transport.faults.add(.answerLost)
        await anna.syncInVain()
        let restarted = try await anna.reopened()
        try await restarted.write("UPDATE players SET goals = 2 WHERE name = 'Ida'")
        try await cluster.converge(restarted, ben)
        #expect(try await ben.rows("SELECT id, team_id, name, goals FROM players WHERE id > 1") == ["2|2|Ida|2"])
    }

    @Test func `A10: quitting before the first sync loses nothing`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO players (team_id, name) VALUES (1, 'Emma')")
        try await anna.write("UPDATE players SET goals = 1 WHERE id = 1")
        try anna.database.close()
        let restarted = try await anna.reopened()
        #expect(try await restarted.engine.status().pendingChangeSets > 0)
        try await cluster.converge(restarted, ben)
        #expect(try await ben.rows("SELECT name, goals FROM players ORDER BY id") == ["Anna|1", "Emma|"])
    }

    @Test func `rule 16: a device's own changes come back once and are not reported as news`() async throws {
        let (_, anna, _) = try await Self.pair()
        try await anna.write("INSERT INTO players (team_id, name) VALUES (1, 'Emma')")
        let id = try await anna.rows("SELECT max(id) FROM players").first.flatMap { Int64($0) }
        anna.transport.faults.add(.answerLost)
        await anna.syncInVain()
        let events = try await anna.events {
            try await anna.engine.sync()
            try await anna.engine.sync()
        }
        let ids = try [#require(id): Int64(2)]
        #expect(events == [.sent(changeSets: 1), .identitiesAssigned(table: "players", ids: ids)])
    }
}
