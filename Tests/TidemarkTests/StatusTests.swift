import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A11: streams of state say the truth about now.
@Suite(.timeLimit(.minutes(30))) struct StatusTests {
    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"

    private static func device() async throws -> (cluster: Cluster, anna: TestDevice) {
        let cluster = try Cluster(schema: schema, seed: "INSERT INTO notes (text) VALUES ('first')")
        return (cluster, try await cluster.device("anna"))
    }

    @Test func `rule 3 of the app's face: a stream begins with the status now, without a round`() async throws {
        let (_, anna) = try await Self.device()
        try await anna.write("INSERT INTO notes (text) VALUES ('offline')")
        var statuses = anna.engine.statuses.makeAsyncIterator()
        let status = try #require(await statuses.next())
        #expect(status.pendingChangeSets == 1)
        #expect(anna.transport.faults.requests == [])
    }

    @Test func `rule 3 of the app's face: a stream follows each commit offline, and is never older than the file`()
        async throws
    {
        let (_, anna) = try await Self.device()
        var statuses = anna.engine.statuses.makeAsyncIterator()
        #expect(await statuses.next()?.pendingRecords == 0)
        for number in 1...5 {
            try await anna.write("INSERT INTO notes (text) VALUES ('note \(number)')")
            #expect(await statuses.next()?.pendingRecords == number)
        }
    }

    @Test func `a slow reader gets the latest status only`() async throws {
        let (_, anna) = try await Self.device()
        var statuses = anna.engine.statuses.makeAsyncIterator()
        #expect(await statuses.next()?.pendingRecords == 0)
        for number in 1...20 { try await anna.write("INSERT INTO notes (text) VALUES ('note \(number)')") }
        #expect(await statuses.next()?.pendingRecords == 20)
    }

    @Test func `a stream follows another program's commits, also without the background sync`() async throws {
        let (_, anna) = try await Self.device()
        var statuses = anna.engine.statuses.makeAsyncIterator()
        #expect(await statuses.next()?.pendingRecords == 0)
        try anna.writeOutside("INSERT INTO notes (text) VALUES ('from another program')")
        #expect(await statuses.next()?.pendingRecords == 1)
    }

    @Test func `a stream follows rounds: the outbox empties, and an obstacle shows`() async throws {
        let (_, anna) = try await Self.device()
        try await anna.write("INSERT INTO notes (text) VALUES ('sent')")
        let statuses = anna.engine.statuses
        try await anna.engine.sync()
        for await status in statuses {
            #expect(status.pendingChangeSets == 0)
            #expect(status.revision == 2)
            break
        }
    }

    @Test func `rule 8 of the app's face: a stream does not keep the engine, and ends with it`() async throws {
        let (_, anna) = try await Self.device()
        var engine: SyncEngine? = try await SyncEngine(
            anna.database, server: "http://cluster.test", transport: anna.transport)
        weak let weakEngine = engine
        var statuses = try #require(engine).statuses.makeAsyncIterator()
        #expect(await statuses.next() != nil)
        engine = nil
        #expect(await statuses.next() == nil)
        #expect(weakEngine == nil)
    }
}
