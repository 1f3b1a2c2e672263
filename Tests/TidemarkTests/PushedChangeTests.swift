import Testing
import TidemarkCore
import TidemarkServer
import TidemarkTestSupport

@testable import Tidemark

/// Rule 30, D2: what a device makes of a change that the server has told unasked.
@Suite(.timeLimit(.minutes(30))) struct PushedChangeTests {
    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"
    private static let seed = "INSERT INTO notes VALUES (1, 'first'), (2, 'second')"

    /// A zone in which Anna writes, and what Ben is told of it.
    private struct Place {
        let cluster: Cluster
        let anna: TestDevice
        let ben: TestDevice
        let way: InProcessTransport
        let listener: Listener

        init(policies: [String: ConflictPolicy] = [:]) async throws {
            cluster = try Cluster(schema: schema, seed: seed, policies: policies)
            anna = try await cluster.device("anna")
            way = InProcessTransport(to: cluster.service)
            ben = try await cluster.device("ben", over: way)
            let latest = try await cluster.store.latest(zone: "main")
            let name = try await ben.rows("SELECT device FROM tidemark_device")[0]
            listener = try cluster.store.fanOut.listen(to: "main", told: latest, device: name)
            cluster.store.fanOut.committed(latest)
        }

        /// Anna writes and syncs; what Ben hears.
        func hear(_ sql: String) async throws -> PushedChange? {
            try await anna.write(sql)
            try await anna.engine.sync()
            guard case .changed(let change) = await listener.next() else { return nil }
            return PushedChange(end: change.end, since: change.since, answer: Array(change.answer.utf8))
        }

        /// How often Ben has asked.
        var questions: Int { way.faults.questions.count + way.faults.requests.count }
    }

    @Test func `a change that fits is taken in without a question, also the next one`() async throws {
        let place = try await Place()
        for text in ["one", "two", "three"] {
            let change = try await place.hear("UPDATE notes SET text = '\(text)' WHERE id = 1")
            try await place.ben.engine.sync(told: change)
            #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 1") == [text])
        }
        #expect(place.questions == 0)
        try await place.cluster.converge(place.anna, place.ben)
    }

    @Test func `a change that came late, or before an earlier one, makes the device ask`() async throws {
        let place = try await Place()
        let first = try await place.hear("UPDATE notes SET text = 'one' WHERE id = 1")
        let second = try await place.hear("UPDATE notes SET text = 'two' WHERE id = 1")
        try await place.ben.engine.sync(told: second)
        #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 1") == ["two"])
        #expect(place.questions == 1)
        try await place.ben.engine.sync(told: first)
        #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 1") == ["two"])
        #expect(place.questions == 2)
    }

    @Test func `an edit that waits goes out, and what was told is asked for with it`() async throws {
        let place = try await Place()
        let change = try await place.hear("UPDATE notes SET text = 'hers' WHERE id = 1")
        try await place.ben.write("UPDATE notes SET text = 'his' WHERE id = 2")
        try await place.ben.engine.sync(told: change)
        #expect(try await place.ben.rows("SELECT text FROM notes") == ["hers", "his"])
        try await place.cluster.converge(place.anna, place.ben)
    }

    @Test func `an app that asks for a sync gets what was committed after the change, too`() async throws {
        let place = try await Place()
        let change = try await place.hear("UPDATE notes SET text = 'one' WHERE id = 1")
        _ = try await place.hear("UPDATE notes SET text = 'two' WHERE id = 1")
        async let told: Void = place.ben.engine.sync(told: change)
        try await place.ben.engine.sync()
        try await told
        #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 1") == ["two"])
    }

    @Test(arguments: ["", "{", "<html>", "{}", #"{"maxRevision":2,"changeSets":[]}"#])
    func `told what is no answer, a device asks and is well`(answer: String) async throws {
        let place = try await Place()
        let change = try #require(try await place.hear("UPDATE notes SET text = 'one' WHERE id = 1"))
        let broken = PushedChange(end: change.end, since: change.since, answer: Array(answer.utf8))
        try await place.ben.engine.sync(told: broken)
        #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 1") == ["one"])
        try await place.cluster.converge(place.anna, place.ben)
    }

    @Test func `rule 17: told other rows than the server's, a device finds out and mends them`() async throws {
        let place = try await Place()
        let change = try #require(try await place.hear("UPDATE notes SET text = 'one' WHERE id = 1"))
        let text = String(decoding: change.answer, as: UTF8.self)
        let other = PushedChange(
            end: change.end,
            since: change.since,
            answer: Array(text.replacing(#""text":"one""#, with: #""text":"uno""#).utf8)
        )
        try await place.ben.engine.sync(told: other)
        try await place.ben.engine.sync()
        #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 1") == ["one"])
    }

    @Test func `B8: a change that overruled somebody is told, and has to be asked for`() async throws {
        let place = try await Place(policies: ["notes": .lastWriter])
        try await place.ben.write("UPDATE notes SET text = 'his' WHERE id = 1")
        try await place.ben.engine.sync()
        _ = await place.listener.next()
        #expect(try await place.hear("UPDATE notes SET text = 'hers' WHERE id = 1") == nil)
        try await place.ben.engine.sync()
        #expect(try await place.ben.engine.conflicts().count == 1)
    }
}
