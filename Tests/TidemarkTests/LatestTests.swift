import Synchronization
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A wall clock set by a test.
private final class Wall: Sendable {
    private let now: Mutex<Int64>

    init(_ now: Int64 = noon) { self.now = Mutex(now) }

    var read: @Sendable () -> Int64 { { self.now.withLock { $0 } } }

    func turn(to time: Int64) { now.withLock { $0 = time } }
}

private let noon: Int64 = 1_795_000_000_000
private let day: Int64 = 86_400_000

/// Rule 27, case 47: under `latest` the last writer by the hybrid clocks prevails, column by
/// column, also when clocks are wrong.
@Suite struct LatestTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT, done INTEGER NOT NULL DEFAULT 0)
        """
    private static let seed = "INSERT INTO notes (text) VALUES ('milk'), ('bread')"

    private static func pair(
        _ policy: ConflictPolicy = .latest, annas: Wall = Wall(), bens: Wall = Wall(), server: Wall = Wall()
    ) async throws -> (cluster: Cluster, anna: TestDevice, ben: TestDevice) {
        let cluster = try Cluster(schema: schema, seed: seed, policies: ["notes": policy], now: server.read)
        let anna = try await cluster.device("anna", clock: annas.read)
        return (cluster, anna, try await cluster.device("ben", clock: bens.read))
    }

    @Test func `B11: a device's overruled value and a program's replaced value are both kept`() async throws {
        let cluster = try Cluster(
            schema: Self.schema, seed: Self.seed, policies: ["notes": .lastWriter, "notes.done": .latest],
            now: Wall(noon + 60_000).read)
        let anna = try await cluster.device("anna", clock: Wall().read)
        try cluster.writeOutside("UPDATE notes SET text = 'shell', done = 7 WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'goat milk', done = 1 WHERE id = 1")
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT text, done FROM notes WHERE id = 1") == ["goat milk|7"])
        let conflict = try #require(try await anna.engine.conflicts().first)
        #expect(conflict.records.map(\.mine) == [#"{"text":"shell","done":1}"#])
        #expect(conflict.records.map(\.theirs) == [#"{"text":"goat milk","done":7}"#])
    }

    @Test func `B11 C5: an older edit that arrives later loses only its column, and is kept`() async throws {
        let annas = Wall(noon + 60_000)
        let bens = Wall()
        let (cluster, anna, ben) = try await Self.pair(annas: annas, bens: bens)
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk', done = 1 WHERE id = 1")
        try await anna.engine.sync()
        let events = try await ben.events { try await ben.engine.sync() }
        try await cluster.converge(anna, ben)
        #expect(try await ben.rows("SELECT text, done FROM notes WHERE id = 1") == ["goat milk|1"])
        let conflict = try #require(try await ben.engine.conflicts().first)
        #expect(events.contains(.overruled(conflict.id)))
        #expect(conflict.kind == .overruled)
        #expect(conflict.records.map(\.mine) == [#"{"text":"oat milk"}"#])
        #expect(conflict.records.map(\.theirs) == [#"{"text":"goat milk"}"#])
        #expect(try await anna.engine.conflicts().isEmpty)

        try await ben.engine.resolve(conflict.id, with: .retry)
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
    }

    @Test func `B11 C5: a newer edit that arrives later prevails, and the older one is kept`() async throws {
        let annas = Wall()
        let bens = Wall(noon + 60_000)
        let (cluster, anna, ben) = try await Self.pair(annas: annas, bens: bens)
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
        #expect(try await anna.engine.conflicts().flatMap { $0.records.map(\.mine) } == [#"{"text":"goat milk"}"#])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `C5: an offline edit has the time of its drain, not of its sync`() async throws {
        let annas = Wall()
        let bens = Wall()
        let (cluster, anna, ben) = try await Self.pair(annas: annas, bens: bens)
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        _ = try await anna.engine.checkRows()
        bens.turn(to: noon + 60_000)
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await ben.engine.sync()
        annas.turn(to: noon + 120_000)
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
    }

    @Test(arguments: [86_400_000, 1_000_000_000_000, 251_607_300_799_000] as [Int64])
    func `case 47: a clock far ahead prevails at most once, not for ever`(ahead: Int64) async throws {
        let fast = Wall(noon + ahead)
        let server = Wall()
        let bens = Wall()
        let (cluster, anna, ben) = try await Self.pair(annas: fast, bens: bens, server: server)
        for round in 1...3 {
            try await anna.write("UPDATE notes SET text = 'fast \(round)' WHERE id = 1")
            try await anna.engine.sync()
            server.turn(to: noon + Int64(round) * 60_000)
            bens.turn(to: noon + Int64(round) * 60_000)
            try await ben.write("UPDATE notes SET text = 'right \(round)' WHERE id = 1")
            try await cluster.converge(ben, anna)
            #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["right \(round)"])
        }
    }

    @Test(arguments: [0, noon - day, -day])
    func `case 47: a clock in the past loses to others, but not to edits that it has seen`(past: Int64) async throws {
        let (cluster, anna, ben) = try await Self.pair(bens: Wall(past))
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await cluster.converge(anna, ben)
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await cluster.converge(ben, anna)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
        #expect(try await ben.engine.conflicts().isEmpty)
    }

    @Test func `case 47: a clock set back while the app was closed gives no earlier times`() async throws {
        let annas = Wall()
        let (cluster, anna, _) = try await Self.pair(annas: annas)
        try await anna.write("UPDATE notes SET text = 'first' WHERE id = 1")
        try await anna.engine.sync()
        annas.turn(to: 0)
        let later = try await anna.reopened()
        try await later.write("UPDATE notes SET text = 'second' WHERE id = 1")
        try await cluster.converge(later)
        let times = try await cluster.rows(
            "SELECT time FROM tidemark_revision WHERE device IS NOT NULL ORDER BY revision"
        ).compactMap { Int64($0) }
        #expect(times.count == 2 && times[0] < times[1])
    }

    /// Cleo's text is an hour older than Anna's, and not sent yet; Anna's is on the server.
    private static func goats() async throws -> (cluster: Cluster, cleo: TestDevice, anna: TestDevice, ben: TestDevice)
    {
        var limits = Limits.standard
        limits.deltaBytesMin = 1
        let cluster = try Cluster(
            schema: schema, seed: seed, policies: ["notes": .latest], limits: limits, now: Wall().read)
        let cleo = try await cluster.device("cleo", clock: Wall(noon - 3_600_000).read)
        let anna = try await cluster.device("anna", clock: Wall().read)
        let ben = try await cluster.device("ben", clock: Wall(noon - day).read)
        try await cleo.write("UPDATE notes SET text = 'sheep milk' WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'goat milk' WHERE id = 1")
        try await anna.engine.sync()
        return (cluster, cleo, anna, ben)
    }

    @Test(arguments: [true, false])
    func `case 47: an edit by a slow clock beats older edits that its file has shown`(joins: Bool) async throws {
        let (cluster, cleo, anna, early) = try await Self.goats()
        let slow = Wall(noon - day)
        let ben = try await joins ? cluster.device("late", clock: slow.read) : early
        try await ben.engine.sync()
        // All rows, or those that changed; but no change set, which would have its time.
        #expect(try await ben.rows("SELECT text FROM notes WHERE id = 1") == ["goat milk"])
        #expect(!ben.transport.faults.answers.contains { $0.contains("goat milk") })
        try await ben.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await cluster.converge(ben, cleo, anna)
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
        #expect(try await ben.engine.conflicts().isEmpty)
        #expect(try await cleo.engine.conflicts().flatMap { $0.records.map(\.mine) } == [#"{"text":"sheep milk"}"#])
    }

    /// Two devices with these clocks edit the same and different columns in a fixed order of
    /// arrival.
    private static func outcome(_ policy: ConflictPolicy, _ first: Int64, _ second: Int64) async throws -> [String] {
        let (cluster, anna, ben) = try await pair(policy, annas: Wall(first), bens: Wall(second))
        for round in 1...2 {
            try await anna.write("UPDATE notes SET text = 'anna \(round)' WHERE id = 1")
            try await ben.write("UPDATE notes SET text = 'ben \(round)' WHERE id = 1")
            try await ben.write("UPDATE notes SET done = \(round) WHERE id = 2")
            try await cluster.converge(anna, ben)
        }
        return try await cluster.rows("SELECT * FROM notes ORDER BY id") + [
            "\(try await anna.engine.conflicts().count)"
        ] + ["\(try await ben.engine.conflicts().count)"]
    }

    @Test(arguments: [ConflictPolicy.reject, .columns, .lastWriter])
    func `case 47: under the other policies clocks have no effect`(policy: ConflictPolicy) async throws {
        let right = try await Self.outcome(policy, noon, noon)
        let walls = [noon - day, noon + day, 0, 2_147_483_648_000, 253_402_300_799_000]
        for wall in walls {
            #expect(try await Self.outcome(policy, wall, noon) == right)
            #expect(try await Self.outcome(policy, noon, wall) == right)
        }
    }
}
