import Foundation
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// Rule 29: a broken or hostile server, or a proxy that changes its answers: the device
/// refuses with a typed error, loses neither outbox nor rows, and the next honest answer
/// applies.
@Suite struct HostileReplyTests {
    /// A valid answer with one part replaced.
    struct Reply: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let old: String
        let new: String
        /// Whether nothing at all may change; otherwise nothing may be lost.
        var isRefused = true

        init(_ name: String, _ old: String, _ new: String, isRefused: Bool = true) {
            testDescription = name
            self.old = old
            self.new = new
            self.isRefused = isRefused
        }
    }

    private static let top = #"{"maxRevision":7,"#

    static let revisions = [
        Reply("Int64.max", top, #"{"maxRevision":9223372036854775807,"#),
        Reply("beyond 64 bits", top, #"{"maxRevision":9223372036854775808,"#),
        Reply("1e300", top, #"{"maxRevision":1e300,"#), Reply("giant", top, #"{"maxRevision":4503599627370496,"#),
        Reply("as text", top, #"{"maxRevision":"7","#), Reply("as a double", top, #"{"maxRevision":7.0,"#),
        Reply("true", top, #"{"maxRevision":true,"#), Reply("null", top, #"{"maxRevision":null,"#),
        Reply("twice", top, #"{"maxRevision":1,"maxRevision":7,"#),
        Reply("negative", top, #"{"maxRevision":-7,"#, isRefused: false),
        Reply("behind", top, #"{"maxRevision":0,"#, isRefused: false), Reply("one short", top, #"{"maxRevision":6,"#),
        Reply("doubled", #""revision":3,"conflict""#, #""revision":2,"conflict""#),
        Reply("a gap", #""revision":3,"conflict""#, #""revision":4,"conflict""#),
        Reply("out of order", #""revision":4,"conflict""#, #""revision":5,"conflict""#),
        Reply("of a set, Int64.max", #""revision":4,"c"#, #""revision":9223372036854775807,"c"#),
        Reply("of a set, as text", #""revision":4,"conflict""#, #""revision":"4","conflict""#),
        Reply("of a set, 4e99", #""revision":4,"conflict""#, #""revision":4e99,"conflict""#),
        Reply("of a set, missing", #""revision":4,"conflict""#, #""conflict""#),
        Reply("of a set, long past", #""revision":2,"conflict""#, #""revision":1,"conflict""#),
        Reply("of a record, -1", #""revision":4,"name""#, #""revision":-1,"name""#),
        Reply("more without end", #""more":false"#, #""more":true"#, isRefused: false),
        Reply("more, as text", #""more":false"#, #""more":"no""#),
    ]

    static let identities = [
        Reply("an old id that was never sent", #""__oldId__":-10"#, #""__oldId__":-99"#),
        Reply("an old id of another table", #""__oldId__":-10"#, #""__oldId__":-11"#),
        Reply("an old id that is text", #""__oldId__":-10"#, #""__oldId__":"x""#),
        Reply("an old id that is a list", #""__oldId__":-10"#, #""__oldId__":[-10]"#),
        Reply("an old id left out", #""__oldId__":-10,"#, ""),
        Reply("an old id of Int64.min", #":-10,"#, #":-9223372036854775808,"#),
        Reply("an old id on an update", #""1":{"revision":5"#, #""1":{"__oldId__":-10,"revision":5"#),
        Reply(
            "the id of another device's team", #"[4],"update":[],"delete":[],"attributes":{"4":{"__oldId__":-10"#,
            #"[1],"update":[],"delete":[],"attributes":{"1":{"__oldId__":-10"#),
        Reply(
            "the id of a team in the same answer", #"[4],"update":[],"delete":[],"attributes":{"4":{"__oldId__":-10"#,
            #"[3],"update":[],"delete":[],"attributes":{"3":{"__oldId__":-10"#),
        Reply(
            "two teams, one id", #"[5],"update":[],"delete":[],"attributes":{"5":{"__oldId__":-13"#,
            #"[4],"update":[],"delete":[],"attributes":{"4":{"__oldId__":-13"#),
        Reply("one team, two ids", #""__oldId__":-13"#, #""__oldId__":-10"#),
        Reply(
            "a temporary id as the permanent one", #"[4],"update":[],"delete":[],"attributes":{"4":{"__oldId__":-10"#,
            #"[-4],"update":[],"delete":[],"attributes":{"-4":{"__oldId__":-10"#),
        Reply(
            "an id of the reserved region", #"[3],"update":[],"delete":[],"attributes":{"3":"#,
            #"[4503599627370497],"update":[],"delete":[],"attributes":{"4503599627370497":"#),
    ]

    static let sets = [
        Reply("a verdict on an unknown set", #"CONFLICT"#, "5f0f36ab-2a2f-4a3b-8f3b-7e1d1a5cf0a1"),
        Reply("two verdicts on one set", #"CONFLICT"#, "ACCEPTED"),
        Reply("an accepted set under another id", "ACCEPTED", "5f0f36ab-2a2f-4a3b-8f3b-7e1d1a5cf0a1", isRefused: false),
        Reply("a conflict that was none", #""conflict":true"#, #""conflict":false"#),
        Reply("an acceptance that was none", #""revision":5,"conflict":false"#, #""revision":5,"conflict":true"#),
        Reply("a conflict, as text", #""conflict":true"#, #""conflict":"yes""#),
        Reply("an id that is a number", #""id":"CONFLICT""#, #""id":7"#),
        Reply("reasons that are none", #""reasons":["#, #""reasons":[5,"#),
        Reply("reasons that are text", #""rule":"changed""#, #""rule":5"#),
        Reply(
            "a note on a table that is a number", top,
            #"{"overruled":[{"number":1,"revision":2,"records":[{"table":5,"key":7,"lost":{}}]}],"maxRevision":7,"#),
        Reply("a note without records", top, #"{"overruled":[{"number":1,"revision":2}],"maxRevision":7,"#),
        Reply(
            "overruled values in a table that is a number", #""revision":5,"conflict":false"#,
            #""overruled":[{"table":5,"key":7,"lost":{}}],"revision":5,"conflict":false"#),
        Reply("a reference to nothing", #""team_id":4"#, #""team_id":777"#),
        Reply(
            "a parent deleted under its children", #""create":[3],"update":[],"delete":[]"#,
            #""create":[3],"update":[],"delete":[1]"#),
        Reply("NULL where there can be none", #""name":"Jena""#, #""name":null"#),
        Reply("an update of an unknown record", #""update":[3]"#, #""update":[333]"#),
        Reply("keys that are an object", #""create":[3]"#, #""create":{"3":1}"#),
        Reply("keys that are text", #""create":[3]"#, #""create":["3"]"#),
        Reply("a value that is a list", #""name":"Jena""#, #""name":["Jena"]"#),
        Reply("an unknown table", #""tags""#, #""labels""#, isRefused: false),
        Reply("an unknown column", #""colour""#, #""color""#, isRefused: false),
        Reply("a column twice", #""name":"Jena""#, #""name":"Bonn","name":"Jena""#),
        Reply("a table twice", #""tags":{"#, #""tags":{},"tags":{"#),
        Reply("another history", #""epoch":""#, #""epoch":"x"#, isRefused: false),
        Reply("an epoch that is a number", #""epoch":""#, #""epoch":7,"was":""#),
        Reply("an epoch twice", #""epoch":""#, #""epoch":"x","epoch":""#), Reply("a NUL", #""Jena""#, "\"Je\u{0}na\""),
        Reply(
            "nested a hundred deep", top,
            #"{"x":"# + String(repeating: "[", count: 100) + String(repeating: "]", count: 100) + #","maxRevision":7,"#),
        Reply("nested a million deep", top, String(repeating: "[", count: 1_000_000)),
    ]

    private static let replies = revisions + identities + sets

    @Test func `rules 6 7 10, case 75: impossible replies change nothing, and the next applies`() async throws {
        let scene = try await Scene()
        let before = try await scene.everything()
        let impossible = Self.replies.filter(\.isRefused)
        for reply in impossible {
            let error = await scene.sync(offersSnapshots: false) { try scene.spoil($0, reply) }
            #expect(error?.code == .invalidResponse, "\(reply.testDescription): \(error as Any)")
            #expect(try await scene.everything() == before, "\(reply.testDescription)")
        }
        try await scene.expectGoodEnd()
    }

    @Test(arguments: replies.filter { !$0.isRefused })
    func `rule 10, case 75: a plausible reply, or a demand for a snapshot, loses nothing`(reply: Reply)
        async throws
    {
        let scene = try await Scene()
        _ = await scene.sync { try scene.spoil($0, reply) }
        try await scene.expectGoodEnd()
    }

    @Test func `rule 10, case 23: a response that is no answer changes nothing`() async throws {
        let texts = [
            "", "null", "true", "7", "[]", "{}", "\u{FEFF}{}", #"{"changeSets":[]}"#, "<html>Welcome</html>",
            #"{"error":{"code":"constraintViolated","message":"m","fix":"f","recovery":"permanent"}}"#,
        ]
        let scene = try await Scene()
        let before = try await scene.everything()
        for text in texts {
            let error = await scene.sync { _ in text }
            #expect(error?.code == .invalidResponse, "\(text)")
            #expect(try await scene.everything() == before, "\(text)")
        }
        try await scene.expectGoodEnd()
    }

    @Test func `rule 22: a reply about change sets that were never sent changes nothing`() async throws {
        let scene = try await Scene()
        let before = try await scene.everything()
        let spoilers: [@Sendable (String) -> String] = [
            { $0.replacing(#""seen":"#, with: #""seen":99999999999999999999,"was":"#) },
            // In addition to the existing verdict.
            { String($0.dropLast(2)) + scene.named(#",{"id":"CONFLICT","conflict":true,"reasons":[]}]}"#) },
        ]
        for (number, spoil) in spoilers.enumerated() {
            let error = await scene.sync(offersSnapshots: false) { answer in
                // A device with a doubtful identity asks for the verdicts of its change sets.
                guard answer.contains(#""known":["#) else { throw TidemarkError(.identityInUse, "m", fix: "f") }
                try #require(answer.contains(scene.named("CONFLICT")))
                return spoil(answer)
            }
            #expect(error?.code == .invalidResponse, "\(number): \(error as Any)")
            #expect(try await scene.everything() == before, "\(number)")
        }
        try await scene.expectGoodEnd()
    }

    @Test func `rule 10: a refusal of another change set's records changes nothing`() async throws {
        let scene = try await Scene()
        let before = try await scene.everything()
        let error = await scene.sync(offersSnapshots: false) { answer in
            // A device with a doubtful identity asks for the verdicts of its change sets.
            guard answer.contains(#""known":["#) else { throw TidemarkError(.identityInUse, "m", fix: "f") }
            return answer.replacing(scene.named("ACCEPTED"), with: "other")
                .replacing(scene.named("CONFLICT"), with: scene.named("ACCEPTED"))
                .replacing("other", with: scene.named("CONFLICT"))
        }
        #expect(error?.code == .invalidResponse)
        #expect(try await scene.everything() == before)
        try await scene.expectGoodEnd()
    }

    @Test(arguments: ["-10", "-9223372036854775808", "2"])
    func `rule 10: an answer without new records cannot give a record the id of a pending one`(oldID: String)
        async throws
    {
        let cluster = try Cluster(
            schema: "CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT)",
            seed: "INSERT INTO teams VALUES (1, 'Kiel'), (2, 'Bonn')")
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await ben.write("UPDATE teams SET name = 'Beuel' WHERE id = 2")
        try await ben.engine.sync()
        try await anna.write("UPDATE teams SET name = 'Köln' WHERE id = 1")
        anna.transport.faults.add(.answerLost)
        await anna.syncInVain()
        let spoiling = SpoilingTransport(wrapping: anna.transport) { $0 }
        spoiling.change(offersSnapshots: false) { answer in
            // The app writes while the request is under way.
            try anna.writeOutside("INSERT OR IGNORE INTO teams (id, name) VALUES (-10, 'Lemgo')")
            return answer.replacing(#""1":{"revision":"#, with: #""1":{"__oldId__":\#(oldID),"revision":"#)
        }
        let engine = try await SyncEngine(anna.database, server: "http://cluster.test", transport: spoiling)
        await #expect { try await engine.sync() } throws: { ($0 as? TidemarkError)?.code == .invalidResponse }
        #expect(spoiling.changedAnswers.contains { $0.contains("__oldId__") })
        #expect(try await anna.rows("SELECT count(*) FROM tidemark_idmap") == ["0"])
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT name FROM teams ORDER BY name") == ["Beuel", "Köln", "Lemgo"])
    }

    @Test func `rule 10: new records missing from an accepted set's answer become conflicts`() async throws {
        let scene = try await Scene()
        _ = await scene.sync { answer in
            answer.replacing(
                #""tags":{"create":["blue"],"update":[],"delete":[],"attributes":{"blue":{"revision":7,"colour":"0000ff"}}}"#,
                with: #""tags":{"create":[],"update":[],"delete":[],"attributes":{}}"#)
        }
        let records = try await scene.anna.engine.conflicts().flatMap(\.records)
        #expect(records.contains { $0.table == "tags" && $0.key == #""blue""# && $0.mine != nil })
    }

    @Test func `rule 20: an error that names no change set ends the sync and parks nothing`() async throws {
        let thrown = [
            TidemarkError(.constraintViolated, "m", fix: "f", place: .init(id: "not mine")),
            TidemarkError(.unknownTable, "m", fix: "f", place: .init(changeSet: 40)),
            TidemarkError(.schemaMismatch, "m", fix: "f"), TidemarkError(.epochMismatch, "m", fix: "f"),
            TidemarkError(.snapshotRequired, "m", fix: "f"), TidemarkError(.predecessorMissing, "m", fix: "f"),
            TidemarkError(ErrorCode(rawValue: "coffeeBreak"), "m", fix: "f"),
        ]
        let scene = try await Scene()
        let outbox = try await scene.outbox()
        for error in thrown {
            #expect(await scene.sync { _ in throw error } == error)
            #expect(try await scene.outbox() == outbox, "\(error)")
        }
        try await scene.expectGoodEnd()
    }
}

/// Anna was offline, and edited; Ben was online, and edited too.
///
/// Her request's answer has every part: revisions of others, accepted sets with new ids, a
/// conflict.
struct Scene: Sendable {
    let cluster: Cluster
    let anna: TestDevice
    let ben: TestDevice
    /// The ids of Anna's change sets, in order.
    private let ids: [String]
    private let spoiling: SpoilingTransport
    private let spoilt: SyncEngine

    static let schema = """
        CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE players (id INTEGER PRIMARY KEY, team_id INTEGER NOT NULL REFERENCES teams,
            name TEXT, goals INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
        """

    init() async throws {
        cluster = try Cluster(
            schema: Self.schema,
            seed: """
                INSERT INTO teams (name) VALUES ('Kiel'), ('Bonn');
                INSERT INTO players (team_id, name) VALUES (1, 'Anna'), (1, 'Ben'), (2, 'Carla');
                INSERT INTO tags VALUES ('red', 'ff0000');
                """
        )
        anna = try await cluster.device("anna")
        ben = try await cluster.device("ben")
        try await ben.write("UPDATE players SET goals = 5 WHERE id = 3")
        try await ben.write("INSERT INTO teams (name) VALUES ('Jena')")
        try await ben.engine.sync()
        try await anna.write(
            """
            INSERT INTO teams (id, name) VALUES (-10, 'Lemgo');
            INSERT INTO players (id, team_id, name) VALUES (-11, -10, 'Dora'), (-12, 1, 'Emil')
            """
        )
        try await anna.write("UPDATE players SET goals = 7 WHERE id = 1")
        try await anna.write("UPDATE players SET name = 'Clara' WHERE id = 3")
        try await anna.write("INSERT INTO teams (id, name) VALUES (-13, 'Gotha')")
        try await anna.write("INSERT INTO tags VALUES ('blue', '0000ff')")
        // Everything is frozen and on the server; only the answer is missing.
        anna.transport.faults.add(.answerLost)
        await anna.syncInVain()
        ids = try await anna.rows("SELECT id FROM tidemark_changeset ORDER BY seq")
        spoiling = SpoilingTransport(wrapping: anna.transport) { $0 }
        spoilt = try await SyncEngine(anna.database, server: "http://cluster.test", transport: spoiling)
    }

    /// The valid answer with a reply's part replaced.
    func spoil(_ answer: String, _ reply: HostileReplyTests.Reply) throws -> String {
        let old = named(reply.old)
        // After a snapshot an answer has fewer parts, and before one the device asks for verdicts.
        if reply.isRefused, !answer.contains(#""known":["#) {
            try #require(answer.contains(old), "the answer has no \(old)")
        }
        return answer.replacing(old, with: named(reply.new))
    }

    /// The answers of the last sync, as Anna's device received them.
    var answers: String { spoiling.changedAnswers.joined(separator: "\n") }

    /// A text with the placeholders of the tests replaced by this scene's ids.
    func named(_ text: String) -> String {
        text.replacing("ACCEPTED", with: ids[1]).replacing("CONFLICT", with: ids[2])
    }

    /// Syncs Anna's file over a network that changes answers, and snapshots too unless it offers
    /// them; returns the error, if any.
    func sync(offersSnapshots: Bool = true, _ change: @escaping @Sendable (String) throws -> String) async
        -> TidemarkError?
    {
        spoiling.change(offersSnapshots: offersSnapshots, with: change)
        do {
            try await spoilt.sync()
            return nil
        } catch {
            #expect(error is TidemarkError, "\(error)")
            return error as? TidemarkError
        }
    }

    /// Outbox and conflicts.
    func outbox() async throws -> [String] {
        try await anna.rows(
            """
            SELECT 'set', seq, id, wire FROM tidemark_changeset
            UNION ALL SELECT 'change', tbl, key, attributes FROM tidemark_outbox
            UNION ALL SELECT 'parked', id, tbl, mine FROM tidemark_conflict_record
            """
        )
    }

    /// The whole file: rows, outbox, ids, revision.
    func everything() async throws -> [String] {
        try await outbox()
            + anna.rows(
                """
                SELECT 'team', id, name, '', '' FROM teams
                UNION ALL SELECT 'player', id, team_id, name, goals FROM players
                UNION ALL SELECT 'tag', name, colour, '', '' FROM tags
                UNION ALL SELECT 'state', revision, applying, '', '' FROM tidemark_state
                UNION ALL SELECT 'base', tbl, key, image, '' FROM tidemark_base
                UNION ALL SELECT 'id', tbl, temporary, permanent, '' FROM tidemark_idmap
                UNION ALL SELECT 'device', device, epoch, server, '' FROM tidemark_device
                """
            )
    }

    /// Anna's file is sound, and each of her edits is in it, at the server, or parked.
    func expectNothingLost(_ comment: Comment) async throws {
        #expect(try await anna.rows("PRAGMA integrity_check") == ["ok"], comment)
        #expect(try await anna.rows("PRAGMA foreign_key_check") == [], comment)
        #expect(try await anna.rows("SELECT applying FROM tidemark_state") == ["0"], comment)
        let countQuery = """
            SELECT count(*) FROM (SELECT attributes AS edit FROM tidemark_outbox
                UNION ALL SELECT mine FROM tidemark_conflict_record) WHERE edit LIKE
            """
        for (edit, query) in [
            ("Lemgo", "teams WHERE name = 'Lemgo'"), ("Dora", "players WHERE name = 'Dora'"),
            ("Gotha", "teams WHERE name = 'Gotha'"), ("0000ff", "tags WHERE colour = '0000ff'"),
            (#""goals":7"#, "players WHERE goals = 7"), ("Clara", "players WHERE name = 'Clara'"),
        ] {
            let waiting = try await anna.rows("\(countQuery) '%\(edit)%'") != ["0"]
            let isServed = try await cluster.rows("SELECT count(*) FROM \(query)") == ["1"]
            #expect(waiting || isServed, "\(comment): \(edit)")
        }
        // The file stays usable: a valid answer applies.
        try await anna.engine.sync()
        #expect(try await anna.engine.status().pendingChangeSets == 0, comment)
    }

    /// The network works again: each of Anna's edits is at the server once, or a conflict.
    func expectGoodEnd() async throws {
        try await cluster.converge(anna, ben)
        #expect(
            try await cluster.rows("SELECT name FROM teams ORDER BY id") == ["Kiel", "Bonn", "Jena", "Lemgo", "Gotha"])
        #expect(
            try await ben.rows(
                "SELECT p.name, goals, t.name FROM players AS p JOIN teams AS t ON t.id = team_id ORDER BY p.id") == [
                    "Anna|7|Kiel", "Ben|0|Kiel", "Carla|5|Bonn", "Dora|0|Lemgo", "Emil|0|Kiel",
                ])
        #expect(try await ben.rows("SELECT name FROM tags ORDER BY name") == ["blue", "red"])
        let conflicts = try await anna.engine.conflicts()
        #expect(conflicts.map(\.id) == [ids[2]])
        #expect(conflicts.first?.records.map(\.mine) == [#"{"name":"Clara"}"#])
    }
}
