import StoreTestSupport
import Testing
import TidemarkCore

/// The wire form of tables and columns that are named like the protocol's own members.
@Suite struct ReservedNameTests {
    private static let schema = """
        CREATE TABLE revision (id INTEGER PRIMARY KEY, revision TEXT, "create" TEXT, "=x" TEXT);
        CREATE TABLE types (id INTEGER PRIMARY KEY, revision_id INTEGER REFERENCES revision);
        """
    private static let creation = """
        {"types":["=revision","=types"],\
        "=revision":{"create":[-1],"attributes":{"-1":{"=revision":"a","create":"b","==x":"c"}}},\
        "=types":{"create":[-1],"attributes":{"-1":{"revision_id":-1}}}}
        """

    @Test(arguments: Store.all)
    func `a client writes = before a reserved name, and reads it in answers`(kind: Store) async throws {
        let zone = try await Zone(kind, Self.schema)
        #expect(try await zone.sync(at: 0, device: "d", Self.creation).changeSets[0].revision == 1)
        let change = """
            {"types":["=revision"],"=revision":{"update":[1],"attributes":{"1":{"revision":1,"=revision":"new"}}}}
            """
        #expect(try await zone.sync(at: 1, change).changeSets[0].revision == 2)
        let answer = try await zone.sync(at: 0)
        #expect(answer.changeSets.map(\.types) == [["=revision", "=types"], ["=revision"]])
        let created = answer.changeSets[0].attributes("=revision", "1")
        #expect(created?["=revision"] as? String == "a")
        #expect(created?["create"] as? String == "b")
        #expect(created?["==x"] as? String == "c")
        #expect(answer.changeSets[1].attributes("=revision", "1")?["=revision"] as? String == "new")
        #expect(answer.changeSets[0].attributes("=types", "1")?["revision_id"] as? Int == 1)
        #expect(try await zone.column("SELECT revision FROM revision") == ["new"])
    }

    @Test(arguments: Store.all)
    func `a change to the column revision contends with another one by name`(kind: Store) async throws {
        let zone = try await Zone(kind, Self.schema, policies: ["revision": .columns])
        _ = try await zone.sync(at: 0, device: "d", Self.creation)
        let write = { (column: String, value: String) in
            """
            {"types":["=revision"],"=revision":{"update":[1],"attributes":{"1":{"\(column)":"\(value)"}}}}
            """
        }
        #expect(try await zone.sync(at: 1, write("=revision", "x")).changeSets[0].revision == 2)
        #expect(try await zone.sync(at: 1, write("create", "y")).changeSets.contains { $0.revision == 3 })
        let conflict = try await zone.sync(at: 1, write("=revision", "z")).changeSets.first { $0.isConflict == true }
        #expect(conflict?.reasons.first?["columns"] as? [String] == ["revision"])
        #expect(conflict?.reasons.first?["table"] as? String == "revision")
        #expect(conflict?.attributes("=revision", "1")?["=revision"] as? String == "x")
    }

    @Test(arguments: Store.all)
    func `a reserved name without its = is refused`(kind: Store) async throws {
        let zone = try await Zone(kind, Self.schema)
        for body in [
            #"{"types":["revision"],"revision":{"create":[-1]}}"#,
            #"{"types":["=revision"],"=revision":{"create":[-1],"attributes":{"-1":{"=create":"b"}}}}"#,
            #"{"types":["=revision"],"=revision":{"create":[-1],"attributes":{"-1":{"=x":"c"}}}}"#,
        ] { #expect(try await zone.refusal(of: #"{"maxRevision":0,"changeSets":[\#(body)]}"#) != nil, "\(body)") }
        #expect(try await zone.revision() == 0)
    }
}
