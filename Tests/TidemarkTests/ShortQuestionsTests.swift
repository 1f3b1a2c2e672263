import GRDB
import Synchronization
import Testing
import TidemarkCore
import TidemarkTestSupport

@testable import Tidemark

/// Rule 35: a device's use of conditional GETs, and its reaction to a server without them.
@Suite struct ShortQuestionsTests {
    private static let schema = "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)"

    private func cluster() throws -> Cluster {
        try Cluster(schema: Self.schema, seed: "INSERT INTO notes VALUES (1, 'first')")
    }

    @Test(arguments: [ErrorCode.methodNotAllowed, .unknownPath, .malformedRequest])
    func `an older server gets one conditional GET, then full requests, and misses nothing`(code: ErrorCode)
        async throws
    {
        let cluster = try cluster()
        let way = Refusing(InProcessTransport(to: cluster.service), code)
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben", over: way)
        for number in 1...3 {
            try await anna.write("UPDATE notes SET text = '\(number)'")
            try await anna.engine.sync()
            try await ben.engine.sync()
            #expect(try await ben.rows("SELECT text FROM notes") == ["\(number)"])
        }
        #expect(way.questions == 1)
        #expect(way.real.faults.requests.count == 3)
    }

    @Test(arguments: [ErrorCode.fullRequestRequired, .invalidResponse])
    func `rule 21: a server that wants full requests gets conditional GETs ever less often`(code: ErrorCode)
        async throws
    {
        let cluster = try cluster()
        let way = Refusing(InProcessTransport(to: cluster.service), code)
        let ben = try await cluster.device("ben", over: way)
        for _ in 0..<100 { try await ben.engine.sync() }
        // Twice at once, then after 4, 8, 16, 32 and 64 other syncs.
        #expect(way.questions == 6)
        #expect(way.real.faults.requests.count == 100)
        // One answer resets this.
        way.code = nil
        for _ in 0..<80 { try await ben.engine.sync() }
        let requestsBefore = way.real.faults.questions.count
        #expect(requestsBefore > 1)
        try await ben.engine.sync()
        #expect(way.real.faults.questions.count == requestsBefore + 1)
    }

    @Test(arguments: [ErrorCode.unreachable, .unavailable, .storageFailed, .unknownZone])
    func `another error ends the sync, without a second request`(code: ErrorCode) async throws {
        let cluster = try cluster()
        let way = Refusing(InProcessTransport(to: cluster.service), code)
        let ben = try await cluster.device("ben", over: way, limits: .withoutLending)
        let error = await #expect(throws: TidemarkError.self) { try await ben.engine.sync() }
        #expect(error?.code == code)
        #expect(way.real.faults.requests.isEmpty)
        way.code = nil
        try await ben.engine.sync()
        #expect(way.real.faults.requests.isEmpty)
    }

    @Test func `the device predicts the full answer without news, byte for byte`() async throws {
        let cluster = try cluster()
        let ben = try await cluster.device("ben")
        let outgoing = try await ben.database.write { db in
            try DeviceCore(limits: .withoutLending).prepareRequest(
                db, at: Moment(.system, boundaries: []), changeSetsMax: 100, checksRows: true)
        }
        let short = try #require(outgoing.conditionalGet)
        let full = try await cluster.service.sync(zone: "main", body: outgoing.body)
        #expect(short.nothingNew == full)
        #expect(try await cluster.service.news(zone: "main", device: short.device, since: short.tag) == .nothing)
    }

    @Test func `a sync without news writes nothing, so the disk has nothing to flush`() async throws {
        let cluster = try cluster()
        let anna = try await cluster.device("anna")
        // The time of the last answer is stored to the minute; so here it is always noon.
        let ben = try await cluster.device("ben", clock: { 1_800_000_000_000 })
        try await ben.engine.sync()
        let watcher = try DatabaseQueue(path: ben.path)
        let version = { try await watcher.read { try Int.fetchOne($0, sql: "PRAGMA data_version") } }
        let before = try await version()
        for _ in 0..<3 { try await ben.engine.sync() }
        #expect(try await version() == before)
        try await anna.write("UPDATE notes SET text = 'news'")
        try await cluster.converge(anna, ben)
        #expect(try await version() != before)
    }

    @Test func `a device with an answer outstanding, or with edits, sends no conditional GET`() async throws {
        let cluster = try cluster()
        let ben = try await cluster.device("ben")
        try await ben.write("UPDATE notes SET text = 'mine'")
        ben.transport.faults.add(.answerLost)
        await #expect(throws: TidemarkError.self) { try await ben.engine.sync() }
        try await ben.engine.sync()
        #expect(ben.transport.faults.questions.isEmpty)
        try await ben.engine.sync()
        #expect(ben.transport.faults.questions.count == 1)
        try await cluster.converge(ben)
    }

    @Test func `A5: an edit made during a conditional GET is sent after it`() async throws {
        let cluster = try cluster()
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        ben.transport.faults.whileInFlight { try await ben.write("UPDATE notes SET text = 'mine'") }
        try await ben.engine.sync()
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text FROM notes") == ["mine"])
    }
}

/// A transport whose server rejects conditional GETs, while it has a code.
private final class Refusing: ForwardingTransport {
    let real: InProcessTransport
    private let state: Mutex<(code: ErrorCode?, questions: Int)>

    init(_ real: InProcessTransport, _ code: ErrorCode) {
        self.real = real
        state = Mutex((code, 0))
    }

    var questions: Int { state.withLock(\.questions) }

    var code: ErrorCode? {
        get { state.withLock(\.code) }
        set { state.withLock { $0.code = newValue } }
    }

    func news(zone: String, device: String, since tag: ZoneTag) async throws -> [UInt8]? {
        if let code {
            state.withLock { $0.questions += 1 }
            throw TidemarkError(code, "No.", fix: "Ask otherwise.")
        }
        return try await real.news(zone: zone, device: device, since: tag)
    }
}
