import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

/// E5: a user's device that is forgotten leaves no note behind, and takes a new identity if it comes back.
@Suite(.serialized) struct ForgetDeviceTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
        INSERT INTO note VALUES (1, 'first');
        """
    private static let nonces = (1...3).map { "11111111-0000-4000-8000-00000000000\($0)" }
    private static let set = "6f6d3a4e-0000-4000-8000-000000000001"

    private static func sync(_ zone: Zone, as user: String, device: String, _ members: String) async throws -> Answer {
        let access = ZoneAccess(zone: "main", caller: .user(.init(id: user)), role: .writer)
        let body = #"{"device":"\#(device)",\#(members)}"#
        return try Answer(try await zone.service.sync(access, body: Array(body.utf8)))
    }

    private static func edit(_ text: String, id: String = set) -> String {
        #"{"id":"\#(id)","note":{"update":[1],"attributes":{"1":{"text":"\#(text)"}}}}"#
    }

    private static func lap(_ last: Int?, _ next: Int) -> String {
        #""lap":{"last":\#(last.map { "\"\(nonces[$0])\"" } ?? "null"),"open":[],"next":"\#(nonces[next])"}"#
    }

    /// A zone in which a value of Anna's phone was overruled, so that a note waits for the phone.
    private static func zone(_ store: Store) async throws -> Zone {
        let zone = try await Zone(store, schema, policies: ["note": .lastWriter])
        let first = #""maxRevision":1,\#(lap(nil, 0)),"changeSets":[\#(edit("anna's"))]"#
        _ = try await sync(zone, as: "anna", device: "phone", first)
        let other = #""maxRevision":1,"changeSets":[\#(edit("ben's", id: "6f6d3a4e-0000-4000-8000-000000000002"))]"#
        _ = try await sync(zone, as: "ben", device: "laptop", other)
        #expect(try await zone.column("SELECT device FROM tidemark_overruled") == ["phone"])
        return zone
    }

    @Test(arguments: Store.all)
    func `its notes go, and it is told to take a new identity, whatever it sends next`(store: Store) async throws {
        let zone = try await Self.zone(store)
        try await zone.service.forget(device: "phone", of: "anna", in: ["main", "nowhere"])
        #expect(try await zone.column("SELECT device FROM tidemark_overruled").isEmpty)
        for lap in [Self.lap(0, 1), Self.lap(nil, 1), Self.lap(nil, 0), Self.lap(0, 0)] {
            let error = await #expect(throws: TidemarkError.self) {
                _ = try await Self.sync(zone, as: "anna", device: "phone", #""maxRevision":3,\#(lap)"#)
            }
            #expect(error?.code == .identityInUse && error?.recovery == .renew, "\(lap)")
        }
        // It stays Anna's, so nobody takes the ids that it made before.
        let error = await #expect(throws: TidemarkError.self) {
            _ = try await Self.sync(zone, as: "ben", device: "phone", #""maxRevision":3,\#(Self.lap(nil, 2))"#)
        }
        #expect(error?.code == .deviceTaken)
        // Under its new identity it sends the same change set, which is not done twice.
        let again = #""maxRevision":3,"changeSets":[\#(Self.edit("anna's"))]"#
        let answer = try await Self.sync(zone, as: "anna", device: "phone-2", again)
        #expect(answer.revisions == [2])
        #expect(answer.maxRevision == 3)
    }

    @Test(arguments: Store.all)
    func `another user forgets nothing of it, and another device keeps its notes`(store: Store) async throws {
        let zone = try await Self.zone(store)
        let before = try await zone.content()
        try await zone.service.forget(device: "phone", of: "ben", in: ["main"])
        try await zone.service.forget(device: "laptop", of: "anna", in: ["main"])
        try await zone.service.forget(device: "phone", of: "anna", in: [])
        #expect(try await zone.content() == before)
        #expect(try await zone.column("SELECT device FROM tidemark_overruled") == ["phone"])
        let next = #""maxRevision":2,\#(Self.lap(0, 1))"#
        let answer = try await Self.sync(zone, as: "anna", device: "phone", next)
        #expect((answer.object["overruled"] as? [Any])?.count == 1)
    }

    @Test(arguments: Store.all)
    func `its tokens end with their chains, those of other devices and users stay`(store: Store) async throws {
        let (bench, place) = try await AccessPlace.bench(store)
        try await bench.add("anna", "ben")
        let phone = try await bench.device("phone", of: "anna")
        #expect(try await bench.user(phone) == "anna")
        let successor = try await bench.gate.exchange(phone, device: "phone").token
        let laptop = try await bench.device("laptop", of: "anna")
        let bens = try await bench.device("phone", of: "ben")
        #expect(try await bench.gate.signOut(device: "phone", of: "anna") == ["main"])
        for token in [phone, successor] { #expect(try await bench.user(token) == nil) }
        #expect(try await bench.user(laptop) == "anna")
        #expect(try await bench.user(bens) == "ben")
        #expect(try await bench.audit().suffix(2) == ["tokenRevoked", "deviceForgotten"])
        #expect(try await bench.gate.account(of: "anna").devices.map(\.device) == ["laptop"])
        let count = try await bench.audit().count
        _ = try await bench.gate.signOut(device: "phone", of: "anna")
        #expect(try await bench.audit().count == count)
        withExtendedLifetime(place) {}
    }
}
