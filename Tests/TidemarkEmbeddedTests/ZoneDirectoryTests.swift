import Foundation
import GRDB
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

@testable import TidemarkEmbedded

/// Zones that are made while the server runs, each in a file of its own.
@Suite struct ZoneDirectoryTests {
    private static let schema = """
        CREATE TABLE list (id INTEGER PRIMARY KEY, title TEXT NOT NULL);
        CREATE TABLE item (id INTEGER PRIMARY KEY, list_id INTEGER NOT NULL REFERENCES list (id), text TEXT);
        CREATE INDEX item_list ON item (list_id);
        CREATE VIEW item_count AS SELECT list_id, count(*) AS items FROM item GROUP BY list_id;
        PRAGMA user_version = 7;
        INSERT INTO list VALUES (1, 'secret of main');
        """
    private static let names = (0..<5).map { number in
        "z_" + String(repeating: ["a", "b", "c", "d", "e"][number], count: 26)
    }

    private static func send(_ text: String, to zone: String, _ directory: ZoneDirectory, at revision: Int = 0)
        async throws -> Answer
    {
        let body =
            #"{"maxRevision":\#(revision),"changeSets":[{"list":{"create":[-1],"#
            + #""attributes":{"-1":{"title":"\#(text)"}}}}]}"#
        return try Answer(try await directory.sync(.local(zone), body: Array(body.utf8)))
    }

    @Test func `a new zone has the main zone's tables, views and version, and none of its rows`() async throws {
        let place = try ZonePlace(Self.schema)
        let directory = try place.open()
        let zone = Self.names[0]
        try await directory.makeZone(zone)
        try await directory.makeZone(zone)
        #expect(try await Self.send("mine", to: zone, directory).revisions == [1])
        let main = try await directory.latest(.local("main"))
        #expect(main.revision == 1)
        let latest = try await directory.latest(.local(zone))
        #expect(latest.zone == zone && latest.epoch != main.epoch)
        try await directory.closeAll()
        let queue = try DatabaseQueue(path: place.path(zone))
        let titles = try await queue.read { try String.fetchAll($0, sql: "SELECT title FROM list") }
        let version = try await queue.read { try Int.fetchOne($0, sql: "PRAGMA user_version") }
        let hasView = try await queue.read { try $0.viewExists("item_count") }
        #expect(titles == ["mine"] && version == 7 && hasView)
        let bytes = try Data(contentsOf: URL(filePath: place.path(zone)))
        #expect(bytes.range(of: Data("secret of main".utf8)) == nil)
    }

    @Test func `more zones than may be open at once are served one after another`() async throws {
        let place = try ZonePlace(Self.schema)
        let directory = try place.open(atMost: 2)
        for zone in Self.names { try await directory.makeZone(zone) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for round in 0..<4 {
                for zone in Self.names {
                    group.addTask { _ = try await Self.send("round \(round)", to: zone, directory) }
                }
            }
            try await group.waitForAll()
        }
        #expect(await directory.openCount <= 2)
        for zone in Self.names { #expect(try await directory.latest(.local(zone)).revision == 4) }
        try await directory.closeAll()
        #expect(await directory.openCount == 0)
    }

    @Test func `a closed zone's revision is known without its file, until a program writes into it`() async throws {
        let place = try ZonePlace(Self.schema)
        let directory = try place.open(atMost: 1)
        for zone in Self.names.prefix(2) {
            try await directory.makeZone(zone)
            _ = try await Self.send("one", to: zone, directory)
        }
        #expect(try await directory.latest(.local(Self.names[0])).revision == 1)
        try place.write("INSERT INTO list VALUES (9, 'by another program')", into: Self.names[0])
        try await directory.look(zone: Self.names[0])
        #expect(try await directory.latest(.local(Self.names[0])).revision == 2)
        try await directory.closeAll()
    }

    @Test func `a list of zones after a start opens no zone, leaves no descriptor, and is right`() async throws {
        let place = try ZonePlace(Self.schema)
        let first = try place.open()
        for (number, zone) in Self.names.enumerated() {
            try await first.makeZone(zone)
            for _ in 0...number { _ = try await Self.send("one", to: zone, first) }
        }
        let known = try await first.latest(of: Self.names.map { .local($0) })
        try await first.closeAll()
        let second = try place.open()
        let before = try Self.openFiles(in: place.folder)
        let read = try await second.latest(of: Self.names.map { .local($0) })
        #expect(read.map(\.revision).sorted() == [1, 2, 3, 4, 5])
        #expect(Set(read) == Set(known))
        #expect(await second.openCount == 0)
        #expect(try Self.openFiles(in: place.folder) == before)
        for zone in Self.names { try await second.look(zone: zone) }
        #expect(await second.openCount == 0)
        // A zone that a program wrote into while no server ran is opened by a look, which logs the change.
        try place.write("INSERT INTO list VALUES (99, 'by another program')", into: Self.names[0])
        #expect(try await second.latest(of: [.local(Self.names[0])]).map(\.revision) == [1])
        try await second.look(zone: Self.names[0])
        #expect(try await second.latest(of: [.local(Self.names[0])]).map(\.revision) == [2])
        try await second.closeAll()
        #expect(try Self.openFiles(in: place.folder).isEmpty)
    }

    /// The paths of the files in a folder that this process has open.
    private static func openFiles(in folder: URL) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap { descriptor in
            // A descriptor of this listing itself is closed by now.
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")
        }.filter { $0.hasPrefix(folder.path) }.sorted()
    }

