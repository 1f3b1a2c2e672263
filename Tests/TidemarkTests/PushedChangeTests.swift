import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

@testable import Tidemark

/// Rule 30, D2: a device's handling of a change pushed by the server.
@Suite(.timeLimit(.minutes(30))) struct PushedChangeTests {
    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"
    private static let seed = "INSERT INTO notes VALUES (1, 'first'), (2, 'second')"

    /// A zone in which Anna writes, and the changes pushed to Ben.
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
            ben = try await cluster.device("ben", over: way, limits: .withoutLending)
            let latest = try await cluster.store.latest(zone: "main")
            let name = try await ben.rows("SELECT device FROM tidemark_device")[0]
            listener = try cluster.store.fanOut.listen(to: "main", since: latest, device: name)
            cluster.store.fanOut.publish(latest)
        }

        /// Anna writes and syncs; returns the change pushed to Ben.
        func hear(_ sql: String) async throws -> PushedChange? {
            try await anna.write(sql)
            try await anna.engine.sync()
            guard case .changed(let change) = await listener.next() else { return nil }
            return PushedChange(end: change.end, since: change.since, answer: Array(change.answer.utf8))
        }

        /// The number of Ben's requests.
        var questions: Int { way.faults.questions.count + way.faults.requests.count }
    }

    @Test func `a pushed change at the device's revision is applied without a request, the next too`() async throws {
        let place = try await Place()
        for text in ["one", "two", "three"] {
            let change = try await place.hear("UPDATE notes SET text = '\(text)' WHERE id = 1")
            try await place.ben.engine.sync(pushedChange: change)
            #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 1") == [text])
        }
        #expect(place.questions == 0)
        try await place.cluster.converge(place.anna, place.ben)
    }

    @Test func `a pushed change with a gap, or out of order, makes the device ask`() async throws {
        let place = try await Place()
        let first = try await place.hear("UPDATE notes SET text = 'one' WHERE id = 1")
        let second = try await place.hear("UPDATE notes SET text = 'two' WHERE id = 1")
        try await place.ben.engine.sync(pushedChange: second)
        #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 1") == ["two"])
        #expect(place.questions == 1)
        try await place.ben.engine.sync(pushedChange: first)
        #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 1") == ["two"])
        #expect(place.questions == 2)
    }

    @Test func `a device with a pending edit sends it and asks for the pushed change`() async throws {
        let place = try await Place()
        let change = try await place.hear("UPDATE notes SET text = 'hers' WHERE id = 1")
        try await place.ben.write("UPDATE notes SET text = 'his' WHERE id = 2")
        try await place.ben.engine.sync(pushedChange: change)
        #expect(try await place.ben.rows("SELECT text FROM notes") == ["hers", "his"])
        try await place.cluster.converge(place.anna, place.ben)
    }

    @Test func `a sync called by the app gets commits after the pushed change, too`() async throws {
        let place = try await Place()
        let change = try await place.hear("UPDATE notes SET text = 'one' WHERE id = 1")
        _ = try await place.hear("UPDATE notes SET text = 'two' WHERE id = 1")
        async let pushing: Void = place.ben.engine.sync(pushedChange: change)
        try await place.ben.engine.sync()
        try await pushing
        #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 1") == ["two"])
    }

    @Test(arguments: ["", "{", "<html>", "{}", #"{"maxRevision":2,"changeSets":[]}"#])
    func `after a malformed push the device asks and converges`(answer: String) async throws {
        let place = try await Place()
        let change = try #require(try await place.hear("UPDATE notes SET text = 'one' WHERE id = 1"))
        let broken = PushedChange(end: change.end, since: change.since, answer: Array(answer.utf8))
        try await place.ben.engine.sync(pushedChange: broken)
        #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 1") == ["one"])
        try await place.cluster.converge(place.anna, place.ben)
    }

    @Test func `rule 17: a push with another fingerprint makes the device repair its rows`() async throws {
        let place = try await Place()
        let change = try #require(try await place.hear("UPDATE notes SET text = 'one' WHERE id = 1"))
        let text = String(decoding: change.answer, as: UTF8.self)
        let other = PushedChange(
            end: change.end, since: change.since,
            answer: Array(text.replacing(#""text":"one""#, with: #""text":"uno""#).utf8))
        try await place.ben.engine.sync(pushedChange: other)
        try await place.ben.engine.sync()
        #expect(try await place.ben.rows("SELECT text FROM notes WHERE id = 1") == ["one"])
    }

    @Test func `B8: a change that overruled a value is announced only, and fetched by a request`() async throws {
        let place = try await Place(policies: ["notes": .lastWriter])
        try await place.ben.write("UPDATE notes SET text = 'his' WHERE id = 1")
        try await place.ben.engine.sync()
        _ = await place.listener.next()
        #expect(try await place.hear("UPDATE notes SET text = 'hers' WHERE id = 1") == nil)
        try await place.ben.engine.sync()
        #expect(try await place.ben.engine.conflicts().count == 1)
    }
}
