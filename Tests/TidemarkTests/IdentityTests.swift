import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 25, case 33: a device's file was copied, or restored from a backup, so that two lives use
/// one identity.
///
/// The server distinguishes them; nothing is lost, and nothing is done twice.
@Suite struct IdentityTests {
    private static let schema = """
        CREATE TABLE lists (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE notes (id INTEGER PRIMARY KEY,
            list_id INTEGER REFERENCES lists ON DELETE CASCADE, text TEXT, done INTEGER);
        CREATE INDEX notes_list ON notes (list_id);
        """
    private static let seed = """
        INSERT INTO lists (name) VALUES ('home');
        INSERT INTO notes (list_id, text) VALUES (1, 'milk'), (1, 'bread'), (1, 'salt')
        """

    private static func start(_ limits: Limits = .standard) async throws -> (cluster: Cluster, anna: TestDevice) {
        let cluster = try Cluster(schema: schema, seed: seed)
        let anna = try await cluster.device("anna", limits: limits)
        try await anna.write("UPDATE notes SET done = 0 WHERE id = 1")
        try await anna.engine.sync()
        return (cluster, anna)
    }

    private static let all = "SELECT list_id, text, done FROM notes ORDER BY text"

    @Test func `case 33: two copies of one file edit and create, and both converge`() async throws {
        let (cluster, anna) = try await Self.start()
        let twin = try await anna.copy("twin")
        try await anna.write("INSERT INTO notes (list_id, text) VALUES (1, 'anna')")
        try await anna.write("UPDATE notes SET text = text || '!' WHERE text = 'anna'")
        try await twin.write("INSERT INTO notes (list_id, text) VALUES (1, 'twin')")
        try await twin.write("UPDATE notes SET text = text || '?' WHERE text = 'twin'")
        try await twin.write("UPDATE notes SET done = 1 WHERE id = 3")
        // Both have drawn the same temporary id.
        let lastIDQuery = "SELECT max(id) FROM notes"
        #expect(try await anna.rows(lastIDQuery) == twin.rows(lastIDQuery))
        try await anna.engine.sync()
        try await twin.engine.sync()
        #expect(try await anna.engine.status().device != twin.engine.status().device)
        try await cluster.converge(anna, twin)
        #expect(try await cluster.rows(Self.all) == ["1|anna!|", "1|bread|", "1|milk|0", "1|salt|1", "1|twin?|"])
        for device in [anna, twin] { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `case 33, rule 1: copies that edit one record see each other's edit as a conflict`() async throws {
        let (cluster, anna) = try await Self.start()
        let twin = try await anna.copy("twin")
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await twin.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await anna.engine.sync()
        try await twin.engine.sync()
        let conflict = try #require(try await twin.engine.conflicts().first)
        #expect(conflict.records.first?.mine == #"{"text":"goat milk"}"#)
        #expect(conflict.records.first?.theirs?.contains("oat milk") == true)
        try await cluster.converge(anna, twin)
        #expect(try await twin.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
    }

    @Test func `case 33: a backup restored after its edits were acknowledged doubles nothing`() async throws {
        let (cluster, anna) = try await Self.start()
        let ben = try await cluster.device("ben")
        // Pending when the backup is made: sent later, in the life that ends.
        try await anna.write("INSERT INTO lists (name) VALUES ('garden')")
        try await anna.write("INSERT INTO notes (list_id, text) SELECT max(id), 'rake' FROM lists")
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        anna.transport.faults.add(.requestLost)
        await anna.syncInVain()
        let restored = try await anna.copy("restored")
        for number in 1...5 {
            try await anna.write("INSERT INTO notes (list_id, text) VALUES (1, 'lost \(number)')")
            try await anna.engine.sync()
        }
        try await ben.engine.sync()
        try await ben.write("UPDATE notes SET done = 1 WHERE text = 'rake'")
        try await ben.engine.sync()
        // The second life: its new records have the temporary ids of the first life's records.
        try await restored.write("INSERT INTO notes (list_id, text) VALUES (1, 'new')")
        try await restored.write("UPDATE notes SET text = 'newer' WHERE text = 'new'")
        try await restored.write("INSERT INTO notes (list_id, text) SELECT max(id), 'hoe' FROM lists")
        try await restored.engine.sync()
        try await cluster.converge(restored, ben)
        #expect(
            try await cluster.rows("SELECT name, text, done FROM notes JOIN lists ON lists.id = list_id ORDER BY text")
                == [
                    "home|bread|", "garden|hoe|", "home|lost 1|", "home|lost 2|", "home|lost 3|", "home|lost 4|",
                    "home|lost 5|", "home|newer|", "home|oat milk|0", "garden|rake|1", "home|salt|",
                ]
        )
        #expect(try await cluster.rows("SELECT name FROM lists ORDER BY id") == ["home", "garden"])
        #expect(try await restored.engine.conflicts().isEmpty)
    }

    @Test func `case 33: a restored backup learns which of its edits were refused`() async throws {
        let (cluster, anna) = try await Self.start()
        let ben = try await cluster.device("ben")
        try await ben.write("UPDATE notes SET text = 'rye bread' WHERE id = 2")
        try await ben.engine.sync()
        try await anna.write("UPDATE notes SET text = 'white bread' WHERE id = 2")
        anna.transport.faults.add(.requestLost)
        await anna.syncInVain()
        let restored = try await anna.copy("restored")
        try await anna.engine.sync()
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 3")
        try await anna.engine.sync()
        try await restored.engine.sync()
        #expect(try await restored.engine.conflicts().map(\.reasons.first?.rule) == ["changed"])
        #expect(try await restored.engine.conflicts().first?.records.first?.mine == #"{"text":"white bread"}"#)
        try await cluster.converge(restored, ben)
    }

    @Test func `case 33: after a copy during a request, each edit has one effect`() async throws {
        let (cluster, anna) = try await Self.start()
        try await anna.write("INSERT INTO notes (list_id, text) VALUES (1, 'tea')")
        anna.transport.faults.add(.answerLost)
        await anna.syncInVain()
        let twin = try await anna.copy("twin")
        try await anna.write("INSERT INTO notes (list_id, text) VALUES (1, 'anna')")
        try await twin.write("INSERT INTO notes (list_id, text) VALUES (1, 'twin')")
        try await twin.write("UPDATE notes SET done = 1 WHERE text = 'tea'")
        for device in [twin, anna, twin] { try await device.engine.sync() }
        try await cluster.converge(anna, twin)
        #expect(
            try await cluster.rows(Self.all) == ["1|anna|", "1|bread|", "1|milk|0", "1|salt|", "1|tea|1", "1|twin|"])
        for device in [anna, twin] { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `case 33: a copy learns the verdicts on all waiting change sets, however few a request holds`()
        async throws
    {
        var limits = Limits.standard
        limits.changeSetsPerRequestMax = 1
        let (cluster, anna) = try await Self.start(limits)
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 2")
        try await anna.write("UPDATE notes SET text = 'pepper' WHERE id = 3")
        anna.transport.faults.add(.requestLost)
        await anna.syncInVain()
        let twin = try await anna.copy("twin")
        try await anna.engine.sync()
        try await ben.engine.sync()
        try await ben.write("UPDATE notes SET text = 'black pepper' WHERE id = 3")
        try await ben.engine.sync()
        try await twin.engine.sync()
        try await cluster.converge(anna, ben, twin)
        #expect(try await twin.rows(Self.all) == ["1|black pepper|", "1|bread|1", "1|milk|0"])
        // The server has accepted both edits of the copy, so nobody has to decide about one of them.
        #expect(try await twin.engine.conflicts().isEmpty)
    }

    @Test func `case 33: a view with a temporary id finds the record in both copies`() async throws {
        let (cluster, anna) = try await Self.start(.withoutLending)
        let draw = "INSERT INTO notes (list_id, text) VALUES (1, 'tea') RETURNING id"
        let id = try #require(try await anna.database.write { try Int64.fetchOne($0, sql: draw) })
        anna.transport.faults.add(.answerLost)
        await anna.syncInVain()
        let twin = try await anna.copy("twin")
        for device in [anna, twin] { try await device.engine.sync() }
        try await cluster.converge(anna, twin)
        #expect(try await anna.engine.permanentID(for: id, in: "notes") == 4)
        #expect(try await twin.engine.permanentID(for: id, in: "notes") == 4)
    }

    @Test func `case 33: a delayed duplicate of an old request is refused and changes nothing`() async throws {
        let (cluster, anna) = try await Self.start()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.engine.sync()
        try await anna.write("UPDATE notes SET text = 'milk' WHERE id = 1")
        try await anna.engine.sync()
        for request in anna.transport.faults.requests.dropLast() {
            await #expect { try await cluster.store.sync(zone: "main", body: Array(request.utf8)) } throws: {
                ($0 as? TidemarkError)?.code == .identityInUse
            }
        }
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT text FROM notes WHERE id = 1") == ["milk"])
    }

    @Test func `rule 3: twenty requests without an answer still count as one device`() async throws {
        let (cluster, anna) = try await Self.start()
        let before = try await anna.engine.status().device
        for number in 1...20 {
            try await anna.write("INSERT INTO notes (list_id, text) VALUES (1, '\(number)')")
            anna.transport.faults.add(number.isMultiple(of: 3) ? .answerLost : .requestLost)
            await anna.syncInVain()
        }
        try await cluster.converge(anna)
        #expect(try await anna.engine.status().device == before)
        #expect(try await cluster.rows("SELECT count(*) FROM notes") == ["23"])
    }

    @Test func `rule 14: a base is never interpreted in another history`() async throws {
        let (cluster, anna) = try await Self.start()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        anna.transport.faults.add(.requestLost)
        await anna.syncInVain()
        try anna.writeOutside("UPDATE tidemark_changeset SET epoch = '00000000-0000-4000-8000-00000000beef'")
        try await cluster.converge(anna)
        #expect(try anna.sent.last { !$0.isEmpty }?.map(\.records) == [["update notes 1 (text)"]])
        #expect(anna.transport.faults.requests.contains { $0.contains(#""recall""#) })
        #expect(try await cluster.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
    }
}