    @Test func `at most two hundred of many zones are open, and no descriptor is left after the last`() async throws {
        let place = try ZonePlace("CREATE TABLE list (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")
        let directory = try place.open(atMost: ZoneDirectory.openMax)
        var generator = SeededGenerator(seed: 1)
        let zones = (0..<ZoneDirectory.openMax + 5).map { _ in ZoneName.make(using: &generator) }
        for zone in zones {
            try await directory.makeZone(zone)
            #expect(try await Self.send("one", to: zone, directory).revisions == [1])
        }
        #expect(await directory.openCount == ZoneDirectory.openMax)
        let open = try Self.openFiles(in: place.folder)
        #expect(Set(open.filter { $0.hasSuffix(".sqlite") }).count == ZoneDirectory.openMax + 1)
        await directory.closeZones()
        #expect(try Self.openFiles(in: place.folder).allSatisfy { !$0.contains("/zones/") })
        try await directory.main.close()
        #expect(try Self.openFiles(in: place.folder).isEmpty)
    }

    @Test func `a zone with a name that the operator chose has a file of that name`() async throws {
        let place = try ZonePlace(Self.schema)
        let directory = try place.open()
        try await directory.makeZone("news")
        try await directory.makeZone("main")
        #expect(try await Self.send("one", to: "news", directory).revisions == [1])
        try await directory.makeZone("news")
        #expect(try await directory.latest(.local("news")).revision == 1)
        #expect(DataPlaces(folder: place.folder.path).zoneNames == ["news"])
        for name in ["", "News", "../main", "a/b", "z_news", "1", ".hidden", String(repeating: "a", count: 64), "ä"] {
            let error = await #expect(throws: TidemarkError.self) { try await directory.makeZone(name) }
            #expect(error?.code == .invalidArgument, "\(name)")
        }
        try await directory.closeAll()
    }

    @Test func `tables and columns that the main zone gains come to the other zones`() async throws {
        let place = try ZonePlace(Self.schema)
        let zone = Self.names[0]
        let first = try place.open()
        try await first.makeZone(zone)
        _ = try await Self.send("one", to: zone, first)
        let change = """
            ALTER TABLE list ADD COLUMN colour TEXT DEFAULT 'red, or (blue)';
            ALTER TABLE list ADD COLUMN place INTEGER;
            CREATE TABLE label (id INTEGER PRIMARY KEY, name TEXT);
            DROP VIEW item_count;
            CREATE VIEW item_count AS SELECT list_id, max(id) AS items FROM item GROUP BY list_id
            """
        try place.write(change, into: "main")
        // The main zone's file is altered while the zone is open: its next request follows.
        _ = try await first.latest(.local("main"))
        _ = try Answer(try await first.sync(.local("main"), body: Array(#"{"maxRevision":1}"#.utf8)))
        let body = #"{"maxRevision":1,"changeSets":[{"list":{"update":[1],"attributes":{"1":{"colour":"blue"}}}}]}"#
        let answer = try Answer(try await first.sync(.local(zone), body: Array(body.utf8)))
        #expect(answer.changeSets.last?.isConflict == false)
        let schemas = try await [first.schema(.local("main")), first.schema(.local(zone))].map { try Answer($0.json) }
        #expect(schemas[0].schema == schemas[1].schema)
        try await first.closeAll()
    }

    @Test func `a zone whose file is missing is not made anew`() async throws {
        let place = try ZonePlace(Self.schema)
        let zone = Self.names[0]
        let first = try place.open()
        try await first.makeZone(zone)
        try await first.closeAll()
        try FileManager.default.removeItem(atPath: place.path(zone))
        let second = try place.open()
        let error = await #expect(throws: TidemarkError.self) { _ = try await second.latest(.local(zone)) }
        #expect(error?.code == .unavailable)
        #expect(!FileManager.default.fileExists(atPath: place.path(zone)))
        try await second.closeAll()
    }

    @Test func `a removed zone's file is gone, and names from a path are no files`() async throws {
        let place = try ZonePlace(Self.schema)
        let directory = try place.open()
        try await directory.makeZone(Self.names[0])
        _ = try await Self.send("one", to: Self.names[0], directory)
        try await directory.removeZone(Self.names[0])
        #expect(!FileManager.default.fileExists(atPath: place.path(Self.names[0])))
        for name in ["../main", "z_../../main", "", "z_", "Z_" + String(repeating: "a", count: 26)] {
            let error = await #expect(throws: TidemarkError.self) { _ = try await directory.schema(.local(name)) }
            #expect(error?.code == .unknownZone)
        }
        try await directory.closeAll()
    }

    @Test func `a snapshot that is sent keeps its zone's file open`() async throws {
        let place = try ZonePlace(Self.schema)
        let directory = try place.open(atMost: 1)
        for zone in Self.names.prefix(2) { try await directory.makeZone(zone) }
        _ = try await Self.send("one", to: Self.names[0], directory)
        let file = try await directory.snapshot(.local(Self.names[0]), since: nil)
        async let other = Self.send("two", to: Self.names[1], directory)
        #expect(FileManager.default.fileExists(atPath: file.path))
        await directory.releaseSnapshot(file)
        #expect(try await other.revisions == [1])
        try await directory.closeAll()
    }
}

extension ZoneDirectory {
    /// Closes all files.
    fileprivate func closeAll() async throws {
        await closeZones()
        try await main.close()
    }
}
