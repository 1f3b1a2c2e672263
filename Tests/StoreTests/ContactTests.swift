import Foundation
import GRDB
import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkGzip
import TidemarkTestSupport

/// An operator sees which devices a zone has, and no request of a device pays for that with a write.
@Suite(.serialized) struct ContactTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO note VALUES (1, 'milk');
        """
    private static let day = Int64(86_400_000)

    private static func access(_ user: String?, name: String? = nil) -> ZoneAccess {
        var access = ZoneAccess(zone: "main", caller: user.map { .user(.init(id: $0)) } ?? .local, role: .owner)
        access.deviceName = name
        return access
    }

    @discardableResult private static func sync(_ zone: Zone, _ access: ZoneAccess, device: String, _ members: String)
        async throws -> Answer
    {
        let body = #"{"device":"\#(device)",\#(members)}"#
        return try Answer(try await zone.service.sync(access, body: Array(body.utf8)))
    }

    /// The table of devices: device, name, user, first and last contact in days since a time, and revision.
    private static func contacts(_ zone: Zone, since start: Int64) async throws -> [String] {
        try await zone.column(
            """
            SELECT device || '|' || coalesce(name, '-') || '|' || coalesce(user_id, '-')
                || '|' || ((first - \(start)) / \(day)) || '|' || ((last - \(start)) / \(day))
                || '|' || coalesce(CAST(revision AS TEXT), '-')
            FROM tidemark_contact
            ORDER BY device
            """
        )
    }

    @Test(arguments: Store.all)
    func `pushes and pulls of three devices write no contact; the server writes them later, in one statement`(
        store: Store
    ) async throws {
        let clock = TestClock()
        let start = clock.now
        let zone = try await Zone(store, Self.schema, now: { clock.now })
        let edit = #""maxRevision":1,"changeSets":[{"note":{"update":[1],"attributes":{"1":{"text":"tea"}}}}]"#
        try await Self.sync(zone, Self.access("anna", name: "Anna's iPhone"), device: "phone", edit)
        let pull = try await Self.sync(zone, Self.access("ben"), device: "laptop", #""maxRevision":1,"changeSets":[]"#)
        let tag = ZoneTag(
            epoch: try #require(pull.epoch), schema: try #require(pull.schema), revision: 2,
            fingerprint: try #require((pull.object["fingerprint"] as? String).flatMap(Fingerprint.init(hex:))))
        let news = try await zone.service.news(Self.access("cleo"), device: "tablet", since: tag)
        #expect(news == .nothing)
        #expect(try await Self.contacts(zone, since: start).isEmpty)
        try await zone.service.keepContacts()
        #expect(
            try await Self.contacts(zone, since: start) == [
                "laptop|-|ben|0|0|2", "phone|Anna's iPhone|anna|0|0|2", "tablet|-|cleo|0|0|2",
            ]
        )

        clock.advance(days: 1)
        try await zone.service.keepContacts()
        try await zone.writeOutside("UPDATE note SET text = 'coffee'")
        let later = #""maxRevision":2,"changeSets":[]"#
        try await Self.sync(zone, Self.access("anna", name: "Phone of \"A\""), device: "phone", later)
        zone.service.contacts.record("laptop", Self.access("ben"), at: nil)
        try await zone.service.keepContacts()
        #expect(
            try await Self.contacts(zone, since: start) == [
                "laptop|-|ben|0|1|2", "phone|Phone of \"A\"|anna|0|1|3", "tablet|-|cleo|0|0|2",
            ]
        )
    }

    @Test(arguments: Store.all)
    func `an owner forgets a device of another user, whose contact and notes go`(store: Store) async throws {
        let clock = TestClock()
        let zone = try await Zone(store, Self.schema, now: { clock.now })
        let lap = #""lap":{"last":null,"open":[],"next":"11111111-0000-4000-8000-000000000001"}"#
        try await Self.sync(zone, Self.access("anna"), device: "phone", #""maxRevision":1,\#(lap),"changeSets":[]"#)
        try await zone.service.keepContacts()
        try await Self.sync(zone, Self.access("anna"), device: "phone", #""maxRevision":1,"changeSets":[]"#)
        try await zone.service.forget(device: "phone", of: "ben", in: ["main"])
        try await zone.service.keepContacts()
        #expect(try await Self.contacts(zone, since: clock.now) == ["phone|-|anna|0|0|1"])

        try await Self.sync(zone, Self.access("anna"), device: "phone", #""maxRevision":1,"changeSets":[]"#)
        try await zone.service.forgetDevice(Self.access("ben"), device: "phone")
        try await zone.service.keepContacts()
        #expect(try await Self.contacts(zone, since: clock.now).isEmpty)
        let again = #""maxRevision":1,\#(lap),"changeSets":[]"#
        let error = await #expect(throws: TidemarkError.self) {
            try await Self.sync(zone, Self.access("anna"), device: "phone", again)
        }
        #expect(error?.code == .identityInUse)
    }

    /// The list of devices: device and user.
    private static func devices(_ zone: Zone) async throws -> [String] {
        let contacts = zone.service.contacts.contacts(of: "main")
        let text = try await zone.ask { try $0.devicesJSON(contacts) }
        let object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
        let devices = try #require(object?["devices"] as? [[String: Any]])
        return devices.map { "\($0["device"] ?? "")|\($0["name"] ?? "")|\($0["user"] ?? "")" }.sorted()
    }

    @Test(arguments: Store.all, [true, false])
    func `the entry of a device stays its user's, whatever requests another member makes up`(
        store: Store, isWritten: Bool
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let lap = #""lap":{"last":null,"open":[],"next":"11111111-0000-4000-8000-000000000001"}"#
        let pull = #""maxRevision":1,"changeSets":[]"#
        try await Self.sync(zone, Self.access("ben", name: "Ben's phone"), device: "phone", "\(lap),\(pull)")
        try await Self.sync(zone, Self.access("ben", name: "Ben's tablet"), device: "tablet", pull)
        if isWritten { try await zone.service.keepContacts() }
        for device in ["phone", "tablet"] {
            zone.service.contacts.record(device, Self.access("cara", name: "stolen"), at: nil)
            let expected = ["phone|Ben's phone|ben", "tablet|Ben's tablet|ben"]
            #expect(try await Self.devices(zone) == expected)
            try await zone.service.keepContacts()
            #expect(try await Self.devices(zone) == expected)
            try await zone.service.forget(device: device, of: "cara", in: ["main"])
            #expect(try await Self.devices(zone) == expected)
        }
    }

    @Test(arguments: Store.all)
    func `a user who makes devices up pushes out own devices only, the oldest first`(store: Store) async throws {
        let clock = TestClock()
        let zone = try await Zone(store, Self.schema, now: { clock.now })
        zone.service.contacts.record("bens", Self.access("ben"), at: 1)
        zone.service.contacts.record("oldest", Self.access("cara"), at: 1)
        try await zone.service.keepContacts()
        clock.advance(days: 1)
        for number in 0..<DeviceContact.devicesPerUserMax {
            zone.service.contacts.record("made up \(number)", Self.access("cara"), at: 1)
        }
        try await zone.service.keepContacts()
        let devices = try await Self.devices(zone)
        #expect(devices.count == DeviceContact.devicesPerUserMax + 1)
        #expect(devices.contains { $0.hasPrefix("bens|") } && !devices.contains { $0.hasPrefix("oldest|") })
    }

    @Test(arguments: Store.all)
    func `a forgotten device that comes back under its former id is not in the list`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        let lap = #""lap":{"last":null,"open":[],"next":"11111111-0000-4000-8000-000000000001"}"#
        try await Self.sync(zone, Self.access("ben"), device: "phone", #"\#(lap),"maxRevision":1,"changeSets":[]"#)
        try await zone.service.keepContacts()
        try await zone.service.forgetDevice(Self.access("anna"), device: "phone")
        // Its open stream, and its question whether there is news.
        zone.service.contacts.record("phone", Self.access("ben"), at: 1)
        #expect(try await Self.devices(zone).isEmpty)
        try await zone.service.keepContacts()
        #expect(try await Self.devices(zone).isEmpty)
        try await Self.sync(zone, Self.access("ben"), device: "phone-2", #""maxRevision":1,"changeSets":[]"#)
        #expect(try await Self.devices(zone).map { $0.prefix(8) } == ["phone-2|"])
    }

    @Test(arguments: Store.all)
    func `a forgotten device that only asks for news is told to take a new identity, so that the list has it again`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let lap = #""lap":{"last":null,"open":[],"next":"11111111-0000-4000-8000-000000000001"}"#
        let first = try await Self.sync(
            zone, Self.access("ben"), device: "phone", #"\#(lap),"maxRevision":1,"changeSets":[]"#)
        let tag = ZoneTag(
            epoch: try #require(first.epoch), schema: try #require(first.schema), revision: 1,
            fingerprint: try #require((first.object["fingerprint"] as? String).flatMap(Fingerprint.init(hex:))))
        #expect(try await zone.service.news(Self.access("ben"), device: "phone", since: tag) == .nothing)
        try await zone.service.forgetDevice(Self.access("anna"), device: "phone")
        // The device then sends a full request.
        #expect(try await zone.service.news(Self.access("ben"), device: "phone", since: tag) == nil)
        let error = await #expect(throws: TidemarkError.self) {
            let settled = #""settled":true,"maxRevision":1,"changeSets":[]"#
            try await Self.sync(zone, Self.access("ben"), device: "phone", settled)
        }
        #expect(error?.code == .identityInUse)
        #expect(try await zone.service.news(Self.access("ben"), device: "laptop", since: tag) == .nothing)
    }

    @Test(arguments: Store.all)
    func `an operator looks right after a request: the list has the device before its contact is written`(store: Store)
        async throws
    {
        let clock = TestClock()
        let zone = try await Zone(store, Self.schema, now: { clock.now })
        func list() async throws -> String {
            let contacts = zone.service.contacts.contacts(of: "main")
            return try await zone.ask { try $0.devicesJSON(contacts) }
        }
        try await Self.sync(
            zone, Self.access("anna", name: "old"), device: "phone", #""maxRevision":1,"changeSets":[]"#)
        let first = try await list()
        #expect(first.contains(#""device":"phone","name":"old","user":"anna","revision":1,"lag":0"#))
        try await zone.service.keepContacts()
        #expect(try await list() == first)
        clock.advance(days: 1)
        try await Self.sync(
            zone, Self.access("anna", name: "new"), device: "phone", #""maxRevision":1,"changeSets":[]"#)
        let second = try await list()
        #expect(second.contains(#""name":"new""#))
        #expect(second.contains(#""count":1"#))
        try await zone.service.keepContacts()
        #expect(try await list() == second)
    }

    @Test(arguments: Store.all)
    func `a snapshot for a new device has no table of devices`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        try await Self.sync(zone, Self.access(nil), device: "phone", #""maxRevision":1,"changeSets":[]"#)
        try await zone.service.keepContacts()
        let file = try await zone.service.snapshot(zone: "main", since: nil)
        let plain = FileManager.default.temporaryDirectory.appending(path: "snapshot-\(UUID())").path
        try GzipFile.decompress(file.path, to: plain, bytesMax: 1 << 20)
        await zone.service.releaseSnapshot(file)
        let tables = try await DatabaseQueue(path: plain).read {
            try String.fetchAll($0, sql: "SELECT name FROM sqlite_master")
        }
        try FileManager.default.removeItem(atPath: plain)
        #expect(tables.contains("note"))
        #expect(!tables.contains { $0.contains("contact") })
    }

    @Test func `more devices than fit; the one whose contact is the oldest makes room`() {
        let clock = TestClock()
        let book = ContactBook(devicesMax: 2, now: { clock.now })
        for device in ["a", "b", "a", "c"] { book.record(device, .local("main"), at: 1) }
        #expect(book.take().map(\.device) == ["a", "c"])
        #expect(book.take().isEmpty)
    }

    @Test func `a stranger at a server with users, and an unusable device id, leave no contact`() {
        let book = ContactBook(now: { 0 })
        book.record("a", ZoneAccess(zone: "main", caller: .anonymous, role: .reader), at: 1)
        book.record(String(repeating: "a", count: 256), .local("main"), at: 1)
        book.record("a\0", .local("main"), at: 1)
        #expect(book.take().isEmpty)
    }

    @Test func `the file could not be written; the contacts wait for the next time, and later ones count`() {
        let clock = TestClock()
        let book = ContactBook(now: { clock.now })
        let start = clock.now
        book.record("a", Self.access(nil, name: "old"), at: 1)
        let unwritten = book.take()
        clock.advance(days: 1)
        book.record("a", Self.access(nil, name: "new"), at: nil)
        book.putBack(unwritten)
        let contact = book.take().first
        #expect(contact?.name == "new" && contact?.revision == 1)
        #expect(contact?.first == start && contact?.last == start + Self.day)
    }
}
