import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// New records are born with the id that they keep, because the server lends ids ahead.
@Suite struct LentIDTests {
    private static let schema = """
        CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT);
        CREATE TABLE note (id INTEGER PRIMARY KEY, kind TEXT, object_id INTEGER, text TEXT);
        """
    private static let seed = "INSERT INTO book (title) VALUES ('old')"
    private static let books = "SELECT id, title FROM book ORDER BY id"

    private static func start(_ names: String...) async throws -> (cluster: Cluster, devices: [TestDevice]) {
        let cluster = try Cluster(schema: schema, seed: seed)
        var devices: [TestDevice] = []
        for name in names {
            let device = try await cluster.device(name)
            try await device.engine.sync()
            devices.append(device)
        }
        return (cluster, devices)
    }

    private static func insert(_ title: String, on device: TestDevice) async throws -> Int64 {
        let id = try await device.database.write {
            try Int64.fetchOne($0, sql: "INSERT INTO book (title) VALUES (?) RETURNING id", arguments: [title])
        }
        return try #require(id)
    }

    @Test func `a note that refers to a book without a foreign key finds it after the sync`() async throws {
        let (cluster, devices) = try await Self.start("anna", "ben")
        try devices[0].writeOutside(
            """
            INSERT INTO book (title) VALUES ('of anna');
            INSERT INTO note (kind, object_id, text) SELECT 'book', max(id), 'a note' FROM book
            """
        )
        for device in devices { try await device.engine.sync() }
        let title = "SELECT title FROM note JOIN book ON book.id = object_id"
        #expect(try await devices[1].rows(title) == ["of anna"])
        #expect(try await cluster.rows(title) == ["of anna"])
        #expect(try await devices[0].rows("SELECT count(*) FROM tidemark_idmap") == ["0"])
    }

