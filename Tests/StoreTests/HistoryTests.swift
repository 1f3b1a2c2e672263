import StoreTestSupport
import Testing
import TidemarkCore
import TidemarkEngine

/// What operators ask a zone about its past: revisions, a record's history, refused change sets.
@Suite(.serialized) struct HistoryTests {
    private static let schema = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT UNIQUE, town TEXT, goals INTEGER);
        CREATE TABLE seat (row TEXT, place INTEGER, guest TEXT, PRIMARY KEY (row, place));
        INSERT INTO team VALUES (1, 'red', 'Kiel', 3);
        INSERT INTO seat VALUES ('a,b', 7, 'Anna');
        """

    private static let id = "6f6d3a4e-0000-4000-8000-100000000001"

    private static func update(_ zone: Zone, _ table: String, _ key: String, _ values: String) async throws {
        let revision = try await zone.revision()
        let name = key.hasPrefix("[") ? JSONText.quote(key) : "\"\(key)\""
        _ = try await zone.sync(
            at: revision, device: "a", #"{"\#(table)":{"update":[\#(key)],"attributes":{\#(name):\#(values)}}}"#)
    }

    private static func history(_ zone: Zone, _ table: String, _ key: String, _ query: ListQuery.Item...) async throws
        -> String
    {
        try await zone.service.read(
            .local("main"),
            ZoneQuestion { reader in
                let table = try reader.schema.table(table)
                return try RecordHistory(of: table, reader).json(key, PageQuery(query))
            }
        )
    }

    @Test(arguments: Store.all) func `each change of a record comes with the values before and after it`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        try await Self.update(zone, "team", "1", #"{"name":"rot"}"#)
        try await Self.update(zone, "team", "1", #"{"name":"rouge","goals":4}"#)
        try await Self.update(zone, "team", "1", #"{"goals":5}"#)
        let text = try await Self.history(zone, "team", "1")
        #expect(text.contains(#""operation":"update","before":{"goals":4},"after":{"goals":5}"#), "\(text)")
        #expect(text.contains(#""before":{"name":"rot""#), "\(text)")
        #expect(text.contains(#""after":{"name":"rouge","goals":4}"#), "\(text)")
        #expect(text.contains(#""next":null"#))
        let newest = try await Self.history(zone, "team", "1", .init(name: "limit", value: "1"))
        #expect(newest.contains(#""next":4"#), "\(newest)")
        let rest = try await Self.history(zone, "team", "1", .init(name: "before", value: "4"))
        #expect(rest.ranges(of: #""operation""#).count == 2 && rest.contains(#""revision":3,"#), "\(rest)")
    }

    @Test(arguments: Store.all) func `a deleted record keeps its history, and its values before the deletion`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(
            at: 1, device: "a", #"{"team":{"create":[9],"attributes":{"9":{"name":"blue","goals":9007199254740993}}}}"#)
        _ = try await zone.sync(at: 2, device: "a", #"{"team":{"delete":[9]}}"#)
        let text = try await Self.history(zone, "team", "9")
        #expect(
            text.contains(
                #""operation":"delete","before":{"name":"blue","town":null,"goals":{"$int":"9007199254740993"}},"#
                    + #""after":null"#), "\(text)")
        #expect(text.contains(#""operation":"create","before":null"#), "\(text)")
    }

    @Test(arguments: Store.all) func `a record of key columns alone is created, deleted and created again`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, "CREATE TABLE tag (name TEXT PRIMARY KEY NOT NULL)")
        for operation in ["create", "delete", "create", "delete"] {
            let revision = try await zone.revision()
            let attributes = operation == "create" ? #","attributes":{"a":{}}"# : ""
            let answer = try await zone.sync(at: revision, #"{"tag":{"\#(operation)":["a"]\#(attributes)}}"#)
            #expect(answer.changeSets.last?.isConflict == false)
        }
        let text = try await Self.history(zone, "tag", #""a""#)
        #expect(text.ranges(of: #""before":{},"after":null"#).count == 2, "\(text)")
        #expect(text.ranges(of: #""before":null,"after":{}"#).count == 2, "\(text)")
    }

    @Test(arguments: Store.all) func `a composite key with a comma in it has its history`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        try await Self.update(zone, "seat", #"["a,b",7]"#, #"{"guest":"Ben"}"#)
        let text = try await Self.history(zone, "seat", #"["a,b",7]"#)
        #expect(text.contains(#""after":{"guest":"Ben"}"#), "\(text)")
    }

    @Test(arguments: Store.all) func `a record that never was has no history, and a wrong parameter is refused`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        await #expect(throws: TidemarkError.self) { try await Self.history(zone, "team", "77") }
        await #expect(throws: TidemarkError.self) {
            try await Self.history(zone, "team", "1", .init(name: "limit", value: "many"))
        }
    }

    @Test(arguments: Store.all) func `revisions say who changed how many records in each table`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        try await Self.update(zone, "team", "1", #"{"name":"rot"}"#)
        try await zone.writeOutside("INSERT INTO seat VALUES ('c', 1, 'Carl')")
        let list = { (query: [ListQuery.Item]) in
            try await zone.service.read(
                .local("main"), ZoneQuestion { try ListRevisions($0).json(PageQuery(query)) })
        }
        let all = try await list([])
        #expect(all.contains(#""revision":3,"horizon":"#), "\(all)")
        #expect(all.contains(#""tables":{"seat":{"created":1,"updated":0,"deleted":0}}"#), "\(all)")
        #expect(all.contains(#""device":"a","#), "\(all)")
        let teams = try await list([.init(name: "table", value: "team")])
        #expect(teams.contains(#""team":{"#) && !teams.contains(#""seat":{"#), "\(teams)")
        let ofA = try await list([.init(name: "author", value: "a")])
        #expect(ofA.contains(#""revision":2,"committed""#) && !ofA.contains(#""revision":3,"committed""#), "\(ofA)")
        // A client without rows is no device, and no program that writes into the database either.
        _ = try await zone.sync(
            at: 3, #"{"id":"\#(Self.id)","team":{"update":[1],"attributes":{"1":{"name":"blau"}}}}"#)
        let sources = try await list([]).matches(of: /"revision":(\d+),"committed":[^,]*,"source":"(\w+)"/)
        #expect(sources.map { "\($0.output.1) \($0.output.2)" } == ["4 client", "3 program", "2 device"])
        let one = try await zone.service.read(.local("main"), ZoneQuestion { try ListRevisions($0).json(2) })
        #expect(one.contains(#""attributes":{"1":{"revision":2,"name":"rot"}}"#), "\(one)")
    }

    @Test(arguments: Store.all) func `a refused change set is listed with its reasons and the server's record`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        try await Self.update(zone, "team", "1", #"{"name":"rot"}"#)
        let id = Self.id
        _ = try await zone.sync(
            at: 1, device: "b", #"{"id":"\#(id)","team":{"update":[1],"attributes":{"1":{"name":"blue"}}}}"#)
        let text = try await zone.service.read(
            .local("main"), ZoneQuestion { try ListConflicts($0).json(PageQuery([])) })
        #expect(text.contains(#""id":"\#(id)","device":"b""#), "\(text)")
        #expect(text.contains(#""rule":"changed""#), "\(text)")
        #expect(text.contains(#""theirs":{"name":"rot","town":"Kiel","goals":3}"#), "\(text)")
    }

    @Test(arguments: Store.all)
    func `a record has changed 1,500 times since a refused change: its list ends, and knows the first change`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        let sets = (1...500).map { #"{"team":{"update":[1],"attributes":{"1":{"goals":\#($0)}}}}"# }
        for _ in 1...3 {
            let revision = try await zone.revision()
            _ = try await zone.bytes(#"{"maxRevision":\#(revision),"changeSets":[\#(sets.joined(separator: ","))]}"#)
        }
        _ = try await zone.sync(
            at: 1, device: "b", #"{"id":"\#(Self.id)","team":{"update":[1],"attributes":{"1":{"goals":-1}}}}"#)
        let text = try await zone.service.read(
            .local("main"), ZoneQuestion { try ListConflicts($0).json(PageQuery([])) })
        #expect(text.contains(#""base":{"goals":3},"mine""#), "\(text)")
        let page = try await Self.history(
            zone, "team", "1", .init(name: "before", value: "100"), .init(name: "limit", value: "1"))
        #expect(
            page.contains(#""revision":99,"#) && page.contains(#""before":{"goals":97},"after":{"goals":98}"#),
            "\(page)")
    }

    @Test(arguments: Store.all)
    func `a refused change names the record that its author had seen, also columns that nobody has changed`(
        store: Store
    ) async throws {
        let zone = try await Zone(store, Self.schema)
        try await Self.update(zone, "team", "1", #"{"name":"rot"}"#)
        _ = try await zone.sync(
            at: 1, device: "b",
            #"{"id":"\#(Self.id)","team":{"update":[1],"attributes":{"1":{"name":"blue","town":null}}}}"#)
        // What happened after the refusal is no part of it.
        try await Self.update(zone, "team", "1", #"{"town":"Lemgo"}"#)
        let text = try await zone.service.read(
            .local("main"), ZoneQuestion { try ListConflicts($0).json(PageQuery([])) })
        let base = #""base":{"name":"red","town":"Kiel","goals":3},"mine":{"id":1,"name":"blue","town":null}"#
        #expect(text.contains(base), "\(text)")
    }
}
