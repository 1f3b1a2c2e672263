import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// An app's migration makes a table again and edits its rows, while other devices edit the same zone.
///
/// No trigger captures the migration's edits. The device finds them, and only them: nothing that others wrote counts
/// as an edit here, and nothing is lost because others wrote as well.
@Suite struct RebuiltMeanwhileTests {
    /// What the migration does to the columns of the table.
    enum Shape: CaseIterable {
        case sameColumns
        case droppedColumn
        case addedColumn

        private var columns: String {
            "id INTEGER PRIMARY KEY, body TEXT, done TEXT, n INTEGER NOT NULL DEFAULT 0"
                + (self == .droppedColumn ? "" : ", old TEXT")
                + (self == .addedColumn ? ", extra TEXT DEFAULT 'x'" : "")
        }

        /// The SQL of the migration before its edits.
        var rebuild: String {
            let names = "id, body, done, n" + (self == .droppedColumn ? "" : ", old")
            return """
                CREATE TABLE fresh (\(columns)); INSERT INTO fresh (\(names)) SELECT \(names) FROM note;
                DROP TABLE note; ALTER TABLE fresh RENAME TO note;
                """
        }
    }

    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT, done TEXT, n INTEGER NOT NULL DEFAULT 0, old TEXT);
        CREATE TABLE tag (name TEXT PRIMARY KEY, colour TEXT, size TEXT);
        """
    private static let seed = """
        INSERT INTO note (body, done, n, old) VALUES
            ('one', 'no', 10, 'o1'), ('two', 'no', 20, 'o2'), ('three', 'no', 30, 'o3'), ('four', 'no', 40, 'o4')
        """
    private static let rows = "SELECT id, body, done, n FROM note ORDER BY id"

    private let cluster: Cluster
    private let anna: TestDevice
    private let ben: TestDevice

    init() async throws { (cluster, anna, ben) = try await Self.start() }

    private static func start(_ policies: [String: ConflictPolicy] = [:], limits: Limits = .standard) async throws -> (
        Cluster, TestDevice, TestDevice
    ) {
        let cluster = try Cluster(schema: schema, seed: seed, policies: policies, limits: limits)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        for device in [anna, ben] { try await device.engine.sync() }
        return (cluster, anna, ben)
    }

    /// Ben's edits reach the server, then Anna's app migrates and syncs.
    private static func meet(_ anna: TestDevice, _ migration: String, _ ben: TestDevice, _ edits: String) async throws {
        try await ben.write(edits)
        try await ben.engine.sync()
        try anna.writeOutside(migration)
        try await anna.engine.sync()
    }

    /// Both devices have the server's rows, in the columns that all have.
    private static func expectEqual(_ cluster: Cluster, _ devices: TestDevice...) async throws {
        for device in devices { try await device.engine.sync() }
        for device in devices {
            #expect(try await device.rows(Self.rows) == cluster.rows(Self.rows))
            #expect(try await device.engine.status().pendingChangeSets == 0)
        }
    }

    /// Whether a sync ends before a message is lost.
    private static func syncs(_ device: TestDevice) async throws -> Bool {
        do {
            try await device.engine.sync()
            return true
        } catch let error as TidemarkError where error.code == .unreachable { return false }
    }

    private static func retryAll(_ device: TestDevice) async throws {
        for conflict in try await device.engine.conflicts() {
            try await device.engine.resolve(conflict.id, with: .retry)
        }
        try await device.engine.sync()
    }

    @Test func `rule 1: a migration's edit of a record that the app has edited since is not lost to another device's`()
        async throws
    {
        let (cluster, anna, ben) = try await Self.start(["note": .columns])
        try await ben.write("UPDATE note SET body = 'ben' WHERE id = 1")
        try await ben.engine.sync()
        try anna.writeOutside(Shape.sameColumns.rebuild + "UPDATE note SET body = 'anna' WHERE id IN (1, 2)")
        let later = try await SyncEngine(anna.database, server: "http://cluster.test", transport: anna.transport)
        try await anna.database.write { db in
            try db.execute(sql: "UPDATE note SET done = 'later', n = n + 1 WHERE id < 3")
        }
        try await later.sync()
        let records = try await later.conflicts().flatMap(\.records)
        // What the app wrote later waits for the decision.
        #expect(records.first?.mine == #"{"body":"anna"}"#)
        #expect(records.first?.theirs?.contains(#""body":"ben""#) == true)
        for conflict in try await later.conflicts() { try await later.resolve(conflict.id, with: .retry) }
        try await later.sync()
        try await Self.expectEqual(cluster, ben)
        #expect(try await cluster.rows(Self.rows).prefix(2) == ["1|anna|later|11", "2|anna|later|21"])
    }

    @Test(arguments: Shape.allCases)
    func `rule 1: a migration's edit of a value that another device has written becomes a conflict of this value`(
        shape: Shape
    ) async throws {
        try await Self.meet(
            anna,
            shape.rebuild + "UPDATE note SET body = 'anna' WHERE id = 1; UPDATE note SET done = 'anna' WHERE id = 4",
            ben,
            """
            UPDATE note SET body = 'ben', done = 'ben' WHERE id = 1; UPDATE note SET body = 'ben', old = 'b' WHERE id = 2;
            UPDATE note SET n = 31 WHERE id = 3
            """
        )
        let records = try await anna.engine.conflicts().flatMap(\.records)
        #expect(records.map(\.key) == ["1"], "the rest of the migration is sent")
        #expect(records.compactMap(\.mine) == [#"{"body":"anna"}"#])
        #expect(
            try await cluster.rows(Self.rows) == ["1|ben|ben|10", "2|ben|no|20", "3|three|no|31", "4|four|anna|40"])
        try await Self.expectEqual(cluster, ben, anna)
        try await Self.retryAll(anna)
        #expect(
            try await cluster.rows(Self.rows) == ["1|anna|ben|10", "2|ben|no|20", "3|three|no|31", "4|four|anna|40"])
        #expect(try await cluster.rows("SELECT old FROM note ORDER BY id") == ["o1", "b", "o3", "o4"])
        try await Self.expectEqual(cluster, ben, anna)
    }

    @Test(arguments: Shape.allCases)
    func `a migration that edits nothing parks nothing, whatever others have written or deleted`(shape: Shape)
        async throws
    {
        try await Self.meet(
            anna,
            shape.rebuild,
            ben,
            """
            UPDATE note SET body = 'ben', n = n + 1 WHERE id < 3; UPDATE note SET old = 'b', done = 'b' WHERE id = 2;
            DELETE FROM note WHERE id = 4; INSERT INTO note (body) VALUES ('new')
            """
        )
        #expect(try await anna.engine.conflicts().isEmpty)
        try await Self.expectEqual(cluster, ben, anna)
        #expect(try await cluster.rows("SELECT body FROM note ORDER BY id") == ["ben", "ben", "three", "new"])
    }

    @Test(arguments: Shape.allCases)
    func `edits of other columns of one record are merged under the policy for columns`(shape: Shape) async throws {
        let (cluster, anna, ben) = try await Self.start(["note": .columns])
        try await Self.meet(
            anna, shape.rebuild + "UPDATE note SET body = upper(body)", ben,
            "UPDATE note SET done = 'yes', old = 'b' WHERE id IN (1, 3)")
        #expect(try await anna.engine.conflicts().isEmpty)
        try await Self.expectEqual(cluster, ben, anna)
        #expect(try await cluster.rows(Self.rows) == ["1|ONE|yes|10", "2|TWO|no|20", "3|THREE|yes|30", "4|FOUR|no|40"])
    }

    @Test func `rule 1: a migration's edit stands where the policy lets the later one stand, and the other is kept`()
        async throws
    {
        let (cluster, anna, ben) = try await Self.start(["note": .lastWriter])
        try await Self.meet(
            anna,
            Shape.droppedColumn.rebuild + "UPDATE note SET body = 'anna' WHERE id = 1; DELETE FROM note WHERE id = 2",
            ben, "UPDATE note SET body = 'ben', done = 'ben' WHERE id < 3")
        try await Self.expectEqual(cluster, ben, anna)
        #expect(try await cluster.rows(Self.rows) == ["1|anna|ben|10", "3|three|no|30", "4|four|no|40"])
        let parked = try await ben.engine.conflicts().flatMap(\.records).compactMap(\.mine)
        #expect(parked.contains { $0.contains(#""body":"ben""#) })
    }

    @Test(arguments: Shape.allCases)
    func `rule 39: what a migration adds and what others added meanwhile add up`(shape: Shape) async throws {
        let (cluster, anna, ben) = try await Self.start(["note.n": .add])
        try await Self.meet(
            anna, shape.rebuild + "UPDATE note SET n = n + 100 WHERE id < 3", ben,
            "UPDATE note SET n = n + 3 WHERE id IN (1, 3)")
        #expect(try await anna.engine.conflicts().isEmpty)
        try await Self.expectEqual(cluster, ben, anna)
        #expect(try await cluster.rows("SELECT n FROM note ORDER BY id") == ["113", "120", "33", "40"])
    }

    @Test(arguments: Shape.allCases)
    func `rule 39: an addition that waited before the migration is added once, and so is the migration's`(shape: Shape)
        async throws
    {
        let (cluster, anna, ben) = try await Self.start(["note.n": .add])
        try await anna.write("UPDATE note SET n = n + 1 WHERE id = 1")
        try await Self.meet(
            anna, shape.rebuild + "UPDATE note SET n = n + 100 WHERE id < 3", ben,
            "UPDATE note SET n = n + 3 WHERE id = 1")
        #expect(try await anna.engine.conflicts().isEmpty)
        try await Self.expectEqual(cluster, ben, anna)
        #expect(try await cluster.rows("SELECT n FROM note ORDER BY id") == ["114", "120", "30", "40"])
    }

    @Test(arguments: Shape.allCases)
    func `rule 1: a record that a migration deletes and others have changed stays, and the deletion is a conflict`(
        shape: Shape
    ) async throws {
        try await Self.meet(
            anna, shape.rebuild + "DELETE FROM note WHERE id IN (2, 4)", ben,
            "UPDATE note SET body = 'ben' WHERE id = 2; UPDATE note SET body = 'b' WHERE id = 3")
        let records = try await anna.engine.conflicts().flatMap(\.records)
        #expect(records.map(\.key) == ["2"])
        #expect(records.map(\.operation) == ["delete"])
        try await Self.expectEqual(cluster, ben, anna)
        #expect(try await cluster.rows("SELECT id, body FROM note ORDER BY id") == ["1|one", "2|ben", "3|b"])
        try await Self.retryAll(anna)
        #expect(try await cluster.rows("SELECT id, body FROM note ORDER BY id") == ["1|one", "3|b"])
        try await Self.expectEqual(cluster, ben, anna)
    }

    @Test(arguments: Shape.allCases)
    func `a migration's deletion of other records than those that others changed is sent`(shape: Shape) async throws {
        try await Self.meet(
            anna, shape.rebuild + "DELETE FROM note WHERE id = 2; INSERT INTO note (body) VALUES ('anna')", ben,
            "UPDATE note SET body = 'ben' WHERE id = 3; INSERT INTO note (body) VALUES ('ben')")
        #expect(try await anna.engine.conflicts().isEmpty)
        try await Self.expectEqual(cluster, ben, anna)
        #expect(try await cluster.rows("SELECT body FROM note ORDER BY body") == ["anna", "ben", "ben", "four", "one"])
    }

    @Test(arguments: Shape.allCases)
    func `rule 1: a record that others deleted stays deleted, and only a migration's edit of it is a conflict`(
        shape: Shape
    ) async throws {
        try await Self.meet(
            anna, shape.rebuild + "UPDATE note SET body = 'anna' WHERE id = 3", ben,
            "DELETE FROM note WHERE id IN (2, 3)")
        let records = try await anna.engine.conflicts().flatMap(\.records)
        #expect(records.map(\.key) == ["3"])
        #expect(records.map(\.mine) == [#"{"body":"anna"}"#])
        try await Self.expectEqual(cluster, ben, anna)
        #expect(try await cluster.rows("SELECT id FROM note ORDER BY id") == ["1", "4"])
        try await Self.retryAll(anna)
        #expect(try await cluster.rows("SELECT body FROM note ORDER BY body") == ["anna", "four", "one"])
        try await Self.expectEqual(cluster, ben, anna)
    }

    @Test func `rule 1: a migration and another device make the same text key, and both versions are shown`()
        async throws
    {
        try await Self.meet(
            anna,
            """
            CREATE TABLE fresh (name TEXT PRIMARY KEY, colour TEXT, size TEXT); INSERT INTO fresh SELECT * FROM tag;
            DROP TABLE tag; ALTER TABLE fresh RENAME TO tag;
            INSERT INTO tag (name, colour) VALUES ('red', 'anna'), ('blue', 'anna')
            """,
            ben,
            "INSERT INTO tag VALUES ('red', 'ben', 'big')"
        )
        let records = try await anna.engine.conflicts().flatMap(\.records)
        #expect(records.map(\.key) == [#""red""#])
        #expect(records.first?.mine?.contains(#""colour":"anna""#) == true)
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT * FROM tag ORDER BY name") == ["blue|anna|", "red|ben|big"])
    }

    @Test(arguments: Shape.allCases)
    func `a comparison that was interrupted goes on with the row as the migration left it`(shape: Shape) async throws {
        try await ben.write("UPDATE note SET body = 'ben' WHERE id < 3")
        try await ben.engine.sync()
        try anna.writeOutside(shape.rebuild + "UPDATE note SET body = 'anna' WHERE id = 1")
        anna.transport.faults.add(.none, .requestLost)
        await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        try await ben.write("UPDATE note SET body = 'ben again', done = 'b' WHERE id < 3")
        try await ben.engine.sync()
        try await anna.reopened().engine.sync()
        let records = try await anna.engine.conflicts().flatMap(\.records)
        #expect(records.compactMap(\.mine) == [#"{"body":"anna"}"#])
        try await Self.expectEqual(cluster, ben, anna)
        #expect(try await cluster.rows("SELECT body, done FROM note WHERE id < 3") == ["ben again|b", "ben again|b"])
    }

    @Test(arguments: Shape.allCases)
    func `in a zone that goes on changing, a migration's edits are found at the revision of one snapshot`(shape: Shape)
        async throws
    {
        let (cluster, anna, ben) = try await Self.start(["note": .columns, "note.n": .add])
        try anna.writeOutside(
            shape.rebuild
                + """
                UPDATE note SET body = 'anna', n = n + 100 WHERE id = 1; DELETE FROM note WHERE id = 2;
                INSERT INTO note (body) VALUES ('new')
                """
        )
        let times = 12
        Self.keepBusy(anna, ben, times: times)
        for _ in 0..<times { try await anna.engine.sync() }
        #expect(try await anna.engine.conflicts().isEmpty)
        try await Self.expectEqual(cluster, ben, anna)
        #expect(
            try await cluster.rows("SELECT body, done, iif(id = 3, n > 30, n) FROM note ORDER BY body") == [
                "anna|ben|110", "four|no|40", "new||0", "three|no|1",
            ]
        )
    }

    /// Lets Ben write while an answer is on its way to Anna, so that her next snapshot is of a later revision.
    private static func keepBusy(_ anna: TestDevice, _ ben: TestDevice, times: Int) {
        guard times > 0 else { return }
        anna.transport.faults.whileInFlight {
            try await ben.write("UPDATE note SET done = 'ben' WHERE id = 1; UPDATE note SET n = n + 1 WHERE id = 3")
            try await ben.engine.sync()
            keepBusy(anna, ben, times: times - 1)
        }
    }

    @Test
    func `rule 1: whatever a migration and others write, each edit is in the zone or in a conflict, and no other`()
        async throws
    {
        for seed in 1...UInt64(Effort.count(short: 8, long: 150)) {
            let (cluster, anna, ben) = try await Self.start(["note": .columns, "note.n": .add])
            var game = RebuildGame(seed: seed)
            for _ in 0..<game.commits {
                try await ben.write(game.edits(by: .other))
                try await ben.engine.sync()
            }
            try anna.writeOutside(game.shape.rebuild + game.edits(by: .migration))
            for _ in 0..<game.interruptions {
                for fault in game.lostMessage { anna.transport.faults.add(fault) }
                // Once compared, the migration is one change set, which the server judges as a whole.
                guard try await !Self.syncs(anna), try await anna.rows("SELECT rebuilt FROM tidemark_device") != [""]
                else { break }
                try await ben.write(game.edits(by: .other))
                try await ben.engine.sync()
            }
            // A message that was not needed is lost later.
            for _ in 0..<6 { _ = try await Self.syncs(anna) }
            try await Self.expectEqual(cluster, ben, anna)
            #expect(
                try await cluster.rows("SELECT body, done, n FROM note").sorted() == game.expected,
                "seed \(seed): \(game.story)")
            let parked = try await anna.engine.conflicts().flatMap(\.records)
            #expect(Set(parked.map(\.key)) == game.contended, "seed \(seed): \(game.story)")
            for value in game.parkedValues {
                #expect(parked.contains { $0.mine?.contains(value) == true }, "seed \(seed): \(game.story)")
            }
        }
    }

    @Test(arguments: Shape.allCases)
    func `rule 1: without a history from the server, both versions become a conflict, and none is lost`(shape: Shape)
        async throws
    {
        let (cluster, anna, ben) = try await Self.start(["note.n": .add])
        let cara = try await cluster.device("cara", over: WithoutHistory(real: anna.transport))
        try await cara.engine.sync()
        try await Self.meet(
            cara, shape.rebuild + "UPDATE note SET body = 'cara', n = 11 WHERE id = 1", ben,
            "UPDATE note SET body = 'ben', n = n + 3 WHERE id = 1; DELETE FROM note WHERE id = 2")
        let records = try await cara.engine.conflicts().flatMap(\.records).sorted { $0.key < $1.key }
        #expect(records.map(\.key) == ["1", "2"])
        #expect(records.first?.mine == #"{"body":"cara","n":11}"#)
        #expect(records.first?.theirs?.contains(#""body":"ben""#) == true)
        #expect(try await cluster.rows(Self.rows) == ["1|ben|no|13", "3|three|no|30", "4|four|no|40"])
        try await Self.expectEqual(cluster, anna, ben, cara)
    }

    @Test(arguments: Shape.allCases)
    func `rule 1: without a history, a migration's edit under a later edit of the record becomes a conflict, too`(
        shape: Shape
    ) async throws {
        let cara = try await cluster.device("cara", over: WithoutHistory(real: anna.transport))
        try await cara.engine.sync()
        try await ben.write("UPDATE note SET body = 'ben' WHERE id = 1")
        try await ben.engine.sync()
        try cara.writeOutside(shape.rebuild + "UPDATE note SET body = 'cara' WHERE id IN (1, 2)")
        let later = try await cara.reopened()
        try await later.write("UPDATE note SET done = 'later' WHERE id IN (1, 2)")
        try await later.engine.sync()
        let mine = try await later.engine.conflicts().flatMap(\.records).compactMap(\.mine)
        #expect(mine.contains { $0.contains(#""body":"cara""#) }, "\(mine)")
        try await Self.expectEqual(cluster, anna, ben, later)
        #expect(try await cluster.rows("SELECT body FROM note WHERE id = 1") == ["ben"])
    }

    @Test(arguments: Shape.allCases)
    func `rule 24: behind the horizon, what a migration wrote becomes a conflict and revives nothing`(shape: Shape)
        async throws
    {
        var limits = Limits.standard
        limits.revisionsKept = 2
        limits.compactionStepMin = 1
        limits.compactionStepMax = 3
        let (cluster, anna, ben) = try await Self.start(limits: limits)
        try await ben.write("DELETE FROM note WHERE id = 4; UPDATE note SET done = 'ben' WHERE id = 3")
        try await ben.write("INSERT INTO note (body) VALUES ('made by ben')")
        for number in 1...8 {
            try await ben.write("INSERT INTO tag (name) VALUES ('\(number)')")
            try await ben.engine.sync()
        }
        try anna.writeOutside(
            shape.rebuild
                + """
                UPDATE note SET body = 'anna' WHERE id = 1; DELETE FROM note WHERE id = 2;
                INSERT INTO note (body) VALUES ('new')
                """
        )
        try await anna.engine.sync()
        let records = try await anna.engine.conflicts().flatMap(\.records)
        #expect(records.filter { $0.operation == "delete" }.map(\.key) == ["2"], "and not what others have made")
        let parked = records.compactMap(\.mine)
        #expect(parked.contains { $0.contains(#""body":"anna""#) })
        #expect(parked.contains { $0.contains(#""body":"new""#) })
        #expect(parked.contains { $0.contains(#""body":"four""#) }, "it may be new or deleted by another device")
        try await Self.expectEqual(cluster, ben, anna)
        #expect(
            try await cluster.rows("SELECT body, done, n FROM note ORDER BY n DESC") == [
                "three|ben|30", "two|no|20", "one|no|10", "made by ben||0",
            ]
        )
    }
}

/// A random migration beside random edits of others, and what each side should have afterwards.
private struct RebuildGame {
    enum Author { case migration, other }

    private struct Note {
        var body: String
        var done: String
        var n: Int
        var isThere = true
    }

    private var random: SeededGenerator
    private var notes: [Int: Note] = [:]
    /// The columns that each author wrote, by record; `gone` for a deletion.
    private var written: [Author: [Int: [String: String]]] = [.migration: [:], .other: [:]]
    private var added: [Author: [Int: Int]] = [:]
    private var newBodies: [String] = []
    private var number = 0
    /// The edits so far, for a failure's message.
    private(set) var story: [String] = []
    let shape: RebuiltMeanwhileTests.Shape
    let commits: Int
    let interruptions: Int

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        shape = RebuiltMeanwhileTests.Shape.allCases.randomElement(using: &random) ?? .sameColumns
        commits = Int.random(in: 0...3, using: &random)
        interruptions = Int.random(in: 0...2, using: &random)
        for (index, word) in ["one", "two", "three", "four"].enumerated() {
            notes[index + 1] = Note(body: word, done: "no", n: (index + 1) * 10)
        }
    }

    /// The fates of the next messages: one of the first four is lost.
    var lostMessage: [FaultPlan.Fault] {
        mutating get { Array(repeating: .none, count: Int.random(in: 0...3, using: &random)) + [.requestLost] }
    }

    /// Returns the SQL of some edits.
    mutating func edits(by author: Author) -> String {
        var sql = ""
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            number += 1
            let id = Int.random(in: 1...4, using: &random)
            let value = "\(author == .migration ? "m" : "o")\(number)"
            switch Int.random(in: 0..<8, using: &random) {
            case 0:
                newBodies.append(value)
                sql += "INSERT INTO note (body, done) VALUES ('\(value)', 'new');"
            case 1:
                write("gone", "yes", id, author)
                sql += "DELETE FROM note WHERE id = \(id);"
            case 2...3:
                if written[author]?[id]?["gone"] == nil { added[author, default: [:]][id, default: 0] += number }
                write("n", "", id, author)
                sql += "UPDATE note SET n = n + \(number) WHERE id = \(id);"
            case 4...5:
                write("done", value, id, author)
                sql += "UPDATE note SET done = '\(value)' WHERE id = \(id);"
            default:
                write("body", value, id, author)
                sql += "UPDATE note SET body = '\(value)' WHERE id = \(id);"
            }
        }
        story.append("\(author): \(sql)")
        return sql
    }

    private mutating func write(_ column: String, _ value: String, _ id: Int, _ author: Author) {
        guard written[author]?[id]?["gone"] == nil else { return }
        written[author, default: [:]][id, default: [:]][column] = value
    }

    private func columns(_ author: Author, _ id: Int) -> [String: String] { written[author]?[id] ?? [:] }

    private func isContended(_ id: Int) -> Bool {
        let mine = columns(.migration, id)
        let theirs = columns(.other, id)
        if mine["gone"] != nil { return theirs["gone"] == nil && !theirs.isEmpty }
        if theirs["gone"] != nil { return !mine.isEmpty }
        return ["body", "done"].contains { mine[$0] != nil && theirs[$0] != nil }
    }

    /// The records with conflicts.
    var contended: Set<String> { Set(notes.keys.filter(isContended).map(String.init)) }

    /// The migration's values that belong into conflicts.
    var parkedValues: [String] {
        notes.keys.filter(isContended).flatMap { id -> [String] in
            let mine = columns(.migration, id)
            guard mine["gone"] == nil else { return [] }
            return ["body", "done"].compactMap { mine[$0] }
        }
    }

    /// The zone's rows.
    var expected: [String] {
        let old = notes.compactMap { id, note -> String? in
            let mine = isContended(id) ? [:] : columns(.migration, id)
            let theirs = columns(.other, id)
            guard mine["gone"] == nil, theirs["gone"] == nil else { return nil }
            let sum = (added[.other]?[id] ?? 0) + (isContended(id) ? 0 : added[.migration]?[id] ?? 0)
            return [
                mine["body"] ?? theirs["body"] ?? note.body, mine["done"] ?? theirs["done"] ?? note.done,
                String(note.n + sum),
            ].joined(separator: "|")
        }
        return (old + newBodies.map { "\($0)|new|0" }).sorted()
    }
}

/// A way to a server that tells no histories of records.
private struct WithoutHistory: ForwardingTransport {
    let real: InProcessTransport

    func history(zone: String, table: String, key: String) async throws -> [UInt8] {
        throw TidemarkError(.unknownPath, "There is no such path.", fix: "Ask otherwise.")
    }
}
