import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

/// A device id belongs to one user: it is in each request and in logs, so it must not work as a password.
@Suite(.serialized) struct DeviceOwnerTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO note VALUES (1, 'first');
        """
    private static let device = "0c9a5f0e-1111-4222-8333-444455556666"
    private static let nonces = ["11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"]
    private static let firstLap = #""lap":{"last":null,"open":[],"next":"\#(nonces[0])"}"#
    private static let secondLap = #""lap":{"last":"\#(nonces[0])","open":[],"next":"\#(nonces[1])"}"#
    private static let set = "6f6d3a4e-0000-4000-8000-000000000001"

    private static func access(_ user: String, role: Role = .writer) -> ZoneAccess {
        ZoneAccess(zone: "main", caller: .user(.init(id: user)), role: role)
    }

    private static func sync(_ zone: Zone, as user: String, _ members: String) async throws -> Answer {
        let body = #"{"device":"\#(device)",\#(members)}"#
        return try Answer(try await zone.service.sync(access(user), body: Array(body.utf8)))
    }

    private static func create(_ temporaryID: Int, id: String = set) -> String {
        #"{"id":"\#(id)","note":{"create":[\#(temporaryID)],"attributes":{"\#(temporaryID)":{"text":"mine"}}}}"#
    }

    private static func edit(_ text: String) -> String {
        #"{"note":{"update":[1],"attributes":{"1":{"text":"\#(text)"}}}}"#
    }

    private static func code(_ body: () async throws -> Answer) async -> ErrorCode? {
        do {
            _ = try await body()
            return nil
        } catch { return (error as? TidemarkError)?.code }
    }

    @Test(arguments: Store.all)
    func `a change set in the name of another user's device is refused whole`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await Self.sync(zone, as: "anna", #""maxRevision":1,"changeSets":[\#(Self.edit("anna's"))]"#)
        let before = try await zone.content()
        let code = await Self.code {
            try await Self.sync(zone, as: "ben", #""maxRevision":2,"changeSets":[\#(Self.create(-1))]"#)
        }
        #expect(code == .deviceTaken)
        #expect(try await zone.content() == before)
        // The refusal harmed nothing: the device's user goes on.
        let answer = try await Self.sync(zone, as: "anna", #""maxRevision":2,"changeSets":[\#(Self.create(-1))]"#)
        #expect(answer.revisions == [3])
    }

    @Test(arguments: Store.all)
    func `another user can neither read nor delete the note about an overruled value`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema, policies: ["note": .lastWriter])
        _ = try await Self.sync(zone, as: "anna", #""maxRevision":1,"changeSets":[\#(Self.edit("anna's"))]"#)
        let other = #"{"maxRevision":1,"device":"b","changeSets":[\#(Self.edit("ben's"))]}"#
        _ = try await zone.service.sync(Self.access("ben"), body: Array(other.utf8))
        for members in [
            #""maxRevision":3,"overruled":9"#, #""maxRevision":3,"overruled":9,"changeSets":[]"#,
            #""maxRevision":3,"recall":[],"known":[]"#,
        ] {
            #expect(await Self.code { try await Self.sync(zone, as: "ben", members) } == .deviceTaken)
        }
        let answer = try await Self.sync(zone, as: "anna", #""maxRevision":2"#)
        #expect((answer.object["overruled"] as? [Any])?.count == 1)
    }

    @Test(arguments: Store.all)
    func `a change set's verdict is given to its user only, on each of the user's devices`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        let request = #""maxRevision":1,"changeSets":[\#(Self.create(-1))]"#
        _ = try await Self.sync(zone, as: "anna", request)
        let replay = Array(#"{"device":"other",\#(request)}"#.utf8)
        let code = await Self.code { try Answer(try await zone.service.sync(Self.access("ben"), body: replay)) }
        #expect(code == .changeSetIdReused)
        let question = Array(#"{"maxRevision":1,"device":"other","recall":["\#(Self.set)"],"known":[]}"#.utf8)
        let answer = try Answer(try await zone.service.sync(Self.access("ben"), body: question))
        #expect(answer.changeSets.isEmpty)
        // Ben's device is his own by now; Anna's new phone has an id of its own.
        let phone = Array(#"{"device":"phone",\#(request)}"#.utf8)
        #expect(try Answer(try await zone.service.sync(Self.access("anna"), body: phone)).revisions == [2])
        let recall = Array(#"{"maxRevision":1,"device":"phone","recall":["\#(Self.set)"],"known":[]}"#.utf8)
        #expect(try Answer(try await zone.service.sync(Self.access("anna"), body: recall)).revisions == [2])
    }

    @Test(arguments: Store.all)
    func `of two users' first requests with one device id, the first one owns it`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        let first = #"{"device":"d","maxRevision":1,"changeSets":[\#(Self.edit("anna's"))]}"#
        let second = #"{"device":"d","maxRevision":1,"changeSets":[\#(Self.create(-1))]}"#
        async let anna = zone.service.sync(Self.access("anna"), body: Array(first.utf8))
        let annas = try Answer(try await anna)
        #expect(annas.revisions == [2])
        let code = await Self.code {
            try Answer(try await zone.service.sync(Self.access("ben"), body: Array(second.utf8)))
        }
        #expect(code == .deviceTaken)
    }

    @Test(arguments: Store.all)
    func `a device from before the server had users belongs to the first user who signs in on it`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let body = #"{"device":"\#(Self.device)","maxRevision":1,\#(Self.firstLap),"changeSets":[\#(Self.create(-1))]}"#
        _ = try await zone.sync(body)
        let next = #""maxRevision":2,\#(Self.secondLap),"changeSets":[\#(Self.edit("anna's"))]"#
        #expect(try await Self.sync(zone, as: "anna", next).revisions == [3])
        let foreign = #""maxRevision":3,"changeSets":[\#(Self.edit("ben's"))]"#
        #expect(await Self.code { try await Self.sync(zone, as: "ben", foreign) } == .deviceTaken)
    }

    @Test(arguments: Store.all)
    func `a request without a session nonce does not lock the device out of its next one`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await Self.sync(zone, as: "anna", #""maxRevision":1,"changeSets":[\#(Self.edit("one"))]"#)
        let withLap = #""maxRevision":2,\#(Self.firstLap),"changeSets":[\#(Self.edit("two"))]"#
        #expect(try await Self.sync(zone, as: "anna", withLap).revisions == [3])
    }

    @Test(arguments: Store.all)
    func `the log knows the user of each revision`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await Self.sync(zone, as: "anna", #""maxRevision":1,"changeSets":[\#(Self.edit("anna's"))]"#)
        let body = #"{"maxRevision":2,"changeSets":[\#(Self.edit("ben's"))]}"#
        _ = try await zone.service.sync(Self.access("ben"), body: Array(body.utf8))
        #expect(try await zone.column("SELECT user_id FROM tidemark_revision ORDER BY revision") == ["anna", "ben"])
    }

    @Test(arguments: Store.all)
    func `an anonymous reader has no device: nothing is kept under the id that it sends`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        let reader = ZoneAccess(zone: "main", caller: .anonymous, role: .reader)
        let body = #"{"device":"\#(Self.device)","maxRevision":1,\#(Self.firstLap)}"#
        #expect(try Answer(try await zone.service.sync(reader, body: Array(body.utf8))).maxRevision == 1)
        #expect(try await zone.column("SELECT device FROM tidemark_lap").isEmpty)
    }
}
