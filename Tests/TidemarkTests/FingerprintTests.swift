import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A device whose rows change behind the triggers notices at the next sync, and restores the
/// server's rows without losing its own edits.
@Suite struct FingerprintTests {
    static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT NOT NULL, rank INTEGER UNIQUE);
        CREATE TABLE player (
            id INTEGER PRIMARY KEY, team_id INTEGER REFERENCES team ON DELETE CASCADE,
            name TEXT, score REAL, photo BLOB, note, born DATE);
        CREATE INDEX player_team ON player (team_id);
        CREATE TABLE tag (name TEXT PRIMARY KEY, colour BLOB);
        CREATE TABLE player_tag (
            player_id INTEGER REFERENCES player ON DELETE CASCADE, tag TEXT REFERENCES tag,
            weight REAL, PRIMARY KEY (player_id, tag)) WITHOUT ROWID;
        CREATE INDEX player_tag_tag ON player_tag (tag);
        """
    static let seed = """
        INSERT INTO team VALUES (1, 'Kiel', 1), (2, 'Bonn', 2), (3, 'Jena', NULL);
        WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 60)
        INSERT INTO player SELECT i, 1 + i % 3, 'P' || i, i / 7.0, randomblob(4), NULL, '2001-01-' || i FROM n;
        INSERT INTO tag VALUES ('red', x'ff0000'), ('blue', x'0000ff'), ('ü "x"', NULL);
        INSERT INTO player_tag SELECT id, 'red', id * 1.5 FROM player WHERE id % 4 = 0;
        INSERT INTO player_tag SELECT id, 'ü "x"', 1e300 FROM player WHERE id % 5 = 0;
        """

    /// The changes of the device's rows behind the triggers.
    static let corruptions = [
        "UPDATE player SET name = 'P1x' WHERE id = 17", "UPDATE player SET score = score + 1e-12 WHERE id = 17",
        "UPDATE player SET photo = x'' WHERE id = 17", "UPDATE player SET photo = 'text' WHERE id = 17",
        "UPDATE player SET note = 0 WHERE id = 17", "UPDATE player SET note = '' WHERE id = 17",
        "UPDATE player SET born = NULL WHERE id = 17", "UPDATE player SET team_id = 3 WHERE id = 3",
        "UPDATE player SET id = 1017 WHERE id = 17", "UPDATE team SET rank = 7 WHERE id = 1",
        "UPDATE team SET rank = NULL WHERE id = 2; UPDATE team SET rank = 2 WHERE id = 3",
        "UPDATE tag SET colour = x'ff0001' WHERE name = 'red'",
        "UPDATE player_tag SET weight = -weight WHERE player_id = 4 AND tag = 'red'",
        "DELETE FROM player_tag WHERE player_id = 8", "DELETE FROM player WHERE id = 17", "DELETE FROM player",
        "DELETE FROM team WHERE id = 2", "INSERT INTO player (id, name) VALUES (4000, 'nobody')",
        // New rows under temporary ids could be a user's work: they are sent.
        "INSERT INTO player SELECT id + 100, team_id, name, score, photo, note, born FROM player " + "WHERE id < 1000",
        "INSERT INTO tag VALUES ('grey', NULL); INSERT INTO player_tag VALUES (1, 'grey', 0)",
        "UPDATE player SET name = name || '!'",
    ]

    @Test(arguments: corruptions)
    func `rule 17: after rows changed behind the triggers, the next sync restores the server's`(corruption: String)
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        try await ben.write("UPDATE player SET name = 'Ben' WHERE id = 5")
        try await ben.write("INSERT INTO player (name) VALUES ('Berta')")
        try await anna.write("UPDATE player SET name = 'Anna' WHERE id = 6")
        try await anna.engine.sync()
        try ben.corrupt(corruption)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT name FROM player WHERE name IN ('Anna', 'Berta')") == ["Anna", "Berta"])
        if !corruption.hasPrefix("DELETE FROM player") {
            // Otherwise the edit is of a missing record, or a conflict that shows it.
            let parked = try await ben.engine.conflicts().flatMap(\.records).compactMap(\.mine)
            let rows = try await cluster.rows("SELECT name FROM player WHERE id = 5")
            #expect(rows == ["Ben"] || parked == [#"{"name":"Ben"}"#])
        }
    }

    @Test func `rule 17: an edit of a corrupted record is a conflict, not a silent overwrite`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let ben = try await cluster.device("ben")
        try await ben.engine.sync()
        try ben.corrupt("UPDATE player SET score = 99.5 WHERE id = 5")
        try await ben.write("UPDATE player SET name = 'Ben' WHERE id = 5")
        try await ben.write("UPDATE player SET name = 'Bella' WHERE id = 6")
        try await ben.engine.sync()
        let conflicts = try await ben.engine.conflicts()
        #expect(conflicts.flatMap(\.records).map(\.mine) == [#"{"score":99.5}"#, #"{"name":"Ben"}"#])
        let conflict = try #require(conflicts.last)
        #expect(try await cluster.rows("SELECT name FROM player WHERE id IN (5, 6) ORDER BY id") == ["P5", "Bella"])
        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(ben)
        #expect(try await cluster.rows("SELECT name FROM player WHERE id = 5") == ["Ben"])
    }

    @Test func `rule 17: every answer, and every request of a device, carries the fingerprint`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let ben = try await cluster.device("ben")
        try await ben.write("UPDATE player SET name = 'Ben' WHERE id = 5")
        try await ben.engine.sync()
        let faults = ben.transport.faults
        let requestFingerprints = faults.requests.compactMap { fingerprint(in: $0) }
        let answerFingerprints = faults.answers.compactMap { fingerprint(in: $0) }
        #expect(
            requestFingerprints.count == 1 && answerFingerprints.count == 1 && requestFingerprints != answerFingerprints
        )
        // A conditional GET has it in its tag; only a device with these rows gets a 304.
        try await ben.engine.sync()
        let tag = try #require(faults.questions.last)
        #expect(faults.requests.count == 1)
        let news = try await cluster.service.news(zone: "main", device: "other", since: tag)
        #expect(news == .nothing)
        let body = try await cluster.service.sync(zone: "main", body: Array(#"{"maxRevision":\#(tag.revision)}"#.utf8))
        #expect(fingerprint(in: String(decoding: body, as: UTF8.self)) == answerFingerprints.first)
    }

    @Test func `rule 17: a client without a fingerprint is served like curl`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let body = Array(#"{"maxRevision":1}"#.utf8)
        let answer = String(decoding: try await cluster.store.sync(zone: "main", body: body), as: UTF8.self)
        #expect(fingerprint(in: answer) != nil)
    }

    @Test func `rule 17: a malformed fingerprint is refused before any effect`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let body = """
            {"maxRevision":1,"fingerprint":"00000000000000000000000000000001","changeSets":[
            {"types":["team"],"team":{"update":[1],"attributes":{"1":{"name":"THW Kiel"}}}}]}
            """
        await #expect { try await cluster.store.sync(zone: "main", body: Array(body.utf8)) } throws: {
            let error = $0 as? TidemarkError
            return error?.code == .fingerprintMismatch && error?.recovery == .repair
        }
        #expect(try await cluster.rows("SELECT name FROM team WHERE id = 1") == ["Kiel"])
    }

    @Test func `rule 14, 17: a server restored under its old epoch is detected by the fingerprint`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let backup = try await cluster.backUp()
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await ben.write("UPDATE player SET name = 'Ben' WHERE id = 5")
        try await cluster.converge(ben, anna)
        // The restored server passes anna's revision, with other rows.
        try await cluster.restore(backup)
        let carla = try await cluster.device("carla")
        try await carla.write("UPDATE player SET name = 'Carla' WHERE id = 7")
        try await carla.engine.sync()
        try await anna.write("UPDATE player SET name = 'Anna' WHERE id = 7")
        try await cluster.converge(anna, carla)
        #expect(try await anna.engine.conflicts().count == 1)
        #expect(try await cluster.rows("SELECT name FROM player WHERE id = 7") == ["Carla"])
    }

    private func fingerprint(in json: String) -> Substring? {
        json.firstMatch(of: /"fingerprint":"([0-9a-f]{32})"/)?.output.1
    }
}

extension TestDevice {
    /// Changes rows as a failing disk or a stray program would: without capture.
    func corrupt(_ sql: String) throws {
        try writeOutside(
            """
            UPDATE tidemark_state SET applying = 1;
            \(sql);
            UPDATE tidemark_state SET applying = 0;
            """
        )
    }
}
