import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Standards demand rows with the ids -1 and 0, and programs write 0 for "none": such files are adopted as they are.
@Suite struct AdoptedIDTests {
    private static let schema = """
        CREATE TABLE srs (srs_id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE contents (tbl TEXT PRIMARY KEY, srs_id INTEGER REFERENCES srs (srs_id));
        CREATE TABLE tagxref (id INTEGER PRIMARY KEY, src INTEGER REFERENCES srs);
        """
    private static let seed = """
        INSERT INTO srs VALUES (-7, 'lowest'), (-1, 'undefined cartesian'), (0, 'undefined geographic'), (4326, 'WGS 84');
        INSERT INTO contents VALUES ('a', -1), ('b', 0);
        """

    private static func pair() async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice) {
        let cluster = try Cluster(schema: schema, seed: seed)
        return (cluster, try await cluster.device("anna"), try await cluster.device("ben"))
    }

    private func post(_ cluster: Cluster, _ changeSet: String) async throws -> String {
        let body = #"{"maxRevision":1,"changeSets":[\#(changeSet)]}"#
        return String(decoding: try await cluster.store.sync(zone: "main", body: Array(body.utf8)), as: UTF8.self)
    }

    @Test func `rows with negative ids are edited, referred to and deleted on devices under these ids`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("UPDATE srs SET name = 'edited' WHERE srs_id = -1")
        try await anna.write("INSERT INTO contents VALUES ('c', -1)")
        try await ben.write("DELETE FROM srs WHERE srs_id = -7")
        try await cluster.converge(anna, ben)
        #expect(
            try await ben.rows("SELECT srs_id, name FROM srs ORDER BY 1") == [
                "-1|edited", "0|undefined geographic", "4326|WGS 84",
            ]
        )
        #expect(try await cluster.rows("SELECT srs_id FROM contents ORDER BY tbl") == ["-1", "0", "-1"])
        #expect(try await anna.engine.verify().records.isEmpty)
    }

    @Test func `a new row on a device does not take an adopted negative id, and gets a permanent one`() async throws {
        let (cluster, anna, ben) = try await Self.pair()
        try await anna.write("INSERT INTO srs (name) VALUES ('plain')")
        try await anna.write("INSERT INTO srs VALUES ((SELECT min(srs_id) - 1 FROM srs), 'by hand')")
        try await anna.database.write { db in
            let id = try TemporaryIDs.next(db)
            #expect(id < -7)
            try db.execute(sql: "INSERT INTO srs VALUES (?, 'counted')", arguments: [id - 1])
            try db.execute(sql: "INSERT INTO contents VALUES ('d', ?)", arguments: [id - 1])
        }
        try await cluster.converge(anna, ben)
        let new = "SELECT name FROM srs WHERE srs_id > 4326 ORDER BY name"
        #expect(try await ben.rows(new) == ["by hand", "counted", "plain"])
        #expect(try await ben.rows("SELECT name FROM contents JOIN srs USING (srs_id) WHERE tbl = 'd'") == ["counted"])
    }

    @Test func `the server's first new id follows all adopted ones, not the gap of a deleted record`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT); CREATE TABLE note (book INTEGER)",
            seed: """
                INSERT INTO book VALUES (1, 'first'), (40000, 'last');
                INSERT INTO note VALUES (2) -- of a deleted book
                """
        )
        let anna = try await cluster.device("anna")
        try await anna.engine.sync()
        try await anna.write("INSERT INTO book VALUES (-1, 'typed by hand')")
        try await anna.engine.sync()
        let titles = "SELECT id > 40000 FROM book WHERE title = 'typed by hand'"
        #expect(try await cluster.rows(titles) == ["1"])
    }

    @Test func `a client names an adopted record by its negative id, and a new one by an id below`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let update = #"{"types":["srs"],"srs":{"update":[-1],"attributes":{"-1":{"name":"by hand","revision":1}}}}"#
        #expect(try await post(cluster, update).contains(#""revision":2"#))
        let create = """
            {"types":["srs","contents"],"srs":{"create":[-8],"attributes":{"-8":{"name":"new"}}},\
            "contents":{"create":["n","o"],"attributes":{"n":{"srs_id":-8},"o":{"srs_id":-1}}}}
            """
        #expect(try await post(cluster, create).contains(#""__oldId__":-8"#))
        #expect(
            try await cluster.rows("SELECT srs_id FROM contents WHERE tbl IN ('n', 'o') ORDER BY tbl") == [
                "4327", "-1",
            ]
        )
        #expect(try await cluster.rows("SELECT name FROM srs WHERE srs_id = -1") == ["by hand"])
        let unknown = #"{"types":["srs"],"srs":{"update":[-9],"attributes":{"-9":{"name":"x"}}}}"#
        await #expect(throws: TidemarkError.self) { try await self.post(cluster, unknown) }
    }

    @Test func `references to 0 that mean none are adopted, kept and made on devices`() async throws {
        let seed = "INSERT INTO srs VALUES (1, 'a'); INSERT INTO tagxref (src) VALUES (1), (0), (0), (NULL)"
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("zero-\(UUID()).sqlite")
        defer { removeFile(file) }
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        try await DatabaseQueue(path: file.path, configuration: configuration).write {
            try $0.execute(sql: Self.schema + seed)
        }
        let cluster = try Cluster(adopting: file)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        var off = Configuration()
        off.foreignKeysEnabled = false
        try await DatabaseQueue(path: anna.path, configuration: off).write { db in
            try db.execute(sql: "INSERT INTO tagxref (src) VALUES (0); UPDATE tagxref SET src = 0 WHERE id = 1")
        }
        try await ben.write("DELETE FROM tagxref WHERE id = 2")
        try await ben.write("INSERT INTO tagxref (src) VALUES (1)")
        for device in [anna, ben, anna, ben] { try await device.engine.sync() }
        let truth = ["|1", "0|3", "1|1"]
        let counts = "SELECT src, count(*) FROM tagxref GROUP BY src ORDER BY src"
        #expect(try await cluster.rows(counts) == truth)
        #expect(try await anna.rows(counts) == truth)
        #expect(try await ben.rows(counts) == truth)
        // A reference to another missing record is refused.
        let broken = #"{"types":["tagxref"],"tagxref":{"delete":[3],"update":[4],"attributes":{"4":{"src":99}}}}"#
        await #expect(throws: TidemarkError.self) { try await self.post(cluster, broken) }
        #expect(try await cluster.rows(counts) == truth)
    }

    private func removeFile(_ file: URL) {
        do { try FileManager.default.removeItem(at: file) } catch { Issue.record("the file stays: \(error)") }
    }
}
