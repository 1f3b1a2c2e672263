import Dispatch
import Foundation
package import Logging
import Synchronization
import TidemarkCore
package import TidemarkEngine
import TidemarkGzip

/// Change sets that servers share in Redis or Valkey, as compressed JSON.
///
/// A key consists of epoch, zone, schema and revision. The cache has one connection on a thread of its own. Every wait
/// is short, and after a failure the cache pauses, so a failing Redis costs little. Safe to use from any task.
package final class RedisCache: SharedChangeSets {
    /// The longest wait for one answer, in milliseconds.
    private static let answerTimeout = 200
    /// The longest time of one lookup, with all its answers.
    private static let lookupMax = Duration.seconds(1)
    /// The most change sets in one command.
    private static let batch = 100
    private static let bytesMax = 1 << 20
    /// The lifetime of a cached change set, in seconds.
    private static let lifetime = 86_400
    /// The most waiting offers; later ones are dropped.
    private static let offersMax = 16

    private struct State {
        var pause = Pause()
        var offers = 0
    }

    private let address: RedisAddress
    private let logger: Logger
    private let queue = DispatchQueue(label: "tidemark.redis")
    private let state = Mutex(State())
    private let line = Line()

    /// The connection, which only the queue uses.
    private final class Line: @unchecked Sendable {
        // Only read and written on the cache's serial queue.
        var connection: RedisConnection?
    }

    /// Makes a cache; it connects at its first use.
    package init(_ address: RedisAddress, logger: Logger) {
        self.address = address
        self.logger = logger
        RedisConnection.ignoreBrokenPipes()
    }

    package func changeSets(_ range: ClosedRange<Int64>, of zone: SharedZone) async -> [RecentChangeSet] {
        guard isUsable else { return [] }
        return await withCheckedContinuation { continuation in
            queue.async { [self] in
                let changeSets = attempt { try fetch(range, zone: zone, connection: $0) }
                continuation.resume(returning: changeSets ?? [])
            }
        }
    }

    package func keep(_ run: [RecentChangeSet], of zone: SharedZone) {
        let isAccepted = state.withLock { state in
            guard state.pause.isOver, state.offers < Self.offersMax else { return false }
            state.offers += 1
            return true
        }
        guard isAccepted else { return }
        queue.async { [self] in
            _ = attempt { try store(run, zone: zone, connection: $0) }
            state.withLock { $0.offers -= 1 }
        }
    }

    // MARK: On the queue

    private func fetch(_ range: ClosedRange<Int64>, zone: SharedZone, connection: RedisConnection) throws
        -> [RecentChangeSet]
    {
        let start = ContinuousClock.now
        var changeSets: [RecentChangeSet] = []
        // Latest first: the end of the range is useful without its beginning.
        var last = range.upperBound
        while last >= range.lowerBound, ContinuousClock.now - start < Self.lookupMax {
            let first = max(range.lowerBound, last - Int64(Self.batch) + 1)
            let keys = (first...last).map { Self.key($0, zone) }
            guard case .array(let replies) = try connection.run(["MGET"] + keys) else { break }
            let entries = try replies.compactMap(Self.decode)
            guard entries.count == keys.count else { break }
            changeSets = entries + changeSets
            last = first - 1
        }
        return changeSets
    }

    private func store(_ run: [RecentChangeSet], zone: SharedZone, connection: RedisConnection) throws {
        let small = run.filter { $0.body.utf8.count <= Self.bytesMax }
        for entry in small {
            let value = gzip(Array(try JSONEncoder().encode(entry)))
            try connection.send([
                Array("SET".utf8), Array(Self.key(entry.revision, zone).utf8), value, Array("EX".utf8),
                Array("\(Self.lifetime)".utf8),
            ])
        }
        for _ in small { _ = try connection.receive() }
    }

    private static func key(_ revision: Int64, _ zone: SharedZone) -> String {
        "tidemark:\(zone.epoch):\(zone.zone):\(zone.schema.prefix(16)):\(revision)"
    }

    /// Decodes a cached change set; nil when it is missing or invalid.
    private static func decode(_ reply: RedisConnection.Reply) throws -> RecentChangeSet? {
        guard case .bytes(let bytes) = reply else { return nil }
        do {
            let json = try gunzip(bytes, bytesMax: 4 * bytesMax)
            return try JSONDecoder().decode(RecentChangeSet.self, from: Data(json))
        } catch is GzipError { return nil } catch is DecodingError { return nil }
    }

    // MARK: Outages

    private var isUsable: Bool { state.withLock(\.pause.isOver) }

    /// Runs `body` on the connection, connecting first if necessary; nil after a failure.
    private func attempt<Result>(_ body: (RedisConnection) throws -> Result) -> Result? {
        guard isUsable else { return nil }
        do {
            let connection = try line.connection ?? RedisConnection(address, milliseconds: Self.answerTimeout)
            line.connection = connection
            let result = try body(connection)
            if state.withLock({ $0.pause.end() }) {
                logger.info("Redis is back", metadata: ["address": "\(address.place)"])
            }
            return result
        } catch {
            line.connection = nil
            if state.withLock({ $0.pause.begin() }) {
                logger.warning(
                    "Redis does not answer; the server works without it",
                    metadata: ["address": "\(address.place)", "error": "\(error)"])
            }
            return nil
        }
    }
}

/// The pause after a failure, longer each time.
struct Pause {
    private var until: ContinuousClock.Instant?
    private var length = Duration.zero
    var isOver: Bool { until.map { ContinuousClock.now >= $0 } ?? true }

    /// Records a failure; returns whether it is the first one.
    mutating func begin() -> Bool {
        let isFirst = length == .zero
        length = isFirst ? .seconds(1) : min(length * 2, .seconds(30))
        until = .now + length
        return isFirst
    }

    /// Records a success; returns whether it follows a failure.
    mutating func end() -> Bool {
        defer { self = Pause() }
        return length != .zero
    }
}