    @Test func `two devices create in turn, and no record ever changes its id`() async throws {
        let (cluster, devices) = try await Self.start("anna", "ben")
        var ids: [Int64] = []
        for turn in 1...6 {
            let device = devices[turn % 2]
            try await device.engine.sync()
            ids.append(try await Self.insert("book \(turn)", on: device))
            try await device.engine.sync()
        }
        try await cluster.converge(devices)
        #expect(ids.allSatisfy { !TemporaryID.isTemporary($0) })
        let served = try await cluster.rows("SELECT id FROM book WHERE title LIKE 'book %' ORDER BY title")
        #expect(served == ids.map(String.init))
        for device in devices { #expect(try await device.rows("SELECT count(*) FROM tidemark_idmap") == ["0"]) }
    }

    @Test func `two devices create offline, each many records, and all keep their ids`() async throws {
        let (cluster, devices) = try await Self.start("anna", "ben")
        for device in devices {
            try await device.write(
                """
                WITH n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
                INSERT INTO book (title) SELECT 'book ' || i FROM n
                """
            )
        }
        let ids = try await devices[0].rows(Self.books) + devices[1].rows(Self.books)
        try await cluster.converge(devices)
        #expect(try await Set(cluster.rows(Self.books)) == Set(ids))
        for device in devices { #expect(try await device.engine.conflicts().isEmpty) }
    }

    @Test func `a copied file draws no id of the original's, and both records are kept`() async throws {
        let (cluster, devices) = try await Self.start("anna")
        let anna = devices[0]
        _ = try await Self.insert("first", on: anna)
        try await anna.engine.sync()
        let twin = try await anna.copy("twin")
        let mine = try await Self.insert("of anna", on: anna)
        #expect(try await Self.insert("of the twin", on: twin) == mine)
        try await twin.write("INSERT INTO note (kind, object_id, text) SELECT 'book', max(id), 'x' FROM book")
        try await anna.engine.sync()
        try await twin.engine.sync()
        try await cluster.converge(anna, twin)
        #expect(
            try await cluster.rows("SELECT title FROM book ORDER BY title") == [
                "first", "of anna", "of the twin", "old",
            ]
        )
        #expect(try await cluster.rows("SELECT title FROM book WHERE id = \(mine)") == ["of anna"])
        for device in [anna, twin] { #expect(try await device.engine.conflicts().isEmpty) }
        let next = try await Self.insert("next", on: twin)
        #expect(try await Self.insert("next", on: anna) != next)
    }

    @Test func `another program takes a second lent id before the verdict on the first arrives: all rows are kept`()
        async throws
    {
        let (cluster, devices) = try await Self.start("anna")
        let anna = devices[0]
        let first = try await Self.insert("first", on: anna)
        try await anna.engine.sync()
        try cluster.writeOutside("INSERT INTO book (title) VALUES ('server 1')")
        try await anna.write("INSERT INTO book (title) VALUES ('anna 1'); INSERT INTO book (title) VALUES ('anna 2')")
        // The server refuses the creations because of the first id; the device does not hear it.
        anna.transport.faults.add(.answerLost)
        await anna.syncInVain()
        try cluster.writeOutside("INSERT INTO book (title) VALUES ('server 2')")
        #expect(try await cluster.rows("SELECT max(id) FROM book") == ["\(first + 2)"])
        try await cluster.converge(anna)
        #expect(
            try await cluster.rows("SELECT title FROM book WHERE id > \(first) ORDER BY title") == [
                "anna 1", "anna 2", "server 1", "server 2",
            ]
        )
        #expect(try await anna.engine.conflicts().isEmpty)
    }

    @Test func `another program at the server takes a lent id: the device's record gets another one`() async throws {
        let (cluster, devices) = try await Self.start("anna")
        let anna = devices[0]
        let first = try await Self.insert("first", on: anna)
        try await anna.engine.sync()
        try cluster.writeOutside("INSERT INTO book (title) VALUES ('of the server')")
        let taken = try await Self.insert("of anna", on: anna)
        #expect(taken == first + 1)
        try await anna.write("UPDATE book SET title = 'of anna, edited' WHERE id = \(taken)")
        let events = try await anna.events { try await anna.engine.sync() }
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT title FROM book WHERE id = \(taken)") == ["of the server"])
        #expect(try await cluster.rows("SELECT count(*) FROM book WHERE title = 'of anna, edited'") == ["1"])
        #expect(try await anna.engine.conflicts().isEmpty)
        let isRenumbered = events.contains { event in
            if case .identitiesAssigned("book", let ids) = event { ids.keys.contains(taken) } else { false }
        }
        #expect(isRenumbered)
    }

    @Test func `an app whose own table is not AUTOINCREMENT is told that its new record has got another id`()
        async throws
    {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        var apps: [(database: DatabaseQueue, sync: SyncEngine)] = []
        for keyword in ["", "", " AUTOINCREMENT"] {
            let database = try DatabaseQueue(path: cluster.folder.appending(path: "\(UUID()).sqlite").path)
            try await database.write { db in
                try db.execute(sql: Self.schema.replacing("PRIMARY KEY, title", with: "PRIMARY KEY\(keyword), title"))
            }
            let sync = try await SyncEngine(
                database, server: "http://cluster.test", transport: InProcessTransport(to: cluster.service))
            try await sync.sync()
            apps.append((database, sync))
        }
        for (database, _) in apps {
            try await database.write { try $0.execute(sql: "INSERT INTO book (title) VALUES ('new')") }
        }
        let drawn = try await apps[0].database.read { try Int64.fetchOne($0, sql: "SELECT max(id) FROM book") }
        let taken = try #require(drawn)
        #expect(try await apps[1].database.read { try Int64.fetchOne($0, sql: "SELECT max(id) FROM book") } == taken)
        try await apps[0].sync.sync()
        let stream = apps[1].sync.deviceEvents
        try await apps[1].sync.sync()
        await apps[1].sync.finishEvents()
        var id = taken
        for await case .identitiesAssigned("book", let ids) in stream { id = ids[id] ?? id }
        #expect(id != taken)
        #expect(try await cluster.rows("SELECT title FROM book WHERE id = \(id)") == ["new"])
        let reports = try await [
            apps[1].database.read { try SchemaReport($0) }, apps[2].database.read { try SchemaReport($0) },
        ]
        #expect(reports.map { $0.tables.filter(\.changesIDs).map(\.name) } == [["book", "note"], ["note"]])
    }

    @Test func `two devices that choose the same id are a conflict, not two records`() async throws {
        let (cluster, devices) = try await Self.start("anna", "ben")
        for device in devices { try await device.write("INSERT INTO book VALUES (1795440614030, 'chosen')") }
        for device in devices { try await device.engine.sync() }
        #expect(try await devices[1].engine.conflicts().map(\.reasons.first?.rule) == ["exists"])
        #expect(try await cluster.rows("SELECT count(*) FROM book") == ["2"])
    }

    @Test func `after a chosen id far above, a plain insert draws an id that the device keeps`() async throws {
        let (cluster, devices) = try await Self.start("anna")
        let anna = devices[0]
        try await anna.write("INSERT INTO book VALUES (1795440614030, 'chosen')")
        try await anna.engine.sync()
        let id = try await Self.insert("drawn", on: anna)
        #expect(id > 1_795_440_614_030 && !TemporaryID.isTemporary(id))
        try await anna.engine.sync()
        #expect(try await cluster.rows("SELECT id FROM book WHERE title = 'drawn'") == ["\(id)"])
    }

    @Test func `without lent ids every file draws temporary ids from another start`() async throws {
        let cluster = try Cluster(schema: Self.schema, seed: Self.seed)
        let anna = try await cluster.device("anna", limits: .withoutLending)
        let ben = try await cluster.device("ben", limits: .withoutLending)
        let ids = [
            try await Self.insert("of anna", on: anna), try await Self.insert("of ben", on: ben),
        ]
        #expect(ids.allSatisfy(TemporaryID.isTemporary))
        #expect(abs(ids[0] - ids[1]) > 1)
        try await cluster.converge(anna, ben)
    }

    @Test func `the server's own ids never meet a device's`() async throws {
        let (cluster, devices) = try await Self.start("anna")
        let anna = devices[0]
        let temporary = try await cluster.device("temporary", limits: .withoutLending)
        _ = try await Self.insert("first", on: anna)
        try await anna.engine.sync()
        _ = try await Self.insert("given", on: temporary)
        let next = try await Self.insert("second", on: anna)
        try await temporary.engine.sync()
        try await cluster.converge(anna, temporary)
        #expect(try await cluster.rows("SELECT id FROM book WHERE title = 'second'") == ["\(next)"])
        #expect(try await cluster.rows("SELECT count(*) FROM book") == ["4"])
    }

    // MARK: More rows than a place has ids

    private static let fullPlace = """
        CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT UNIQUE);
        CREATE TABLE page (id INTEGER PRIMARY KEY, book_id INTEGER NOT NULL REFERENCES book, number INTEGER);
        """

    /// Inserts numbered books, and a page of each, as one statement each.
    private static func insertBooks(of author: String, _ numbers: ClosedRange<Int>) -> String {
        """
        INSERT OR IGNORE INTO book (title)
        WITH n (i) AS (VALUES (\(numbers.lowerBound)) UNION ALL SELECT i + 1 FROM n WHERE i < \(numbers.upperBound))
        SELECT '\(author) ' || i FROM n;
        INSERT INTO page (book_id, number)
        SELECT id, substr(title, \(author.count + 2)) FROM book WHERE title LIKE '\(author) %' AND id NOT IN (
            SELECT book_id FROM page);
        """
    }

    @Test(arguments: [1, 40])
    func `a statement inserts more rows offline than a place has ids: a neighbour's ids stay free`(ignored: Int)
        async throws
    {
        let cluster = try Cluster(schema: Self.fullPlace, seed: "INSERT INTO book (title) VALUES ('old')")
        let files = [try await cluster.device("anna"), try await cluster.device("ben")]
        for device in files { try await device.engine.sync() }
        let room = 1 << 11
        for (device, author) in zip(files, ["anna", "ben"]) {
            // Rows that exist use ids up, so the drawn ids have gaps.
            try device.writeOutside(Self.insertBooks(of: author, 1...ignored))
            try device.writeOutside(Self.insertBooks(of: author, 1...room - 100))
            try await device.write(Self.insertBooks(of: author, room - 99...room + 4_000))
            try device.writeOutside("INSERT INTO book VALUES (1795440614030, 'chosen by \(author)')")
            try await device.write("UPDATE book SET id = id + 8 WHERE title LIKE 'chosen by ben'")
        }
        // Engines that open a file later find the rows as well.
        let devices = [try await files[0].reopened(), try await files[1].reopened()]
        let idsOfBen = "SELECT id FROM book WHERE title LIKE 'ben %' ORDER BY id LIMIT \(room - 100)"
        let before = try await devices[1].rows(idsOfBen)
        for device in devices { try await device.engine.sync() }
        try await cluster.converge(devices)
        for device in devices { #expect(try await device.engine.conflicts().isEmpty) }
        #expect(try await cluster.rows(idsOfBen) == before)
        #expect(
            try await cluster.rows(
                "SELECT count(*) FROM book JOIN page ON book_id = book.id WHERE title LIKE '% ' || number") == [
                    "\(2 * (room + 4_000))"
                ])
        #expect(try await cluster.rows("SELECT id - 1795440614030 FROM book WHERE title LIKE 'chosen%'") == ["0", "8"])
        let next = try await Self.insert("next", on: devices[0])
        #expect(try await Self.insert("next of ben", on: devices[1]) != next)
    }
}
