import StoreTestSupport
import Testing
import TidemarkCore

/// An entry of the log keeps the values that its change replaced, so that a record's past follows from its row.
@Suite(.serialized) struct ReplacedValueTests {
    private static let schema = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT, done INTEGER, size REAL);
        CREATE TABLE other (id INTEGER PRIMARY KEY, n INTEGER);
        INSERT INTO note VALUES (1, 'milk', 0, 0.1), (2, 'bread, "old"', 0, 1e300), (3, NULL, NULL, NULL);
        INSERT INTO other VALUES (1, 0);
        """

    private static func edit(_ id: Int, _ attributes: String) -> String {
        #"{"note":{"update":[\#(id)],"attributes":{"\#(id)":{\#(attributes)}}}}"#
    }

    private static func request(at revision: Int64, _ set: String) -> String {
        #"{"maxRevision":\#(revision),"changeSets":[\#(set)]}"#
    }

    /// The entries of a record, oldest first: operation and replaced values.
    private static func entries(_ zone: Zone, _ key: Int) async throws -> [String] {
        try await zone.column(
            """
            SELECT operation || ' ' || coalesce(replaced, '-')
            FROM tidemark_log
            WHERE tbl = 'note' AND key = '\(key)'
            ORDER BY revision
            """
        )
    }

    @Test(arguments: Store.all)
    func `an adopted record changes and is deleted; each entry has the values before it`(store: Store)
        async throws
    {
        let zone = try await Zone(store, Self.schema)
        let sets = [
            Self.edit(1, #""text":"tea""#), Self.edit(1, #""text":"rum","done":1"#), Self.edit(1, #""done":2"#),
            #"{"note":{"delete":[1]}}"#, #"{"note":{"delete":[2]}}"#,
        ]
        for (number, set) in sets.enumerated() { _ = try await zone.sync(at: Int64(number + 1), set) }
        #expect(
            try await Self.entries(zone, 1) == [
                #"update {"text":"milk"}"#, #"update {"text":"tea","done":0}"#, #"update {"done":1}"#,
                #"delete {"text":"rum","done":2,"size":0.1}"#,
            ]
        )
        #expect(try await Self.entries(zone, 2) == [#"delete {"text":"bread, \"old\"","done":0,"size":1e+300}"#])
    }

    @Test(arguments: Store.all)
    func `a group, another program and a request alone keep the same values`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.together([
            Self.request(at: 1, Self.edit(1, #""text":"tea""#)), Self.request(at: 1, Self.edit(2, #""done":1"#)),
        ])
        try await zone.writeOutside("UPDATE note SET text = 'x', done = 1 WHERE id IN (1, 3)")
        try await zone.service.look(zone: "main")
        _ = try await zone.sync(at: 4, #"{"note":{"delete":[3]}}"#)
        #expect(
            try await Self.entries(zone, 1) == [#"update {"text":"milk"}"#, #"update {"text":"tea","done":0}"#])
        #expect(try await Self.entries(zone, 2) == [#"update {"done":0}"#])
        #expect(
            try await Self.entries(zone, 3) == [
                #"update {"text":null,"done":null}"#, #"delete {"text":"x","done":1,"size":null}"#,
            ])
    }

    @Test(arguments: Store.all)
    func `a record is created, changed and deleted; only its creation replaced nothing`(store: Store) async throws {
        let zone = try await Zone(store, Self.schema)
        _ = try await zone.sync(at: 1, #"{"note":{"create":[-1],"attributes":{"-1":{"text":"new"}}}}"#)
        _ = try await zone.sync(at: 2, Self.edit(4, #""text":"newer""#))
        _ = try await zone.sync(at: 3, #"{"note":{"delete":[4]}}"#)
        #expect(
            try await Self.entries(zone, 4) == [
                "create -", #"update {"text":"new"}"#, #"delete {"text":"newer","done":null,"size":null}"#,
            ])
        _ = try await zone.sync(at: 4, #"{"note":{"delete":[1]}}"#)
        try await zone.writeOutside("INSERT INTO note VALUES (1, 'again', 1, 1)")
        try await zone.service.look(zone: "main")
        _ = try await zone.sync(at: 6, Self.edit(1, #""text":"x""#))
        #expect(
            try await Self.entries(zone, 1) == [
                #"delete {"text":"milk","done":0,"size":0.1}"#, "create -", #"update {"text":"again"}"#,
            ]
        )
    }

    @Test(arguments: Store.all)
    func `the log is compacted; an entry that stays keeps its values`(store: Store) async throws {
        var limits = Limits.standard
        limits.revisionsKept = 1
        limits.compactionStepMin = 1
        let zone = try await Zone(store, Self.schema, limits: limits)
        _ = try await zone.sync(at: 1, Self.edit(1, #""text":"tea""#))
        _ = try await zone.sync(at: 2, Self.edit(1, #""done":1"#))
        _ = try await zone.sync(at: 3, Self.edit(1, #""text":"rum""#))
        for revision in 4...6 {
            let set = #"{"other":{"update":[1],"attributes":{"1":{"n":\#(revision)}}}}"#
            _ = try await zone.sync(at: Int64(revision), set)
        }
        #expect(try await Self.entries(zone, 1) == [#"update {"done":0}"#, #"update {"text":"tea"}"#])
    }

    @Test(arguments: Store.all)
    func `values above 1 MiB are not kept, and the change is logged without them`(store: Store) async throws {
        let large = "INSERT INTO note VALUES (9, replace(hex(zeroblob(524289)), '0', 'x'), 7, 0);"
        let zone = try await Zone(store, Self.schema + large)
        _ = try await zone.sync(at: 1, Self.edit(9, #""text":"small""#))
        _ = try await zone.sync(at: 2, Self.edit(9, #""done":8"#))
        #expect(try await Self.entries(zone, 9) == ["update -", #"update {"done":7}"#])
    }

    /// PostgreSQL gets the entries in several statements of some megabytes.
    @Test(arguments: Store.all)
    func `sixty records of 200 kB are deleted at once, and each entry has the values`(store: Store) async throws {
        let long = "replace(hex(zeroblob(100000)), '0', 'x')"
        let zone = try await Zone(
            store,
            """
            CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT);
            WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 60)
            INSERT INTO note SELECT i, \(long) || i FROM n
            """)
        let keys = (1...60).map(String.init).joined(separator: ",")
        _ = try await zone.sync(at: 1, #"{"note":{"delete":[\#(keys)]}}"#)
        let logged = try await zone.column(
            "SELECT key || ' ' || length(replaced) FROM tidemark_log WHERE revision = 2 ORDER BY length(key), key")
        #expect(logged == (1...60).map { "\($0) \(200_011 + String($0).count)" })
    }
}
