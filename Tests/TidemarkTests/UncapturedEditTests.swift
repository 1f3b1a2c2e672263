import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A program that switches triggers off edits a device's file: whatever replaces its rows keeps its
/// edits as a conflict.
@Suite struct UncapturedEditTests {
    static let schema = """
        CREATE TABLE page (id INTEGER PRIMARY KEY, title TEXT, body TEXT, likes INTEGER CHECK (likes >= 0));
        CREATE TABLE link (code TEXT PRIMARY KEY, page_id INTEGER REFERENCES page, note TEXT);
        CREATE INDEX link_page ON link (page_id);
        """
    static let seed = """
        WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 40)
        INSERT INTO page SELECT i, 'T' || i, 'B' || i, i FROM n;
        INSERT INTO link SELECT 'L' || id, id, NULL FROM page WHERE id % 4 = 0;
        """

    private func pair(limits: Limits = .standard, ofDevices: Limits = .standard) async throws -> (
        Cluster, TestDevice, TestDevice
    ) {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed, limits: limits)
        let anna = try await cluster.device("anna", limits: ofDevices)
        let ben = try await cluster.device("ben", limits: ofDevices)
        try await cluster.converge(anna, ben)
        return (cluster, anna, ben)
    }

    private func records(_ device: TestDevice) async throws -> [String] {
        try await device.engine.conflicts().flatMap(\.records).map {
            "\($0.operation) \($0.table) \($0.key) \(try sorted($0.mine)) over \(try sorted($0.base))"
        }
    }

    private func sorted(_ image: String?) throws -> String {
        guard let image else { return "-" }
        let object = try JSONSerialization.jsonObject(with: Data(image.utf8))
        return String(decoding: try JSONSerialization.data(withJSONObject: object, options: .sortedKeys), as: UTF8.self)
    }

    @Test func `rule 1: a browser with triggers off edits, adds and deletes rows; all is kept and can be sent`()
        async throws
    {
        let (cluster, anna, ben) = try await pair()
        try ben.corrupt(
            """
            UPDATE page SET body = 'my edit' WHERE id = 7;
            INSERT INTO link VALUES ('mine', 7, 'my link');
            DELETE FROM link WHERE code = 'L8'
            """
        )
        let events = try await ben.events { try await ben.engine.sync() }
        let conflicts = try await ben.engine.conflicts()
        let conflict = try #require(conflicts.first)
        #expect(conflicts.count == 1 && events.contains(.conflict(conflict.id)))
        #expect(conflict.reasons.map(\.rule) == ["uncaptured"])
        #expect(
            try await records(ben) == [
                #"update page 7 {"body":"my edit"} over {"body":"B7","likes":7,"title":"T7"}"#,
                #"delete link "L8" - over {"note":null,"page_id":8}"#,
                #"create link "mine" {"note":"my link","page_id":7} over -"#,
            ]
        )
        #expect(try await ben.engine.status().uncapturedRecords == 3)
        #expect(try await ben.rows("SELECT body FROM page WHERE id = 7") == ["B7"])

        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT body FROM page WHERE id = 7") == ["my edit"])
        #expect(try await anna.rows("SELECT code FROM link WHERE code IN ('L8', 'mine')") == ["mine"])
        #expect(try await ben.engine.status().uncapturedRecords == 0)
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `rule 1: an edit with triggers off just before a migration of both sides is kept`() async throws {
        let (cluster, _, ben) = try await pair()
        try ben.corrupt("UPDATE page SET body = 'my edit' WHERE id = 7")
        let grow = "ALTER TABLE page ADD COLUMN stars INTEGER"
        try cluster.writeOutside(grow)
        try ben.writeOutside(grow)
        let updated = try await ben.reopened()
        try await updated.engine.sync()
        // The migration has made the fingerprint of the confirmed rows void.
        #expect(try await records(updated).contains { $0.hasPrefix(#"update page 7 {"body":"my edit"}"#) })
        try await cluster.converge(updated)
    }

    @Test func `rule 1: accept discards uncaptured edits; a second repair parks nothing again`() async throws {
        let (cluster, _, ben) = try await pair()
        try ben.corrupt("UPDATE page SET body = 'my edit' WHERE id = 7")
        try await cluster.converge(ben)
        _ = try await ben.engine.verify(repairing: true)
        try await cluster.converge(ben)
        let conflicts = try await ben.engine.conflicts()
        #expect(conflicts.count == 1)
        try await ben.engine.resolve(conflicts[0].id, with: .accept)
        try await cluster.converge(ben)
        #expect(try await ben.engine.conflicts().isEmpty)
        #expect(try await cluster.rows("SELECT body FROM page WHERE id = 7") == ["B7"])
    }

    @Test func `rule 1: a row added with triggers off under a permanent id never takes another author's row`()
        async throws
    {
        let (cluster, anna, ben) = try await pair()
        try ben.corrupt("INSERT INTO page VALUES (41, 'mine', 'b', 0); INSERT INTO link VALUES ('m', 41, 'n')")
        try await ben.engine.sync()
        try await anna.write("INSERT INTO page (id, title) VALUES (41, 'theirs')")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT title FROM page WHERE id = 41") == ["theirs"])
        let conflict = try #require(try await ben.engine.conflicts().first)
        try await ben.engine.resolve(conflict.id, with: .retry, takenIDs: .asNew)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT title FROM page WHERE id >= 41") == ["theirs", "mine"])
        #expect(
            try await anna.rows("SELECT title FROM link JOIN page ON page.id = page_id WHERE code = 'm'") == ["mine"])
    }

    @Test func `rule 1: a row added with triggers off under an id that another record has taken asks before a retry`()
        async throws
    {
        let (cluster, anna, ben) = try await pair()
        try await anna.write("INSERT INTO page (id, title) VALUES (41, 'theirs')")
        try await cluster.converge(anna)
        try ben.corrupt("INSERT INTO page VALUES (41, 'mine', 'b', 0); INSERT INTO link VALUES ('m', 41, 'n')")
        try await ben.engine.sync()
        let conflicts = try await ben.engine.conflicts()
        let conflict = try #require(conflicts.first)
        // The link waits for the decision about its page.
        #expect(conflicts.map(\.after) == [[], [conflict.id]], "\(conflicts)")
        await #expect {
            try await ben.engine.resolve(conflict, with: .retry)
        } throws: { ($0 as? TidemarkError)?.message.contains("Another record has the number") == true }
        let waiting = try await ben.engine.resolve(conflict, with: .retry, takenIDs: .asNew)
        for one in waiting { try await ben.engine.resolve(one, with: .retry) }
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT title FROM page WHERE id >= 41") == ["theirs", "mine"])
        #expect(
            try await anna.rows("SELECT title FROM link JOIN page ON page.id = page_id WHERE code = 'm'") == ["mine"])
    }

    @Test func `a row added with triggers off keeps the id that only this device draws, and what refers to it`()
        async throws
    {
        // Chromium declares no reference from a visit to its page.
        let cluster = try Cluster(
            schema: """
                CREATE TABLE url (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT);
                CREATE TABLE visit (id INTEGER PRIMARY KEY AUTOINCREMENT, url INTEGER NOT NULL);
                """
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        try ben.corrupt("INSERT INTO url (text) VALUES ('new'); INSERT INTO visit (url) SELECT max(id) FROM url")
        let drawn = try await ben.rows("SELECT id FROM url")
        try await ben.engine.sync()
        let conflict = try #require(try await ben.engine.conflicts().first)
        try await ben.engine.resolve(conflict, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT id FROM url") == drawn)
        #expect(try await anna.rows("SELECT text FROM visit JOIN url ON url.id = visit.url") == ["new"])
        // The next row gets another id.
        try await ben.write("INSERT INTO url (text) VALUES ('next')")
        try await cluster.converge(ben, anna)
        #expect(try await cluster.rows("SELECT count(DISTINCT id) FROM url") == ["2"])
    }

    @Test func `a row added with triggers off keeps an id that nobody has, and what refers to it`() async throws {
        let cluster = try Cluster(
            schema: """
                CREATE TABLE url (id INTEGER PRIMARY KEY, text TEXT);
                CREATE TABLE visit (id TEXT PRIMARY KEY, url INTEGER NOT NULL);
                """
        )
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.converge(anna, ben)
        try ben.corrupt("INSERT INTO url VALUES (700, 'new'); INSERT INTO visit VALUES ('v', 700)")
        try await ben.engine.sync()
        let conflict = try #require(try await ben.engine.conflicts().first)
        try await ben.engine.resolve(conflict, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT url.id, text FROM visit JOIN url ON url.id = visit.url") == ["700|new"])
    }

    @Test func `a retry writes a reference of 0 where the zone takes 0 for none`() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID()).sqlite")
        // A file left behind in the system's temporary folder harms no other test.
        defer { try? FileManager.default.removeItem(at: file) }
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        try await DatabaseQueue(path: file.path, configuration: configuration).write { db in
            try db.execute(
                sql: """
                    CREATE TABLE blob (rid INTEGER PRIMARY KEY, uuid TEXT);
                    CREATE TABLE link (
                        mid INTEGER REFERENCES blob, pid INTEGER REFERENCES blob, x TEXT PRIMARY KEY NOT NULL);
                    INSERT INTO blob VALUES (1, 'a');
                    INSERT INTO link VALUES (1, 0, 'first');
                    """
            )
        }
        let cluster = try Cluster(adopting: file)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        for device in [anna, ben] { try await device.engine.sync() }
        let program = try DatabaseQueue(path: ben.path, configuration: configuration)
        func corrupt(_ sql: String) async throws {
            try await program.write { db in
                try db.execute(sql: "UPDATE tidemark_state SET applying = 1")
                try db.execute(sql: sql)
                try db.execute(sql: "UPDATE tidemark_state SET applying = 0")
            }
        }
        try await corrupt(
            "INSERT INTO blob (uuid) VALUES ('b'); INSERT INTO link SELECT max(rid), 0, 'second' FROM blob")
        try await ben.engine.sync()
        let conflict = try #require(try await ben.engine.conflicts().first)
        try await ben.engine.resolve(conflict, with: .retry)
        for device in [ben, anna] { try await device.engine.sync() }
        #expect(try await anna.rows("SELECT uuid, pid FROM link JOIN blob ON rid = mid ORDER BY x") == ["a|0", "b|0"])
        // A reference to something else that is not there is refused.
        try await corrupt("INSERT INTO link VALUES (1, 77, 'third')")
        _ = try await ben.engine.verify(repairing: true)
        let broken = try #require(try await ben.engine.conflicts().first)
        await #expect {
            try await ben.engine.resolve(broken, with: .retry)
        } throws: { error in
            (error as? TidemarkError)?.message.contains("to blob 77, which is not there") == true
        }
    }

    @Test func `rule 1: an uncaptured edit on top of a waiting edit is kept when the answer rewinds the row`()
        async throws
    {
        let (cluster, anna, ben) = try await pair()
        try await anna.write("UPDATE page SET title = 'anna' WHERE id = 30")
        try await anna.engine.sync()
        try await ben.write("UPDATE page SET title = 'ben' WHERE id = 7; UPDATE page SET likes = 70 WHERE id = 8")
        try ben.corrupt("UPDATE page SET body = 'uncaptured' WHERE id = 7; DELETE FROM link WHERE code = 'L8'")
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT title, body FROM page WHERE id = 7") == ["ben|B7"])
        let parked = try await records(ben)
        #expect(parked.contains { $0.hasPrefix(#"update page 7 {"body":"uncaptured"}"#) }, "\(parked)")
        #expect(parked.contains { $0.hasPrefix(#"delete link "L8""#) }, "\(parked)")
        for conflict in try await ben.engine.conflicts() { try await ben.engine.resolve(conflict.id, with: .retry) }
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT title, body FROM page WHERE id = 7") == ["ben|uncaptured"])
    }

    @Test func `rule 1: a row edited with triggers off and then edited by another device keeps both versions`()
        async throws
    {
        let (cluster, anna, ben) = try await pair()
        try ben.corrupt("UPDATE page SET body = 'mine' WHERE id = 7")
        try await anna.write("UPDATE page SET body = 'theirs' WHERE id = 7; DELETE FROM page WHERE id = 9")
        try await anna.engine.sync()
        try ben.corrupt("UPDATE page SET body = 'kept' WHERE id = 9")
        try await cluster.converge(ben, anna)
        let parked = try await records(ben)
        #expect(parked.contains { $0.hasPrefix(#"update page 7 {"body":"mine"}"#) }, "\(parked)")
        #expect(parked.contains { $0.hasPrefix("update page 9") && $0.contains(#""body":"kept""#) }, "\(parked)")
        #expect(try await ben.rows("SELECT body FROM page WHERE id IN (7, 9)") == ["theirs"])
        // Others have deleted the record, and a retry creates it again from the row that the program left.
        let conflict = try #require(try await ben.engine.conflicts().first { $0.records.contains { $0.key == "9" } })
        #expect(try await ben.engine.madeAnew(byRetrying: conflict.id).map(\.key) == ["9"])
        try await ben.engine.resolve(conflict, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT title, likes FROM page WHERE body = 'kept'") == ["T9|9"])
    }

    @Test func `rule 1: a snapshot that replaces all rows keeps uncaptured edits, in conflicts of 10,000 records`()
        async throws
    {
        let rows = 12_000
        let cluster = try Cluster(
            schema: "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)",
            seed: """
                WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < \(rows))
                INSERT INTO item SELECT i, 'N' || i FROM n
                """
        )
        let ben = try await cluster.device("ben")
        try await cluster.converge(ben)
        try ben.corrupt("UPDATE item SET name = name || '!' WHERE id <= 11000; DELETE FROM item WHERE id = 11500")
        var limits = Limits.standard
        limits.repairRangesMax = 8
        limits.fingerprintRowsMax = 20_000
        try await ben.reopened(limits: limits).engine.sync()
        let counts = try await ben.engine.conflicts().map(\.records.count)
        #expect(counts.reduce(0, +) == 11_001 && (counts.max() ?? 0) <= 10_000, "\(counts)")
        try await cluster.converge(ben)
        #expect(try await ben.engine.conflicts().map(\.records.count) == counts)
    }

    @Test func `rule 10: a row inserted with triggers off, under a temporary id, survives a snapshot`() async throws {
        let (cluster, anna, ben) = try await pair(ofDevices: .withoutLending)
        try ben.corrupt("INSERT INTO page (title) VALUES ('mine')")
        try await cluster.restore(cluster.backUp(), isSaid: true)
        try await cluster.converge(ben, anna)
        let titles = try await anna.rows("SELECT title FROM page WHERE title = 'mine'")
        let parked = try await records(ben)
        #expect(titles == ["mine"] && parked.isEmpty, "\(parked)")
    }

    @Test
    func `rule 17: a device that is merely behind parks nothing when others' rows or a snapshot replace its rows`()
        async throws
    {
        var limits = Limits.standard
        limits.revisionsKept = 2
        limits.compactionStepMin = 1
        limits.compactionStepMax = 3
        let (cluster, anna, ben) = try await pair(limits: limits)
        try await ben.write("UPDATE page SET likes = 1 WHERE id = 39")
        for number in 1...5 {
            let edit = "UPDATE page SET body = '\(number)' WHERE id < 20"
            try await anna.write("\(edit); DELETE FROM page WHERE id = \(20 + 4 * number + 1)")
            try await anna.engine.sync()
        }
        try await cluster.restore(cluster.backUp(), isSaid: true)
        try await cluster.converge(ben, anna)
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test(arguments: 1...4)
    func `rule 10: a sync that is cut at any request loses no uncaptured edit and doubles none`(cut: Int) async throws {
        let (cluster, _, ben) = try await pair()
        try ben.corrupt("UPDATE page SET body = 'mine' WHERE id IN (3, 17, 31); DELETE FROM link WHERE code = 'L4'")
        for _ in 1..<cut { ben.transport.faults.add(.none) }
        ben.transport.faults.add(.answerLost)
        await ben.syncInVain()
        try await cluster.converge(ben)
        let parked = try await records(ben)
        #expect(parked.count == 4 && Set(parked).count == 4, "\(parked)")
    }
}
