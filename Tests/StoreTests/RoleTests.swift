import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

/// A reader reads everything and changes nothing; a refused write is a conflict that loses nothing.
@Suite(.serialized) struct RoleTests {
    private static let schema = """
        CREATE TABLE list (id INTEGER PRIMARY KEY, title TEXT NOT NULL);
        CREATE TABLE item (
            id INTEGER PRIMARY KEY, list_id INTEGER NOT NULL REFERENCES list (id) ON DELETE CASCADE, text TEXT);
        INSERT INTO list VALUES (1, 'shopping');
        INSERT INTO item VALUES (1, 1, 'milk');
        """

    private static func access(_ role: Role) -> ZoneAccess {
        ZoneAccess(zone: "main", caller: .user(.init(id: role.rawValue)), role: role)
    }

    private static func sync(_ zone: Zone, as role: Role, _ changeSets: String...) async throws -> Answer {
        let list = changeSets.joined(separator: ",")
        let body = #"{"device":"\#(role.rawValue)","maxRevision":1,"changeSets":[\#(list)]}"#
        return try Answer(try await zone.service.sync(access(role), body: Array(body.utf8)))
    }

    /// A change of each kind, and one whose effect is in another table.
    private static let changes = [
        #"{"list":{"create":[-1],"attributes":{"-1":{"title":"party"}}}}"#,
        #"{"list":{"update":[1],"attributes":{"1":{"title":"party"}}}}"#,
        #"{"item":{"delete":[1]}}"#, #"{"list":{"delete":[1]}}"#,
    ]

    @Test(arguments: Store.all, changes)
    func `a reader's change set is parked as forbidden, and changes nothing`(store: Store, change: String) async throws
    {
        let zone = try await Zone(store, Self.schema)
        let before = try await zone.content()
        let answer = try await Self.sync(zone, as: .reader, change)
        #expect(answer.changeSets.map(\.rules) == [["forbidden"]])
        #expect(answer.changeSets.first?.isConflict == true)
        #expect(answer.maxRevision == 1)
        #expect(try await zone.content() == before)
    }

    @Test(arguments: Store.all, [Role.writer, .owner])
    func `a writer and an owner change rows`(store: Store, role: Role) async throws {
        let zone = try await Zone(store, Self.schema)
        #expect(try await Self.sync(zone, as: role, Self.changes[0]).revisions == [2])
    }

    @Test(arguments: Store.all)
    func `the verdict stays when the reader becomes a writer: a retry gets the same answer`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        let id = "6f6d3a4e-0000-4000-8000-000000000001"
        let change = #"{"id":"\#(id)","list":{"update":[1],"attributes":{"1":{"title":"party"}}}}"#
        _ = try await Self.sync(zone, as: .reader, change)
        let body = #"{"device":"reader","maxRevision":1,"changeSets":[\#(change)]}"#
        let promoted = ZoneAccess(zone: "main", caller: .user(.init(id: "reader")), role: .writer)
        let answer = try Answer(try await zone.service.sync(promoted, body: Array(body.utf8)))
        #expect(answer.changeSets.map(\.rules) == [["forbidden"]])
    }

    @Test(arguments: Store.all)
    func `what depends on a reader's change is refused with it, and nothing else is held up`(store: Store) async throws
    {
        let zone = try await Zone(store, Self.schema)
        let first = "6f6d3a4e-0000-4000-8000-000000000001"
        let second = "6f6d3a4e-0000-4000-8000-000000000002"
        let answer = try await Self.sync(
            zone, as: .reader, #"{"id":"\#(first)","list":{"create":[-1],"attributes":{"-1":{"title":"party"}}}}"#,
            #"{"id":"\#(second)","after":"\#(first)","item":{"create":[-2],"attributes":{"-2":{"list_id":-1}}}}"#)
        #expect(answer.changeSets.map(\.rules) == [["forbidden"], ["forbidden"]])
        _ = try await zone.writeOutside("UPDATE item SET text = 'bread'")
        let pull = try await zone.service.sync(
            Self.access(.reader), body: Array(#"{"device":"reader","maxRevision":1}"#.utf8))
        #expect(try Answer(pull).maxRevision == 2)
    }
}
